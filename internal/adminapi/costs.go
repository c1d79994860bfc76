package adminapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
)

// costParameters are the parameters of GET /cadenza/costs.
var costParameters = []string{
	"workspace", "since", "until", "by", "top", "key", "variant", "version", "api_key", "provider", "model", MetadataParameter,
}

// Costs is the answer of GET /cadenza/costs.
type Costs struct {
	Since      time.Time `json:"since,omitzero"`
	Until      time.Time `json:"until,omitzero"`
	By         []string  `json:"by"`
	Workspaces []string  `json:"workspaces"`

	// Oldest is the time of the oldest trace that is stored.
	Oldest time.Time `json:"oldest,omitzero"`
	// Unlogged are the endpoints whose calls leave no trace, so that the sums lack their
	// costs. An answer for several workspaces names them WORKSPACE/KEY.
	Unlogged []string `json:"unlogged,omitempty"`

	sqlite.Costs
}

// serveCosts answers GET /cadenza/costs: the costs of the calls of endpoints, for all
// workspaces, which share a provider's bill, or for one with ?workspace=NAME.
func serveCosts(w http.ResponseWriter, r *http.Request) error {
	values := r.URL.Query()
	q, err := ParseCosts(values, time.Now())
	if err != nil {
		return apiError(http.StatusBadRequest, "%v", err)
	}
	all, err := askedFor(r)
	if err != nil {
		return err
	}
	answer := Costs{Since: q.Filter.Since.UTC(), Until: q.Filter.Until.UTC(), By: q.By, Workspaces: all.names()}
	var sources []sqlite.CostSource
	for _, name := range answer.Workspaces {
		workspace := all[name]
		reader, err := workspace.openTraces(r.Context())
		if err != nil {
			return err
		}
		defer reader.Close()
		sources = append(sources, sqlite.CostSource{Reader: reader, Workspace: name})
		for key, e := range workspace.Definitions.Snapshot().Endpoints {
			if cmp.Or(e.Log, workspace.Log) == definition.LogNone {
				if len(all) > 1 {
					key = name + "/" + key
				}
				answer.Unlogged = append(answer.Unlogged, key)
			}
		}
	}
	slices.Sort(answer.Unlogged)
	if err := answer.sum(r.Context(), sources, q); err != nil {
		if errors.Is(err, context.Canceled) {
			return err
		}
		return apiError(http.StatusServiceUnavailable, "the traces can't be read: %v", err)
	}
	return writeJSON(w, &answer)
}

// ReadCosts returns the answer for a workspace of a store's file, or for all if the name
// is empty.
func ReadCosts(ctx context.Context, path, workspace string, q sqlite.CostQuery) (*Costs, error) {
	reader, err := sqlite.OpenReader(ctx, path)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	names, err := reader.Workspaces(ctx)
	if err != nil {
		return nil, err
	}
	if workspace != "" {
		if !slices.Contains(names, workspace) {
			return nil, fmt.Errorf("%s has no traces of a workspace %q: it has those of %s", path, workspace, strings.Join(names, ", "))
		}
		names = []string{workspace}
	}
	var sources []sqlite.CostSource
	for _, name := range names {
		sources = append(sources, sqlite.CostSource{Reader: reader, Workspace: name})
	}
	answer := Costs{Since: q.Filter.Since.UTC(), Until: q.Filter.Until.UTC(), By: q.By, Workspaces: names}
	return &answer, answer.sum(ctx, sources, q)
}

// sum fills in the sums of the stores.
func (c *Costs) sum(ctx context.Context, sources []sqlite.CostSource, q sqlite.CostQuery) (err error) {
	for _, source := range sources {
		oldest, err := source.Reader.Oldest(ctx)
		if err != nil {
			return err
		}
		if !oldest.IsZero() && (c.Oldest.IsZero() || oldest.Before(c.Oldest)) {
			c.Oldest = oldest.UTC()
		}
	}
	c.Costs, err = sqlite.SumCosts(ctx, sources, q)
	return err
}

// ParseCosts reads the parameters of a request for costs.
func ParseCosts(values url.Values, now time.Time) (q sqlite.CostQuery, err error) {
	if err := knownParameters(values, costParameters); err != nil {
		return q, err
	}
	if q.Filter, err = traceFilter(values, now); err != nil {
		return q, err
	}
	q.By = strings.Split(cmp.Or(values.Get("by"), "key"), ",")
	if text := values.Get("top"); text != "" {
		if q.Top, err = strconv.Atoi(text); err != nil || q.Top < 1 {
			return q, fmt.Errorf("top must be a number from 1 to %d, this is %q", sqlite.MaxCostRows, text)
		}
	}
	return q, q.Validate()
}
