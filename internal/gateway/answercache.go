package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/cache"
	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/invoke"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// maxRemembered bounds the content of a cached answer, in bytes.
const maxRemembered = 1 << 20

// cacheQuestion identifies what an endpoint asks. The endpoint's version covers its
// targets, parameters and policies, the variant with the prompt's version covers the
// other parameters, and the messages cover everything that the caller supplied but its
// own parameters and tools. A call that is pinned to a target asks another question
// than one that is not.
//
// The variants of an endpoint share no answers, even those with the same targets:
// one would get answers that are older than its own time allows, and of the model
// that the other's timeouts led to.
func (p *plan) cacheQuestion() cache.Question {
	h := sha256.New()
	text := func(s string) {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(s)))
		h.Write(length[:])
		h.Write([]byte(s))
	}
	for _, s := range [...]string{p.workspace.Name, p.endpoint.Key, p.endpoint.Version, p.policy.Key, p.endpoint.Prompt.Key, p.endpoint.Prompt.Version, p.variant.Key} {
		text(s)
	}
	for i := range p.messages {
		m := &p.messages[i]
		text(m.Role)
		text(m.Content.Plain())
		if m.Parts != nil {
			askParts(text, m.Parts)
		}
	}
	if p.brought != nil && brings(p.brought) {
		text("brought")
		askGiven(text, p.brought)
		for i := range p.targets {
			text(p.targets[i].String())
		}
	}
	return cache.Question(h.Sum(nil))
}

// askParts adds parts to a question.
func askParts(text func(string), parts []providers.Part) {
	text(strconv.Itoa(len(parts)))
	for i := range parts {
		p := &parts[i]
		text(p.Kind.String())
		for _, s := range [...]string{
			p.Text.Plain(), p.Media.URL, p.Media.Data, p.Media.Type, p.Media.Name, p.Media.Detail,
			p.Call.ID, p.Call.Name, p.Call.Arguments, p.Call.Opaque, p.Result.Call, p.Result.Name, p.Opaque, p.Raw,
		} {
			text(s)
		}
		text(strconv.FormatBool(p.Result.Failed) + strconv.FormatBool(p.Adrift))
		askParts(text, p.Result.Content)
	}
}

// askGiven adds what the caller sets to a question, each by its name.
func askGiven(text func(string), request *dialect.Call) {
	p := &request.Parameters
	for _, given := range request.Given {
		text(given.Name)
		var one providers.Parameters
		if given.Name != "tools" {
			setParameter(&one, p, given.Name)
			one.Caller = nil // of it, previews and searches alone change an answer
			if given.Name == "web_search" {
				s := *p.Caller.Search
				for _, raw := range [...]json.RawMessage{s.Allowed, s.Blocked, s.Location} {
					text(string(raw))
				}
				s.Allowed, s.Blocked, s.Location = nil, nil, nil
				text(fmt.Sprint(s, p.Caller.Searched))
			}
			if given.Name == "betas" {
				text(strings.Join(p.Caller.Betas, ","))
			}
			if f := one.ResponseFormat; f != nil {
				text(string(f.Schema)) // as it is: JSON below is compact
			}
			written, _ := json.Marshal(one) // never fails: no float of a request is infinite
			text(string(written))
			continue
		}
		text(strconv.Itoa(len(p.Tools)))
		for i := range p.Tools {
			t := &p.Tools[i]
			text(t.Name)
			text(t.Description)
			text(string(t.Parameters))
			text(strconv.FormatBool(t.Strict))
		}
	}
}

// remembered answers from an earlier call with the same question, waits for one
// that is under way, or takes the lead in asking it.
func (i *invocation) remembered(ctx context.Context, question cache.Question) outcome {
	// This endpoint's own total timeout bounds the wait for a shared answer.
	waiting, cancel := context.WithTimeout(ctx, i.request.Policy.Total)
	defer cancel()
	answer, lead, err := i.workspace.Memory.answers.Ask(waiting, question)
	switch {
	case err != nil && ctx.Err() == nil:
		return refused(i.finishRefused(noResult, wire.Errorf(wire.UpstreamTimeout, "", "The model provider did not answer in time.")))
	case err != nil:
		// The caller left, or the gateway stops, while another request asked.
		return i.interrupted(ctx)
	case lead != nil:
		i.sharing.lead = lead
		i.workspace.calls.answers.add(0, 1)
		i.w.Header()[wire.HeaderCacheStatus] = cacheMiss
		return outcome{}
	}
	i.workspace.calls.answers.add(1, 0)
	i.record.Cached = true
	i.record.FinishReason = string(answer.Result.FinishReason)
	i.record.Provider, i.record.Model = answer.Provider, answer.Model
	h := i.w.Header()
	h[wire.HeaderCacheStatus] = []string{"Cadenza; hit; ttl=" + strconv.Itoa(max(int(time.Until(answer.Expires).Seconds()), 0))}
	h[wire.HeaderAttempts] = noAttempts
	target := invoke.Target{Name: answer.Provider, Model: answer.Model}
	h[wire.HeaderServedBy] = []string{target.String()}
	for _, piece := range answer.Pieces {
		i.keepContent(piece)
	}
	// The caller gets the number of tokens that the answer took, although this call
	// uses none.
	i.complete(&invoke.Result{Result: answer.Result, Estimated: answer.Estimated})
	i.nameLacking(answer.Result.LeftOut)
	i.nameEstimate()
	if i.request.Stream {
		stream, full := i.newStream(answer.Bytes())
		if full != nil {
			return refused(full)
		}
		defer stream.Close()
		// The whole answer stays in memory as long as its reader takes.
		stream.Limit(answer.Bytes()+len(i.beside.member), len(answer.Pieces))
		i.finish(noResult, http.StatusOK, "")
		for d, last := range pieces(answer, i.answer.ToolCalls, i.request.Pieces) {
			if stream.Delta(d, last) != nil {
				return outcome{end: cut}
			}
		}
		_ = stream.Finish() // a caller that left has no use for the error
		return outcome{end: answered}
	}
	i.answer.Content = strings.Join(answer.Pieces, "")
	return i.send(noResult)
}

var noAttempts = []string{"0"}

// pieces returns the pieces of an answer in the order of a stream. The second value
// reports whether a piece is the last one of the content. With all set, the pieces of
// thoughts come before the content and the tool calls after it, as models send them.
func pieces(answer *cache.Answer, calls []providers.ToolCall, all bool) iter.Seq2[providers.Delta, bool] {
	return func(yield func(providers.Delta, bool) bool) {
		r := &answer.Result
		if all {
			for n := range r.Thoughts {
				if text := r.Thoughts[n].Text; text != "" && !yield(providers.Delta{Thinking: text}, false) {
					return
				}
			}
		}
		for n, piece := range answer.Pieces {
			d := providers.Delta{Content: piece}
			if len(answer.Pieces) == 1 {
				d.Logprobs = r.Logprobs
			}
			if !yield(d, n == len(answer.Pieces)-1) {
				return
			}
		}
		if !all {
			return
		}
		for n := range calls {
			c := &calls[n]
			piece := providers.CallPiece{Index: n, ID: c.ID, Name: c.Name, Arguments: c.Arguments}
			if !yield(providers.Delta{Calls: []providers.CallPiece{piece}}, false) {
				return
			}
		}
	}
}

// sharing collects the answer of a call for other calls with the same question. It is
// empty unless the endpoint's answers are cached.
type sharing struct {
	lead   *cache.Lead // nil: no other call waits, or may get it later
	pieces []string    // of the answer
	size   int         // of the answer, in bytes
	lost   bool        // pieces does not have all of the answer
}

// add keeps a piece of the answer.
func (s *sharing) add(content string) {
	if s.lead == nil || content == "" {
		return
	}
	if s.size += len(content); s.size > maxRemembered {
		// The answer is too large to share: the requests that wait ask themselves.
		s.pieces = nil
		s.lead.Abandon()
		return
	}
	s.pieces = append(s.pieces, content)
}

// tell passes the answer to the requests that wait for it. If the model completed the
// answer, the cache keeps it for the endpoint's cache time. The waiting requests get an
// incomplete answer too: otherwise each of them would ask the model, one after the
// other, and be cut in the same way.
func (i *invocation) tell(result *invoke.Result) {
	if i.sharing.lead == nil {
		return
	}
	served := &i.request.Targets[result.Served]
	now := time.Now()
	expires := now
	if result.FinishReason.Whole() {
		expires = now.Add(i.plan.policy.CacheTTL)
	}
	answer := &cache.Answer{
		Pieces: i.sharing.pieces, Result: result.Result, Estimated: result.Estimated, Provider: served.Name, Model: served.Model,
		Given: now, Expires: expires,
	}
	switch {
	case answer.Bytes() > maxRemembered || isOpaque(&result.Result) || i.sharing.lost:
		i.sharing.lead.Abandon()
	default:
		answer.Result.ToolCalls = slices.Clone(result.ToolCalls)
		for n := range answer.Result.ToolCalls {
			// Who gets the answer again may have it already, in a conversation that the
			// question does not show: its calls get other ids.
			answer.Result.ToolCalls[n].ID = ""
		}
		if i.keep {
			ownAnswer(answer)
		}
		i.sharing.lead.Answer(answer)
	}
}

// isOpaque reports whether an answer has opaque data of a provider, or searches. Such data
// is useful to one conversation only, and would pin other conversations to the target that
// made it.
func isOpaque(r *providers.Result) bool {
	return len(r.Found) > 0 || slices.ContainsFunc(r.Thoughts, func(t providers.Thought) bool { return t.Opaque != "" }) ||
		slices.ContainsFunc(r.ToolCalls, func(c providers.ToolCall) bool { return c.Opaque != "" })
}

// ownAnswer copies the texts of an answer that the cache keeps, because a provider may
// answer with views of the request's buffer. The list of its tool calls is a copy already.
func ownAnswer(a *cache.Answer) {
	for n := range a.Pieces {
		a.Pieces[n] = strings.Clone(a.Pieces[n])
	}
	r := &a.Result
	r.Model = strings.Clone(r.Model)
	r.Logprobs = slices.Clone(r.Logprobs)
	r.Thoughts = slices.Clone(r.Thoughts)
	for n := range r.Thoughts {
		r.Thoughts[n].Text = strings.Clone(r.Thoughts[n].Text)
	}
	for n := range r.ToolCalls {
		c := &r.ToolCalls[n]
		c.Name, c.Arguments = strings.Clone(c.Name), strings.Clone(c.Arguments)
	}
}
