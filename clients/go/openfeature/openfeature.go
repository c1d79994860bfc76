// Package openfeature is a provider for OpenFeature's SDK: it evaluates as the client of
// the gateway does, with the last good value while that is away, whose reason is STALE.
package openfeature

import (
	"context"
	"errors"

	cadenza "github.com/cadenza-gateway/cadenza/clients/go"
	of "github.com/open-feature/go-sdk/openfeature"
)

// Provider evaluates with a client, which stays the app's to close.
type Provider struct{ Client *cadenza.Client }

var _ of.FeatureProvider = Provider{}

// Metadata returns the provider's name.
func (Provider) Metadata() of.Metadata { return of.Metadata{Name: "cadenza"} }

// Hooks returns none.
func (Provider) Hooks() []of.Hook { return nil }

// BooleanEvaluation evaluates a flag that is a boolean.
func (p Provider) BooleanEvaluation(ctx context.Context, flag string, fallback bool, in of.FlattenedContext) of.BoolResolutionDetail {
	return evaluate(ctx, p, flag, fallback, in)
}

// StringEvaluation evaluates a flag that is a string.
func (p Provider) StringEvaluation(ctx context.Context, flag, fallback string, in of.FlattenedContext) of.StringResolutionDetail {
	return evaluate(ctx, p, flag, fallback, in)
}

// FloatEvaluation evaluates a flag that is a number.
func (p Provider) FloatEvaluation(ctx context.Context, flag string, fallback float64, in of.FlattenedContext) of.FloatResolutionDetail {
	return evaluate(ctx, p, flag, fallback, in)
}

// IntEvaluation evaluates a flag that is a whole number.
func (p Provider) IntEvaluation(ctx context.Context, flag string, fallback int64, in of.FlattenedContext) of.IntResolutionDetail {
	return evaluate(ctx, p, flag, fallback, in)
}

// ObjectEvaluation evaluates a flag of any type.
func (p Provider) ObjectEvaluation(ctx context.Context, flag string, fallback any, in of.FlattenedContext) of.InterfaceResolutionDetail {
	return evaluate(ctx, p, flag, fallback, in)
}

func evaluate[T any](ctx context.Context, p Provider, flag string, fallback T, in of.FlattenedContext) (found of.GenericResolutionDetail[T]) {
	details := cadenza.Evaluate(ctx, p.Client, flag, fallback, in)
	found.Value, found.Reason, found.Variant, found.FlagMetadata = details.Value, of.Reason(details.Reason), details.Variant, details.Metadata
	wrong := errors.Is(details.Err, cadenza.ErrType)
	if details.Stale && !wrong {
		found.Reason = "STALE"
	} else if details.Err != nil {
		found.Reason, found.ResolutionError = of.ErrorReason, of.NewGeneralResolutionError(details.Err.Error())
		e, _ := errors.AsType[cadenza.Error](details.Err)
		switch {
		case wrong:
			found.ResolutionError = of.NewTypeMismatchResolutionError(details.Err.Error())
		case e.Code == string(of.FlagNotFoundCode):
			found.ResolutionError = of.NewFlagNotFoundResolutionError(e.Message)
		case e.Code == string(of.TargetingKeyMissingCode):
			found.ResolutionError = of.NewTargetingKeyMissingResolutionError(e.Message)
		case e.Code == string(of.InvalidContextCode):
			found.ResolutionError = of.NewInvalidContextResolutionError(e.Message)
		}
	}
	return found
}
