package gateway

import (
	"bytes"
	"math"
	"strconv"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/internal/kind"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/trace"
)

// evaluatesFlat is evaluates for a route that also takes the bodies of June 2023, which
// have the keys in the member list.
func evaluatesFlat(k *kind.Kind, list string, variables bool) func(*call) outcome {
	return allOrNothing(func(c *call) *wire.Error {
		return c.evaluate(k, func(r *wire.Request) (wire.Evaluation, *wire.Error) {
			return r.Flattened(list, variables, c.snapshot.Model.HasMember)
		})
	})
}

// statusCode is the member by which clients of /evaluate know an error.
const statusCode = "status_code"

// rule answers a request to /evaluate: the bare value of a remote configuration, or of all
// in a domain, by its key.
func (c *call) rule() *wire.Error {
	if !c.workspace.Legacy {
		return wire.Errorf(wire.NotFound, "", "The route %s is for clients of 2022, and closed. The operator opens it by the option legacy in the cadenza block of the Caddyfile.", c.route.path)
	}
	request, err := c.body.Rule()
	if err != nil {
		return err
	}
	c.context = request.Context
	keys := []string{request.Key}
	if request.Domain != "" {
		keys = domain(c.snapshot, request.Domain)
	}
	switch {
	case len(keys) == 0:
		return wire.Errorf(wire.UnknownKey, request.Param, "No remote configuration is in the domain %s: it is the name of a folder, or default for those that are in none.", request.Domain)
	case len(keys) > trace.MaxDecisionTraces:
		return wire.Errorf(wire.InvalidRequest, request.Param, "The domain has %d remote configurations, of which one request gets at most %d. Ask for single ones by rule_key.", len(keys), trace.MaxDecisionTraces)
	case request.Key == statusCode:
		return wire.Errorf(wire.UnknownKey, request.Param, "Clients of this route take an answer with the member %s for an error, so no remote configuration of that name is answered here. Give it another.", statusCode)
	}
	e, err := c.admitKeys(keyList{kind.RemoteConfig, keys})
	if err != nil {
		return err
	}
	size, recorded, err := e.pick(kind.RemoteConfig, keys, false)
	if err != nil {
		return err
	}
	a, err := e.beginKeys(wire.AnswersSize+size, recorded, request.Param)
	if err != nil {
		return err
	}
	c.out = a.appendValues(c.out)
	return a.answerKeys(request.Param)
}

// domain returns the keys of the remote configurations in a domain of the old service.
// That is a folder, or default for those that are in no folder.
func domain(s *definition.Snapshot, name string) (keys []string) {
	for _, d := range s.Definitions {
		in := strings.HasPrefix(d.Key, name+"/")
		if name == "default" {
			in = !strings.Contains(d.Key, "/") && d.Key != statusCode
		}
		if in && d.Kind == kind.RemoteConfig {
			keys = append(keys, d.Key)
		}
	}
	return keys
}

// appendValues appends the values of the remote configurations that were picked by their
// names, and begins their traces.
func (a *answers) appendValues(out []byte) []byte {
	out = append(out, '{')
	for i := range a.picked {
		p := &a.picked[i]
		if i > 0 {
			out = append(out, ',')
		}
		out = append(jsontext.AppendString(out, p.name), ':')
		out = appendBare(out, p.definition.Answer(p.decision))
		if p.on != nil {
			a.countOn(p.on)
			continue
		}
		a.keep(a.recordValue(p), p)
	}
	return append(out, '}')
}

// appendBare appends a value. It writes a whole number without a fraction or an exponent,
// because clients in typed languages take 1.0 for no integer.
func appendBare(out, value []byte) []byte {
	if c := value[0]; (c == '-' || c >= '0' && c <= '9') && bytes.ContainsAny(value, ".eE") {
		const exact = 1 << 53
		if n, err := strconv.ParseFloat(string(value), 64); err == nil && n == math.Trunc(n) && math.Abs(n) <= exact {
			return strconv.AppendInt(out, int64(n), 10)
		}
	}
	return append(out, value...)
}
