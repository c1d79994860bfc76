package definition

import (
	"cmp"
	"maps"
	"slices"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/invoke"
	"github.com/cadenza-gateway/cadenza/internal/prompt"
	"github.com/cadenza-gateway/cadenza/rules"
)

// Embedding is what an endpoint has that makes vectors. Its targets are those of an
// endpoint without variants, whose prompt is no definition of its own: it has one variant
// with the first target and without messages.
type Embedding struct {
	// Space names what vectors can be compared with: those of other models can't.
	Space string
	// Batch is the most inputs of one request to a provider; 0: the provider's own bound.
	Batch int
}

// The words of the member task.
const (
	taskChat      = "chat"
	taskEmbedding = "embedding"
)

// maxBatch is the most inputs that a request to a provider may have by a definition.
const maxBatch = 2048

// embeds reports whether an endpoint's file says that it makes vectors.
func embeds(n *document.Node) bool {
	task := n.Get("task")
	return task != nil && task.Text == taskEmbedding
}

// embeddingMembers are the members of an endpoint that makes vectors.
var embeddingMembers = slices.Concat([]string{"task", "targets", "batch", "retry", "max_attempts", "timeout"}, slices.DeleteFunc(slices.Clone(commonMembers), func(name string) bool { return name == "tests" }))

// decodeEmbedding reads an endpoint that makes vectors.
func (e *Endpoint) decodeEmbedding(l *loader, d *doc, errs *document.Errors) *Endpoint {
	e.Embedding = new(Embedding)
	e.Accept.MaxBodySize = DefaultMaxBody
	rest := *d.node
	rest.Members = slices.DeleteFunc(slices.Clone(rest.Members), func(m document.Member) bool {
		name := m.Key.Text
		elsewhere := !slices.Contains(embeddingMembers, name) && slices.Contains(slices.Concat(policyMembers, endpointMembers, rules.TableMembers, commonMembers), name)
		if elsewhere {
			errs.Report("unknown-member", m.Key.Pos, "%s is about answers in words: an endpoint with task: embedding has targets, batch, retry, max_attempts, timeout and log", name)
		}
		return elsewhere
	})
	rest.CheckMembers(errs, "an endpoint with task: embedding", embeddingMembers...)
	for _, name := range []string{"first_token", "idle"} {
		if m := d.node.Get("timeout").Get(name); m != nil {
			errs.Add(m, "%s is about streams: vectors come at once, and have total alone", name)
		}
	}
	r := &policyReader{loader: l, errs: errs, refused: make(map[*document.Node]bool), idle: make(map[*document.Node]*idleMember)}
	w := r.read(nil, &rest)
	e.Embedding.Batch = int(readWhole(d.node.Get("batch"), "batch", 1, maxBatch, errs))
	targets := e.decodeTargets(d.node, w, errs)

	v := &Variant{Provider: targets[0].Provider, Model: targets[0].Model, Extra: targets[0].Extra, origin: targets[0].origin}
	v.finish()
	v.Parameters.MaxTokens = new(int64) // limits set nothing aside for an answer in words
	e.Prompt = &Prompt{
		Definition: Definition{Kind: d.kind, Pos: d.node.Pos, node: d.node, table: l.table(d, errs)},
		vars:       prompt.DecodeVariables(nil, nil, errs), variants: []*Variant{v}, fallback: v,
	}
	w.Fallback = targets[1:]
	w.places["fallback"], w.own["fallback"] = d.node.Get("targets"), d.node.Get("targets")
	p := w.Policy
	r.finishAttempts(w, &p)
	if slices.ContainsFunc(w.weights, func(weight int) bool { return weight > 0 }) {
		p.Weights = w.weights
	}
	t := &p.Timeout
	t.Total = cmp.Or(t.Total, invoke.DefaultTotal)
	t.FirstToken, t.Idle = min(invoke.DefaultFirstToken, t.Total), min(invoke.DefaultIdle, t.Total)
	e.policies, e.fallback = []*Policy{&p}, &p
	r.giveWarnings()
	e.sealEmbedding(targets)
	return e
}

// decodeTargets reads the targets, and their weights into w. It returns at least one.
func (e *Endpoint) decodeTargets(of *document.Node, w *writtenPolicy, errs *document.Errors) []Target {
	none := []Target{{origin: origin{pos: of.Pos, broken: true}}}
	n := of.Get("targets")
	const example = "- { provider: openai, model: text-embedding-3-small, space: docs }"
	switch {
	case n == nil:
		errs.Add(of, "targets are missing: the models that make the vectors, such as %s", example)
		return none
	case n.Shape != document.Sequence || len(n.Items) == 0:
		errs.Add(n, "targets must be a list such as %s, this is %s", example, n.Describe())
		return none
	case len(n.Items) > invoke.MaxAttempts:
		errs.Add(n, "there are %d targets, at most %d are possible", len(n.Items), invoke.MaxAttempts)
	}
	var targets []Target
	for i, item := range n.Items {
		t, before, space := Target{origin: origin{pos: item.Pos}}, errs.Len(), ""
		if item.CheckMapping(errs, "a target", "{ provider: openai, model: text-embedding-3-small, space: docs }") && item.CheckMembers(errs, "a target", "provider", "model", "space", "weight", "extra") {
			for _, name := range []string{"provider", "space"} {
				if item.Get(name) == nil {
					errs.Add(item, "a target needs a %s", name)
				}
			}
			if m := item.Get("provider"); m != nil {
				t.Provider, _ = m.ReadName(errs, "provider")
				t.origin.provider = m.Pos
			}
			if m := item.Get("model"); m != nil {
				t.Model, _ = m.ReadName(errs, "model")
				t.origin.model = m.Pos
			}
			if m := item.Get("space"); m != nil {
				space, _ = m.ReadName(errs, "space")
				switch {
				case i == 0 || e.Embedding.Space == "":
					e.Embedding.Space = space
				case space != "" && space != e.Embedding.Space:
					errs.Report("space", m.Pos, "the space %q is not %q, that of the first target: vectors of two spaces can't be compared, so an endpoint has one; write another endpoint for the other", space, e.Embedding.Space)
				}
			}
			t.Extra = decodeExtra(item.Get("extra"), nil, &t.origin, errs)
			w.weights = append(w.weights, int(readWhole(item.Get("weight"), "weight", 1, invoke.MaxWeight, errs)))
		}
		t.origin.broken = errs.Len() > before
		targets = append(targets, t)
	}
	return targets
}

// sealEmbedding gives the endpoint its content and version.
func (e *Endpoint) sealEmbedding(targets []Target) {
	c := e.fallback.content()
	delete(c, "fallback")
	delete(c, "weight")
	list := make([]any, len(targets))
	for i, t := range targets {
		target := t.content()
		if e.fallback.Weights != nil && e.fallback.Weights[i] > 0 {
			target["weight"] = e.fallback.Weights[i]
		}
		list[i] = target
	}
	maps.Copy(c, content{"task": taskEmbedding, "space": e.Embedding.Space, "targets": list})
	if e.Embedding.Batch > 0 {
		c["batch"] = e.Embedding.Batch
	}
	e.seal(c)
}
