package gateway_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/limit"
	"github.com/cadenza-gateway/cadenza/internal/price"
)

// year is a window that does not end while a test runs.
var year = limit.Window{Length: 366 * 24 * time.Hour}

// yearly returns a ceiling for a year.
func yearly(measure limit.Measure, n int64) limit.Ceiling {
	return limit.Ceiling{Measure: measure, Most: n, Window: year}
}

// withLimits sets limits, and prices for "small" and "large".
func withLimits(limits ...*limit.Limit) setting {
	return with(func(c *gw.WorkspaceConfig) {
		c.CallLimits = limits
		c.Prices = map[string]*price.Price{"small": {Prompt: 2, Completion: 10}, "large": {Prompt: 200, Completion: 1000}}
	})
}

// emitted are the events of a gateway.
type emitted struct {
	mu  sync.Mutex
	all []string
}

func (e *emitted) emit(name string, data map[string]any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(data, "resets")
	e.all = append(e.all, fmt.Sprint(name, data))
}

// TestHowLimitsAreShown uses up limits, and checks each output: for operators with the
// subject, for everyone else without it.
func TestHowLimitsAreShown(t *testing.T) {
	t.Parallel()
	const secret = "sk-proj-Zk3vQ9xLr7TnW2yBfH8dJmPc5sKa4GeUvR1oXq6t"
	budget := &limit.Limit{Name: "budget", By: limit.ByMetadata, Member: "customer", Ceilings: []limit.Ceiling{yearly(limit.Money, 10*limit.Dollar), yearly(limit.Requests, 10)}}
	flying := &limit.Limit{Name: "flying", Ceilings: []limit.Ceiling{{Measure: limit.InFlight, Most: 4}}}
	var events emitted
	g := startGateway(t, workspace, withLimits(budget, flying), func(_ *gateway, c *gw.Config) { c.Emit = events.emit })
	use := func(l *limit.Limit, subject string, amounts limit.Amounts) *limit.Reservation {
		t.Helper()
		r, refusal := g.store.Limiter().Reserve("default", time.Now(), []limit.Ask{{Limit: l, Subject: subject}}, amounts)
		if refusal != nil {
			t.Fatal(refusal)
		}
		return r
	}
	settle := func(r *limit.Reservation, amounts limit.Amounts) { r.Settle(time.Now(), amounts) }

	settle(use(budget, "acme", limit.Amounts{limit.Requests: 8}), limit.Amounts{limit.Requests: 8})
	settle(use(budget, secret, limit.Amounts{limit.Money: limit.Dollar}), limit.Amounts{limit.Money: 8_500_000_000, limit.Requests: 1})
	settle(use(budget, secret, limit.Amounts{limit.Money: limit.Dollar}), limit.Amounts{limit.Money: limit.Dollar * 3 / 2, limit.Requests: 1})
	use(budget, "", limit.Amounts{limit.Money: limit.Dollar / 4})
	use(flying, "test", limit.Amounts{})

	events.mu.Lock()
	if got := strings.Join(events.all, "\n"); strings.Contains(got, secret) || strings.Count(got, "\n") != 1 ||
		!strings.HasPrefix(got, "cadenza.budget_80map[by:metadata.customer ceiling:10usd/366d limit:budget measure:money subject:[redacted") ||
		!strings.Contains(got, "cadenza.limit_reachedmap[by:metadata.customer ceiling:10usd/366d limit:budget measure:money subject:[redacted") ||
		!strings.HasSuffix(got, "used:10 workspace:default]") {
		t.Errorf("events:\n%s", got)
	}
	events.mu.Unlock()
	logs := string(g.logs.Bytes())
	if strings.Contains(logs, secret) || strings.Count(logs, `"msg":"budget nearly used up"`) != 1 || strings.Count(logs, `"msg":"limit reached"`) != 1 {
		t.Error("the log names a secret, or not what happened")
	}

	status := g.current.Load().Workspace("default").Status().Limits
	for i := range status {
		for j := range status[i].Fullest {
			use := &status[i].Fullest[j]
			if use.Resets.IsZero() != (use.Measure == "in_flight") {
				t.Errorf("%+v", use)
			}
			use.Since, use.Resets, use.FullAt = time.Time{}, time.Time{}, time.Time{}
		}
	}
	text, err := json.Marshal(status)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.ReplaceAll(string(text), secret, "SECRET")
	for _, want := range []string{
		`{"name":"budget","by":"metadata.customer","shared":false,"percent":100,"fullest":[{"subject":"[redacted`,
		`"measure":"money","ceiling":"10usd/366d","percent":100,"used":10,"reserved":0},{"subject":"acme","measure":"requests","ceiling":"10/366d","percent":80,"used":8,"reserved":0},{"subject":"","measure":"money","ceiling":"10usd/366d","percent":2,"used":0,"reserved":0.25}],"ceilings":["money 10usd/366d","requests 10/366d"]}`,
		`{"name":"flying","by":"api_key","shared":false,"percent":25,"fullest":[{"subject":"test","measure":"in_flight","ceiling":"4","percent":25,"used":1,"reserved":0}],"ceilings":["in_flight 4"]}`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("status %s\nlacks %s", got, want)
		}
	}
	for subject, want := range map[string]string{
		"acme": `[{"name":"budget","by":"metadata.customer","shared":false,"percent":80,"ceilings":[` +
			`{"subject":"acme","measure":"money","ceiling":"10usd/366d","percent":0,"used":0,"reserved":0,"left":10},` +
			`{"subject":"acme","measure":"requests","ceiling":"10/366d","percent":80,"used":8,"reserved":0,"left":2}]},` +
			`{"name":"flying","by":"api_key","shared":false,"percent":0,"ceilings":[{"subject":"acme","measure":"in_flight","ceiling":"4","percent":0,"used":0,"reserved":0,"left":4}]}]`,
		"":     `{"subject":"","measure":"money","ceiling":"10usd/366d","percent":2,"used":0,"reserved":0.25,"left":9.75}`,
		"test": `{"subject":"test","measure":"in_flight","ceiling":"4","percent":25,"used":1,"reserved":0,"left":3}]}]`,
		secret: `"measure":"money","ceiling":"10usd/366d","percent":100,"used":10,"reserved":0,"left":0}`,
	} {
		status := g.current.Load().Workspace("default").SubjectStatus(subject)
		for i := range status {
			for j := range status[i].Ceilings {
				use := &status[i].Ceilings[j]
				if use.Resets.IsZero() != (use.Measure == "in_flight") {
					t.Errorf("%+v", use)
				}
				use.Since, use.Resets, use.FullAt = time.Time{}, time.Time{}, time.Time{}
			}
		}
		if text, err := json.Marshal(status); err != nil || !strings.Contains(string(text), want) || strings.Contains(string(text), secret) {
			t.Errorf("%q: %v, %s\nlacks %s", subject, err, text, want)
		}
	}
	if body := g.probe("GET", "/readyz", false).Body.String(); !strings.HasSuffix(body, `,"limits":[{"name":"budget","percent":100}]}`) || strings.Contains(body, "acme") {
		t.Error(body)
	}
	if scraped := g.scrape(); !strings.Contains(scraped, `cadenza_limit_used_ratio{limit="budget",workspace="default"} 1`+"\n") ||
		!strings.Contains(scraped, `cadenza_limit_used_ratio{limit="flying",workspace="default"} 0.25`+"\n") || strings.Contains(scraped, "acme") ||
		!strings.Contains(scraped, `cadenza_limit_refused_total{limit="budget",measure="money",workspace="default"} 0`+"\n") {
		t.Error(scraped)
	}

	// A removed limit is not shown.
	g.load(withLimits(flying))
	if list := g.current.Load().Workspace("default").Status().Limits; len(list) != 1 || list[0].Name != "flying" {
		t.Errorf("%+v", list)
	}
}

// TestTargetsThatLimitsCannotBound checks that they are logged once.
func TestTargetsThatLimitsCannotBound(t *testing.T) {
	t.Parallel()
	files := single()
	files["definitions/prompts/free.yaml"] = "provider: fake\nmodel: unknown\nmax_tokens: 5\nmessages: [ { role: user, content: hi } ]\n"
	files["definitions/endpoints/free.yaml"] = "prompt: free\nfallback: [ { provider: canned, extra: { answer: fine } } ]\n"
	files["definitions/endpoints/endless.yaml"] = "prompt: hello\n"
	budget := &limit.Limit{Name: "budget", Ceilings: []limit.Ceiling{yearly(limit.Money, limit.Dollar)}}
	g := startGateway(t, files, fakeProvider("http://localhost:1"), withLimits(budget))
	g.write("definitions/endpoints/third.yaml", "prompt: reply\n")
	eventually(t, "the edit is served", func() bool { return strings.Count(string(g.logs.Bytes()), `"msg":"definitions loaded"`) > 1 })
	logs := string(g.logs.Bytes())
	for _, want := range []string{
		`"provider":"fake","model":"unknown","endpoints":["free"],"reason":"it has no price: limits of money count nothing for it"`,
		`"provider":"fake","model":"small","endpoints":["endless"],"reason":"it has no max_tokens: limits set 4096 tokens aside for its answer, and a longer one may exceed them"`,
	} {
		if strings.Count(logs, want) != 1 {
			t.Errorf("not once: %s", want)
		}
	}
	if n := strings.Count(logs, "target is not bounded by limits"); n != 2 {
		t.Errorf("%d warnings", n)
	}
}

// TestSubjectsInLogs has a subject with a character that reverses the line of a log.
func TestSubjectsInLogs(t *testing.T) {
	t.Parallel()
	l := &limit.Limit{Name: "customers", By: limit.ByMetadata, Member: "customer", Ceilings: []limit.Ceiling{yearly(limit.Requests, 1)}}
	g := startGateway(t, workspace, withLimits(l))
	r, _ := g.store.Limiter().Reserve("default", time.Now(), []limit.Ask{{Limit: l, Subject: "a\u202eb"}}, limit.Amounts{limit.Requests: 1})
	r.Settle(time.Now(), limit.Amounts{limit.Requests: 1})
	if logs := string(g.logs.Bytes()); !strings.Contains(logs, `"subject":"a\\u202eb"`) || strings.Contains(logs, "\u202e") {
		t.Error(logs)
	}
}

// TestASubjectOfALimitByWorkspace checks that it is shown the use of the whole workspace.
func TestASubjectOfALimitByWorkspace(t *testing.T) {
	t.Parallel()
	all := &limit.Limit{Name: "all", By: limit.ByWorkspace, Ceilings: []limit.Ceiling{yearly(limit.Tokens, 300)}}
	g := startGateway(t, workspace, withLimits(all))
	r, _ := g.store.Limiter().Reserve("default", time.Now(), []limit.Ask{{Limit: all}}, limit.Amounts{limit.Tokens: 100})
	r.Settle(time.Now(), limit.Amounts{limit.Tokens: 100})
	list := g.current.Load().Workspace("default").SubjectStatus("acme")
	if len(list) != 1 || list[0].Percent != 33 || list[0].Ceilings[0].Used != 100 || list[0].Ceilings[0].Subject != "" {
		t.Errorf("%+v", list)
	}
	g.load()
	if list := g.current.Load().Workspace("default").SubjectStatus("acme"); list == nil || len(list) != 0 {
		t.Errorf("without limits: %+v", list)
	}
}
