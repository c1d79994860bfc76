package wire

import (
	"slices"
	"strconv"
	"strings"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
)

// MaxKeys is how many keys one request may name.
const MaxKeys = 100

// MaxKeyLength is the longest key, in bytes.
const MaxKeyLength = 256

// Facts are what a request of any kind says of its caller: objects with members, or nil
// if the member was absent, null or {}.
type Facts struct{ Context, Metadata, Variables *fastjson.Value }

// Evaluation is a request for prompts or remote configurations. It is a view
// of its Request.
type Evaluation struct {
	// Keys are the requested keys in order, each once, all of legal form.
	Keys []string
	Facts
}

// Decisions is a request for prompts and remote configurations in one. It is a view
// of its Request.
type Decisions struct {
	// Prompts and RemoteConfigs are the requested keys in order, each once in its
	// list, all of legal form. Both lists together have at least one.
	Prompts, RemoteConfigs []string
	Facts
}

// Endpoint is a request for an endpoint's answer. It is a view of its Request.
type Endpoint struct {
	// Key names the endpoint. Variant names a variant of its prompt, which the
	// request appends as KEY@VARIANT; mostly empty.
	Key, Variant string
	// Brought holds the members that may come with the request: messages, tools,
	// tool_choice and parameters. An absent member is nil.
	Brought [4]*fastjson.Value
	// RemoteConfigs are the keys whose values go with the answer, as in Decisions. It
	// is nil if the member was absent or null.
	RemoteConfigs []string
	// Stream asks for server-sent events.
	Stream bool
	Facts
}

// LegalKey reports whether s has the form of a key: 1 to 256 of the characters
// A-Z, a-z, 0-9 and . _ : / -
func LegalKey(s string) bool {
	if s == "" || len(s) > MaxKeyLength {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '-' && c <= ':', c == '_':
			// '-' to ':' are - . / the digits and :
		default:
			return false
		}
	}
	return true
}

// Prompts parses the body of a request for prompts.
func (r *Request) Prompts() (Evaluation, *Error) { return r.evaluation(true, "", nil) }

// RemoteConfigs parses the body of a request for remote configurations. These have
// no variables: a member of that name is ignored like any unknown one.
func (r *Request) RemoteConfigs() (Evaluation, *Error) { return r.evaluation(false, "", nil) }

// evaluation parses a body. list and isField are as in Flattened, or empty.
func (r *Request) evaluation(variables bool, list string, isField func(name string) bool) (Evaluation, *Error) {
	body, err := r.Object()
	if err != nil {
		return Evaluation{}, err
	}
	keys := body.Get("keys")
	if IsNull(keys) {
		if flat := body.Get(list); isField != nil && !IsNull(flat) {
			return r.flattened(body, list, isField)
		}
		return Evaluation{}, Errorf(InvalidRequest, "keys", `"keys" is required: an array of 1 to %d keys.`, MaxKeys)
	}
	var e Evaluation
	if e.Keys, err = r.KeyList("keys", keys, 1, MaxKeys); err != nil {
		return Evaluation{}, err
	}
	if e.Facts, err = r.facts(body, variables); err != nil {
		return Evaluation{}, err
	}
	return e, nil
}

// facts reads the objects that requests of all kinds may have.
func (r *Request) facts(body *fastjson.Object, variables bool) (f Facts, err *Error) {
	if r.contextSecret != nil {
		f.Context, err = r.openContext("context", body.Get("context"))
	} else {
		f.Context, err = ObjectMember(body, "context")
	}
	if err != nil {
		return f, err
	}
	if f.Metadata, err = r.MetadataMember(body); err != nil || !variables {
		return f, err
	}
	f.Variables, err = ObjectMember(body, "variables")
	return f, err
}

// Decisions parses the body of a request for prompts and remote configurations.
func (r *Request) Decisions() (Decisions, *Error) {
	body, err := r.Object()
	if err != nil {
		return Decisions{}, err
	}
	prompts, configs := body.Get("prompts"), body.Get("remoteconfigs")
	if IsNull(prompts) && IsNull(configs) {
		return Decisions{}, Errorf(InvalidRequest, "", `"prompts" or "remoteconfigs" is required: arrays of 1 to %d keys over both.`, MaxKeys)
	}
	var d Decisions
	if d.Prompts, err = r.KeyList("prompts", prompts, 0, MaxKeys); err != nil {
		return Decisions{}, err
	}
	if d.RemoteConfigs, err = r.KeyList("remoteconfigs", configs, 0, MaxKeys); err != nil {
		return Decisions{}, err
	}
	if n := len(prompts.GetArray()) + len(configs.GetArray()); n == 0 || n > MaxKeys {
		return Decisions{}, Errorf(InvalidRequest, "", `"prompts" and "remoteconfigs" have %d elements together, but must have 1 to %d.`, n, MaxKeys)
	}
	if d.Facts, err = r.facts(body, true); err != nil {
		return Decisions{}, err
	}
	return d, nil
}

// KeyList checks a list of low to high keys and returns its distinct elements in
// order, or nil if it is absent or null.
func (r *Request) KeyList(name string, v *fastjson.Value, low, high int) ([]string, *Error) {
	if IsNull(v) {
		return nil, nil
	}
	elements, notArray := v.Array()
	if notArray != nil {
		return nil, Errorf(InvalidRequest, name, `%q must be an array of %d to %d keys, not %s.`, name, low, high, Describe(v))
	}
	if len(elements) < low || len(elements) > high {
		return nil, Errorf(InvalidRequest, name, `%q has %d elements, but must have %d to %d.`, name, len(elements), low, high)
	}
	if len(elements) == 0 {
		return []string{}, nil
	}
	start := len(r.keys) // the lists of a request share a buffer
	for i, element := range elements {
		if element.Type() != fastjson.TypeString || !LegalKey(jsontext.View(element.GetStringBytes())) {
			return nil, badKey(name+"["+strconv.Itoa(i)+"]", element)
		}
		if key := jsontext.View(element.GetStringBytes()); !slices.Contains(r.keys[start:], key) {
			r.keys = append(r.keys, key)
		}
	}
	return r.keys[start:len(r.keys):len(r.keys)], nil
}

func badKey(param string, v *fastjson.Value) *Error {
	if v.Type() != fastjson.TypeString {
		return Errorf(InvalidRequest, param, "%q must be a string, not %s.", param, Describe(v))
	}
	return Errorf(InvalidRequest, param, "%q holds %q, which is not a key: a key is 1 to %d of the characters A-Z a-z 0-9 . _ : / -",
		param, Clip(jsontext.View(v.GetStringBytes())), MaxKeyLength)
}

// Endpoint parses the body of a request for an endpoint's answer.
func (r *Request) Endpoint() (Endpoint, *Error) {
	body, err := r.Conversation()
	if err != nil {
		return Endpoint{}, err
	}
	var e Endpoint
	if e.Key, err = endpointKey(body.Get("key"), body.Get("keys")); err != nil {
		return Endpoint{}, err
	}
	e.Key, e.Variant, _ = strings.Cut(e.Key, "@")
	e.Brought = [...]*fastjson.Value{body.Get("messages"), body.Get("tools"), body.Get("tool_choice"), body.Get("parameters")}
	if stream := body.Get("stream"); !IsNull(stream) {
		wants, notBool := stream.Bool()
		if notBool != nil {
			return Endpoint{}, Errorf(InvalidRequest, "stream", `"stream" must be true or false, not %s.`, Describe(stream))
		}
		e.Stream = wants
	}
	if e.Facts, err = r.facts(body, true); err != nil {
		return Endpoint{}, err
	}
	if e.RemoteConfigs, err = r.KeyList("remoteconfigs", body.Get("remoteconfigs"), 0, MaxKeys); err != nil {
		return Endpoint{}, err
	}
	return e, nil
}

// endpointKey reads the key from the member key or, as the older documentation
// showed, from keys, which then must name one endpoint only.
func endpointKey(key, keys *fastjson.Value) (string, *Error) {
	one, oneParam := keys, "keys"
	if !IsNull(keys) && keys.Type() == fastjson.TypeArray {
		switch elements := keys.GetArray(); len(elements) {
		case 0:
			one = nil
		case 1:
			one, oneParam = elements[0], "keys[0]"
		default:
			return "", Errorf(InvalidRequest, "keys", `"keys" names %d endpoints, but a request is answered by one endpoint. Send one request for each, with "key".`, len(elements))
		}
	}
	if IsNull(key) {
		return legalKeyMember(oneParam, one)
	}
	named, err := legalKeyMember("key", key)
	if err != nil {
		return "", err
	}
	if !IsNull(one) && (one.Type() != fastjson.TypeString || jsontext.View(one.GetStringBytes()) != named) {
		return "", Errorf(InvalidRequest, "keys", `"key" and "keys" do not agree. Send "key" alone.`)
	}
	return named, nil
}

func legalKeyMember(param string, v *fastjson.Value) (string, *Error) {
	if IsNull(v) {
		return "", Errorf(InvalidRequest, "key", `"key" is required: the key of the endpoint.`)
	}
	if v.Type() != fastjson.TypeString {
		return "", badKey(param, v)
	}
	text := jsontext.View(v.GetStringBytes())
	if key, variant, named := strings.Cut(text, "@"); !LegalKey(key) || named && !LegalKey(variant) {
		return "", badKey(param, v)
	}
	return text, nil
}

// ObjectMember returns a member that must be an object, or nil if it is absent,
// null or {}.
func ObjectMember(body *fastjson.Object, name string) (*fastjson.Value, *Error) {
	v := body.Get(name)
	if IsNull(v) {
		return nil, nil
	}
	object, notObject := v.Object()
	if notObject != nil {
		return nil, Errorf(InvalidRequest, name, "%q must be an object, not %s.", name, Describe(v))
	}
	if object.Len() == 0 {
		return nil, nil
	}
	return v, nil
}

// IsNull reports whether a member is absent or null.
func IsNull(v *fastjson.Value) bool {
	return v == nil || v.Type() == fastjson.TypeNull
}
