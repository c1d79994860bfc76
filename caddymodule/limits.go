package caddymodule

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/limit"
)

// Limit bounds how much callers use. It needs one ceiling at least, and may have several
// of a kind with different windows.
//
// A ceiling is a text such as `100/1m`: how much, and the window in which it counts, a
// duration from 1s to 366d in whole seconds, or `1mo`, a month of the calendar in UTC.
// Windows of a duration begin at its multiples since 1970 in UTC, so `1d` begins at
// midnight.
type Limit struct {
	// The limit's name in answers, logs and metrics: 1 to 64 of a-z 0-9 _ -, and
	// unique in the workspace.
	Name string `json:"name,omitempty"`

	// Names the objects with counters of their own: each `api_key`, each `client_ip` (of
	// IPv6 each /64), each `endpoint`,
	// each value of a member of the requests' metadata, such as `metadata.customer`, or
	// all together, `workspace`. Default: `api_key`.
	By string `json:"by,omitempty"`

	// Bounds the requests in a window, such as `100/1m`.
	Requests []string `json:"requests,omitempty"`

	// Bounds the tokens of prompts and answers in a window, such as
	// `200000/1m`.
	Tokens []string `json:"tokens,omitempty"`

	// Bounds the cost of calls in a window, in US dollars, such as `5usd/1d`.
	Money []string `json:"money,omitempty"`

	// Bounds the requests under way at a time. Default: unlimited.
	InFlight int64 `json:"in_flight,omitempty"`

	// The routes whose requests count, by the names of `{cadenza.route}`. Default:
	// the routes that call models.
	Routes []string `json:"routes,omitempty"`
}

// maxLimits bounds the limits of a workspace: a request may count for each of them.
const maxLimits = 64

// maxCeilings bounds the ceilings of a limit.
const maxCeilings = 16

// The bounds of a window. Above maxWindow there are months.
const (
	minWindow = time.Second
	maxWindow = 366 * 24 * time.Hour
)

var limitName = regexp.MustCompile(`^[a-z0-9_-]{1,64}$`)

// limitOptions are the options of a limit.
var limitOptions = []string{"by", "requests", "tokens", "money", "in_flight", "routes"}

// dimensions are the dimensions that a limit may count by.
var dimensions = []string{"api_key", "client_ip", "endpoint", "workspace", "metadata.NAME"}

// callLimits returns the limits in the gateway's types.
func (w *Workspace) callLimits() ([]*limit.Limit, error) {
	if len(w.CallLimits) > maxLimits {
		return nil, fmt.Errorf("limits: %d are more than the %d that a workspace may have", len(w.CallLimits), maxLimits)
	}
	var list []*limit.Limit
	for i, l := range w.CallLimits {
		if l == nil {
			return nil, fmt.Errorf("limits: number %d is null", i+1)
		}
		made, err := l.make()
		if err != nil {
			return nil, fmt.Errorf("limit %s: %w", l.Name, err)
		}
		if slices.ContainsFunc(list, func(other *limit.Limit) bool { return other.Name == l.Name }) {
			return nil, errLimitTwice(l.Name)
		}
		list = append(list, made)
	}
	return list, nil
}

func errLimitTwice(name string) error {
	return fmt.Errorf("limit %s is configured twice: write its ceilings into one block, or give the second another name", name)
}

// make returns the limit in the gateway's type.
func (l *Limit) make() (*limit.Limit, error) {
	if err := checkLimitName(l.Name); err != nil {
		return nil, err
	}
	made := &limit.Limit{Name: l.Name, Routes: l.Routes}
	var err error
	if made.By, made.Member, err = parseBy(l.By); err != nil {
		return nil, err
	}
	for measure, texts := range l.windowed() {
		for _, text := range *texts {
			ceiling, err := parseCeiling(limit.Measure(measure), text)
			if err != nil {
				return nil, err
			}
			made.Ceilings = append(made.Ceilings, ceiling)
		}
	}
	switch {
	case l.InFlight < 0:
		return nil, fmt.Errorf("in_flight %d: must be a whole number of requests, at least 1", l.InFlight)
	case l.InFlight > 0:
		made.Ceilings = append(made.Ceilings, limit.Ceiling{Measure: limit.InFlight, Most: l.InFlight})
	}
	if len(made.Ceilings) == 0 {
		return nil, errors.New("has no ceiling: give it one, such as requests 100/1m, tokens 200000/1m, money 5usd/1d or in_flight 20")
	}
	if len(made.Ceilings) > maxCeilings {
		return nil, fmt.Errorf("has %d ceilings, more than %d: make two limits of it", len(made.Ceilings), maxCeilings)
	}
	for i, c := range made.Ceilings {
		for _, other := range made.Ceilings[:i] {
			if c.Measure == other.Measure && c.Window == other.Window {
				return nil, fmt.Errorf("has two ceilings of %s in the same window, %s and %s: keep one of them",
					c.Measure, other, c)
			}
		}
	}
	return made, gateway.ValidateLimit(made)
}

// windowed returns the ceilings that have windows, by their measures.
func (l *Limit) windowed() [limit.InFlight]*[]string {
	return [...]*[]string{limit.Requests: &l.Requests, limit.Tokens: &l.Tokens, limit.Money: &l.Money}
}

func checkLimitName(name string) error {
	if !limitName.MatchString(name) {
		return errors.New("the name must be 1 to 64 of a-z 0-9 _ -")
	}
	return nil
}

// parseBy reads the dimension that a limit counts by.
func parseBy(text string) (by limit.By, member string, err error) {
	switch text {
	case "", "api_key":
		return limit.ByAPIKey, "", nil
	case "endpoint":
		return limit.ByEndpoint, "", nil
	case "workspace":
		return limit.ByWorkspace, "", nil
	case "client_ip":
		return limit.ByClientIP, "", nil
	}
	member, isMetadata := strings.CutPrefix(text, "metadata.")
	switch {
	case text == "metadata" || isMetadata && member == "":
		return 0, "", errors.New("by metadata needs a member of the requests' metadata, as in by metadata.customer")
	case !isMetadata:
		return 0, "", errors.New("by: " + document.Unrecognized("word", text, dimensions))
	}
	return limit.ByMetadata, member, nil
}

// parseCeiling reads a ceiling of a measure in a window, such as 100/1m.
func parseCeiling(measure limit.Measure, text string) (limit.Ceiling, error) {
	fail := func(format string, args ...any) (limit.Ceiling, error) {
		return limit.Ceiling{}, fmt.Errorf("%s %s: %s, such as %s", measure, text, fmt.Sprintf(format, args...), limit.Measures[measure].Example)
	}
	amount, window, found := strings.Cut(text, "/")
	if !found {
		return fail("a window must follow behind a slash")
	}
	most, err := limit.Measures[measure].Parse(amount)
	if err != nil {
		return fail("%v", err)
	}
	c := limit.Ceiling{Measure: measure, Most: most}
	if window == "1mo" {
		return c, nil
	}
	if months, found := strings.CutSuffix(window, "mo"); found {
		return fail("the window must be one month, 1mo, and not %q months", months)
	}
	length, err := caddy.ParseDuration(window)
	if err != nil {
		return fail("the window %q must be a number with its unit (s, m, h or d), or 1mo", window)
	}
	if length < minWindow || length > maxWindow || length%time.Second != 0 {
		return fail("the window %s must be whole seconds, from 1s to 366d, or 1mo", window)
	}
	c.Window.Length = length
	return c, nil
}

// unmarshalLimit reads a limit's block.
func (w *Workspace) unmarshalLimit(d *caddyfile.Dispenser) error {
	var l Limit
	if !d.AllArgs(&l.Name) {
		return argumentsError(d, "limit")
	}
	if err := checkLimitName(l.Name); err != nil {
		return d.Errf("limit %s: %v", l.Name, err)
	}
	if slices.ContainsFunc(w.CallLimits, func(other *Limit) bool { return other.Name == l.Name }) {
		return d.WrapErr(errLimitTwice(l.Name))
	}
	name := *d // errors about the whole block point at its name
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		if err := l.unmarshalOption(d); err != nil {
			return err
		}
	}
	if _, err := l.make(); err != nil {
		return name.Errf("limit %s: %v", l.Name, err)
	}
	w.CallLimits = append(w.CallLimits, &l)
	return nil
}

// unmarshalOption reads the option of a limit that d is at.
func (l *Limit) unmarshalOption(d *caddyfile.Dispenser) error {
	option, args := d.Val(), d.RemainingArgs()
	fail := func(format string, args ...any) error {
		return d.Errf("limit %s: %s", l.Name, fmt.Sprintf(format, args...))
	}
	for measure, texts := range l.windowed() {
		if limit.Measures[measure].Name != option {
			continue
		}
		if len(args) == 0 {
			return fail("%s takes how much and a window, such as %s 100/1m; for money 5usd/1d", option, option)
		}
		for _, text := range args {
			if _, err := parseCeiling(limit.Measure(measure), text); err != nil {
				return fail("%v", err)
			}
		}
		*texts = append(*texts, args...)
		return nil
	}
	switch option {
	case "by":
		if l.By != "" {
			return fail("by is configured twice: make two limits of it")
		}
		if len(args) != 1 {
			return fail("by takes one of %s", strings.Join(dimensions, ", "))
		}
		if _, _, err := parseBy(args[0]); err != nil {
			return fail("%v", err)
		}
		l.By = args[0]
	case "in_flight":
		if l.InFlight != 0 {
			return fail("in_flight is configured twice")
		}
		if len(args) != 1 {
			return fail("in_flight takes a whole number of requests")
		}
		n, err := strconv.ParseInt(args[0], 10, 32)
		if err != nil || n < 1 {
			return fail("in_flight %s: must be a whole number of requests, at least 1", args[0])
		}
		l.InFlight = n
	case "routes":
		if len(args) == 0 {
			return fail("routes takes the names of routes: %s", strings.Join(gateway.RouteNames(), ", "))
		}
		for _, name := range args {
			if err := gateway.ValidateRoute(name); err != nil {
				return fail("%v", err)
			}
		}
		l.Routes = append(l.Routes, args...)
	default:
		return fail("%s", document.Unrecognized("option", option, limitOptions))
	}
	return nil
}
