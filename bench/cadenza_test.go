package bench

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/rules"
	"github.com/valyala/fastjson"
)

const cadenzaModel = `
fields:
  environment: { type: string }
  locale:      { type: string }
  plan:        { type: string }
  seats:       { type: number }
  beta:        { type: boolean }
`

// now is the instant of all requests; no row has a schedule.
var now = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// cadenza is the table as the gateway loads it.
type cadenza struct {
	model  *rules.Model
	table  *rules.Table
	values [][]byte // of the outcomes; the default's is the last
}

func newCadenza(tb testing.TB, w *workload) *cadenza {
	tb.Helper()
	var text strings.Builder
	text.WriteString("columns: [environment, locale, plan, seats, beta, value]\nmatrix:\n")
	orAny := func(cell string) string {
		if cell == "" {
			return "any"
		}
		return cell
	}
	for row := range w.rules {
		r := &w.rules[row]
		locale, seats, beta := "any", "any", "any"
		if r.locales != nil {
			locale = "[" + strings.Join(r.locales, ", ") + "]"
		}
		if r.seats != nil {
			seats = fmt.Sprintf("%d..<%d", r.seats.low, r.seats.high)
		}
		if r.beta != nil {
			beta = fmt.Sprint(*r.beta)
		}
		fmt.Fprintf(&text, "  - [%s, %s, %s, %s, %s, %s]\n", orAny(r.environment), locale, orAny(r.plan), seats, beta, value(row))
	}
	model, err := rules.ParseModel("context.yaml", []byte(cadenzaModel))
	if err != nil {
		tb.Fatal(err)
	}
	table, err := rules.ParseTable(model, "limits.yaml", []byte(text.String()), rules.Options{Key: "limits"})
	if err != nil {
		tb.Fatal(err)
	}
	c := &cadenza{model: model, table: table}
	for _, outcome := range table.Outcomes() {
		c.values = append(c.values, outcome.AppendJSON(nil, nil))
	}
	c.values = append(c.values, []byte(value(-1)))
	return c
}

// bind is the work done once per request, for any number of keys.
func (c *cadenza) bind(tb testing.TB, q request) *rules.Binding {
	tb.Helper()
	context, err := fastjson.ParseBytes(contextJSON(q, ""))
	if err != nil {
		tb.Fatal(err)
	}
	var b rules.Binding
	if err := c.model.Bind(&b, context, now); err != nil {
		tb.Fatal(err)
	}
	return &b
}

// evaluate is the work done per key: the answer's value, ready to be sent.
func (c *cadenza) evaluate(b *rules.Binding) []byte {
	d := c.table.Evaluate(b)
	if d.Outcome < 0 {
		return c.values[len(c.values)-1]
	}
	return c.values[d.Outcome]
}

// cadenzaServer does what the gateway does with a request's body, in its order:
// read it, validate it strictly, bind the context and evaluate the key.
type cadenzaServer struct {
	*cadenza
	request http.Request
	body    bytes.Reader
	binding rules.Binding
}

func newCadenzaServer(c *cadenza) *cadenzaServer {
	s := &cadenzaServer{cadenza: c}
	s.request.Body = io.NopCloser(&s.body)
	return s
}

// cadenzaBody is the request that asks for the table's one key.
func cadenzaBody(q request) []byte {
	return fmt.Appendf(nil, `{"keys":["limits"],"context":%s}`, contextJSON(q, ""))
}

func (s *cadenzaServer) answer(tb testing.TB, body []byte) []byte {
	s.body.Reset(body)
	s.request.ContentLength = int64(len(body))
	r := wire.AcquireRequest()
	defer r.Release()
	if err := r.ReadBody(nil, &s.request, wire.DefaultBodyLimit, 0, 0, nil); err != nil {
		tb.Fatal(err)
	}
	call, bad := r.RemoteConfigs()
	if bad != nil {
		tb.Fatal(bad)
	}
	if err := s.model.Bind(&s.binding, call.Context, now); err != nil {
		tb.Fatal(err)
	}
	return s.evaluate(&s.binding)
}
