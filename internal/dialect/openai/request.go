package openai

import (
	"maps"
	"slices"
	"strings"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// Request is a request that is being read, with the members that several APIs share. The
// parser of a dialect embeds it.
type Request struct {
	Wire *wire.Request
	Body *fastjson.Object
	Call *dialect.Call
	// Flat reports that tools have the members of their function beside their type.
	Flat bool
	// MaxTools is how many tools a request may have, if not the constant of this name.
	MaxTools int
	// idle are the names of tools that are ignored.
	idle []string
	// searchName is what a choice calls the tool that searches, which is one of idle.
	searchName string
	marks      marks
}

// Ignore names a member that has no effect.
func (r *Request) Ignore(path string) { r.Call.Ignore(path) }

// Given names a parameter that the caller sets, by its name in definitions.
func (r *Request) Given(name, path string) {
	r.Call.Given = append(r.Call.Given, dialect.Given{Name: name, Param: path})
}

// Model reads the member model: an endpoint's key, and mostly none of a variant.
func (r *Request) Model(v *fastjson.Value) *wire.Error {
	if v.Type() != fastjson.TypeString {
		return dialect.Wrong("model", "must be a string, not %s.", wire.Describe(v))
	}
	endpoint, variant, named := strings.Cut(Text(v), "@")
	if !wire.LegalKey(endpoint) || named && !wire.LegalKey(variant) {
		return dialect.Wrong("model", "is %q, but must be the key of an endpoint, or KEY@VARIANT: each 1 to %d of the characters A-Z a-z 0-9 . _ : / -", wire.Clip(Text(v)), wire.MaxKeyLength)
	}
	r.Call.Endpoint, r.Call.Variant, r.Call.EndpointParam = endpoint, variant, "model"
	return nil
}

// Stream reads the member stream.
func (r *Request) Stream(v *fastjson.Value) (err *wire.Error) {
	r.Call.Stream, err = Bool(At("stream"), v)
	return err
}

// Context reads the member context.
func (r *Request) Context(*fastjson.Value) (err *wire.Error) {
	r.Call.Context, err = wire.ObjectMember(r.Body, "context")
	return err
}

// Variables reads the member variables.
func (r *Request) Variables(*fastjson.Value) (err *wire.Error) {
	r.Call.Variables, err = wire.ObjectMember(r.Body, "variables")
	return err
}

// Metadata reads the member metadata.
func (r *Request) Metadata(*fastjson.Value) (err *wire.Error) {
	r.Call.Metadata, err = r.Wire.MetadataMember(r.Body)
	return err
}

// User reads the caller's own user from safety_identifier, or from user, which is its
// old name.
func (r *Request) User(v *fastjson.Value) *wire.Error {
	current := r.Body.Get("safety_identifier")
	if v == current {
		return r.UserMember("safety_identifier", v)
	}
	if err := r.UserMember("user", v); err != nil || wire.IsNull(current) {
		return err
	}
	r.Ignore("user")
	return r.UserMember("safety_identifier", current)
}

// maxUser is how many bytes the caller's own user may have.
const maxUser = 512

// UserMember reads the caller's own user from the member at the path.
func (r *Request) UserMember(path string, v *fastjson.Value) *wire.Error {
	if v.Type() != fastjson.TypeString {
		return dialect.Wrong(path, "must be a string, not %s.", wire.Describe(v))
	}
	user := Text(v)
	if len(user) > maxUser {
		return dialect.Wrong(path, "has %d bytes, but may have %d.", len(user), maxUser)
	}
	r.Call.User, r.Call.UserParam = user, path
	if path == "safety_identifier" {
		r.Caller().User = user
	}
	return nil
}

// Caller returns what the caller brings that only some providers have.
func (r *Request) Caller() *providers.Caller {
	if r.Call.Parameters.Caller == nil {
		r.Call.Parameters.Caller = new(providers.Caller)
	}
	return r.Call.Parameters.Caller
}

// CacheKey reads the member prompt_cache_key.
func (r *Request) CacheKey(v *fastjson.Value) (err *wire.Error) {
	r.Caller().CacheKey, err = r.short("prompt_cache_key", v)
	return err
}

// CacheRetention reads the member prompt_cache_retention.
func (r *Request) CacheRetention(v *fastjson.Value) (err *wire.Error) {
	r.Caller().CacheRetention, err = r.short("prompt_cache_retention", v)
	return err
}

// short reads a text as long as that of a user, which goes to providers as it is.
func (r *Request) short(name string, v *fastjson.Value) (string, *wire.Error) {
	text, err := Filled(At(name), v)
	if err == nil && len(text) > maxUser {
		err = dialect.Wrong(name, "has %d bytes, but may have %d.", len(text), maxUser)
	}
	r.Given(name, name)
	return text, err
}

// ServiceTier reads the member service_tier, one of words. The words are constants, so that
// they do not keep the request.
func (r *Request) ServiceTier(v *fastjson.Value, words map[string]string) *wire.Error {
	word, ok := words[Text(v)]
	if !ok {
		return dialect.Wrong("service_tier", "must be %s.", strings.Join(slices.Sorted(maps.Keys(words)), ", "))
	}
	r.Caller().Tier = word
	r.Given("service_tier", "service_tier")
	return nil
}

// Tier reads the member service_tier of OpenAI's API.
func (r *Request) Tier(v *fastjson.Value) *wire.Error { return r.ServiceTier(v, tiers) }

var tiers = map[string]string{"auto": "auto", "default": "default", "flex": "flex", "priority": "priority"}

// Messages reads the member messages.
func (r *Request) Messages(v *fastjson.Value) (err *wire.Error) {
	r.Call.TurnsParam = "messages"
	r.Call.Turns, err = r.messages(At("messages"), v)
	return err
}

// Tools reads the member tools: each is {"type":"function","function":{"name":…}}, or
// if they are flat, {"type":"function","name":…}.
func (r *Request) Tools(v *fastjson.Value) *wire.Error { return r.ToolList(At("tools"), v, r.tool) }

// IgnoreTool names a tool of another type than the caller's functions. hosted reports that
// the type is known: the service of the API runs it. name is what a choice calls it.
func (r *Request) IgnoreTool(at *Path, hosted bool, name string) {
	r.idle = append(r.idle, name)
	if hosted {
		r.Call.IgnoreHosted(at.String())
		return
	}
	r.Call.IgnoreUnknown(at.String())
}

// SettleChoice ignores a choice that only an ignored tool could meet. It is called once
// all members are read.
func (r *Request) SettleChoice() {
	p := &r.Call.Parameters
	c := p.ToolChoice
	switch {
	case c == nil || len(r.idle) == 0:
		return
	case c.Mode == providers.ToolsRequired && len(p.Tools) == 0:
	case c.Mode == providers.ToolsNamed && slices.Contains(r.idle, c.Name) && !r.HasTool(c.Name):
	default:
		return
	}
	if of := r.Call.Search; of != nil && of.Tool != nil {
		if of.Choice = c; c.Mode == providers.ToolsNamed {
			if of.Choice = nil; c.Name == r.searchName {
				of.Choice = &providers.ToolChoice{Mode: providers.ToolsSearch}
			}
		}
		if of.Choice != nil {
			of.Paths = append(of.Paths, "tool_choice")
		}
	}
	p.ToolChoice = nil
	r.TakeBack("tool_choice")
	r.Ignore("tool_choice")
}

// TakeBack undoes Given.
func (r *Request) TakeBack(name string) {
	r.Call.Given = slices.DeleteFunc(r.Call.Given, func(g dialect.Given) bool { return g.Name == name })
}

// ToolChoice reads the member tool_choice: a word, or a tool as Tools reads it.
func (r *Request) ToolChoice(v *fastjson.Value) (err *wire.Error) {
	if r.Call.Parameters.ToolChoice, err = r.toolChoice(At("tool_choice"), v); r.Call.Parameters.ToolChoice != nil {
		r.Given("tool_choice", "tool_choice")
	}
	return err
}

// Obfuscation reads whether the events of a stream are padded, which they are not.
func (r *Request) Obfuscation(v *fastjson.Value) *wire.Error {
	const path = "stream_options.include_obfuscation"
	pad, err := Bool(At(path), v)
	if pad {
		r.Ignore(path)
	}
	return err
}
