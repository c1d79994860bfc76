package invoke

import (
	"errors"
	"regexp"
	"strconv"
	"strings"

	"github.com/cadenza-gateway/cadenza/providers"
)

// Members of a request that are no parameters.
const (
	// MemberMessages are the messages.
	MemberMessages = "messages"
	// MemberMedia are the images, sounds and files of the messages.
	MemberMedia = "media"
)

// named match the path of the member that a provider's text is about, in lower case:
// "tools.0.custom.input_schema: …" (Anthropic), "… at 'tools[0].function_declarations[2]'"
// and "generatecontentrequest.tools[0]…: …" (Gemini), "the value at toolconfig.tools.0…"
// (Bedrock).
var named = regexp.MustCompile(`^([a-z_]+(?:[.\[][a-z0-9_\]]+)*): |at '([a-z0-9_.\[\]]+)'|generatecontentrequest\.([a-z0-9_.\[\]]+)|the value at ([a-z0-9_.]+)`)

// members are the words of APIs for members whose paths begin otherwise than their names
// in definitions.
var members = []struct{ path, name string }{
	{"function_declarations", "tools"}, {"toolconfig.tools", "tools"},
	{"toolconfig", "tool_choice"}, {"tool_config", "tool_choice"},
	{"text.format", "response_format"}, {"output_config.format", "response_format"}, {"output_format", "response_format"},
	{"response_schema", "response_format"}, {"response_json_schema", "response_format"}, {"responseschema", "response_format"}, {"responsejsonschema", "response_format"},
	{"max_completion_tokens", "max_tokens"}, {"max_output_tokens", "max_tokens"}, {"maxoutputtokens", "max_tokens"}, {"maxtokens", "max_tokens"},
	{"stop_sequences", "stop"}, {"stopsequences", "stop"},
	{"reasoning", "reasoning_effort"}, {"thinking", "reasoning_effort"}, {"output_config.effort", "reasoning_effort"},
	{"input", MemberMessages}, {"contents", MemberMessages},
}

// aboutSchema are phrases of OpenAI's API, and of those that are like it, for schemas that
// are not valid.
var aboutSchema = []struct{ phrase, name string }{
	{"invalid schema for response_format", "response_format"}, {"invalid schema for function", "tools"},
}

var (
	// media are words for parts of messages that are no text.
	media = regexp.MustCompile(`(?:^|[^a-z])(?:images?|image_url|input_audio|audio|pdf|documents?|mime[ _]type|media[ _]type)(?:[^a-z]|$)`)
	// declared matches the index of a tool.
	declared = regexp.MustCompile(`(?:function_?declarations|^(?:toolconfig\.)?tools)[.\[](\d{1,4})`)
)

// blames returns what a provider that rejects a request calls invalid, or lacks: see
// Error.Member and Error.Tool.
func (k *call) blames(f failed) (member string, tool int) {
	e, ok := errors.AsType[*providers.Error](f.err)
	switch {
	case !ok || f.class != Rejected:
		return "", 0
	case e.Lacks != "" && e.Param == "":
		return MemberMedia, 0
	}
	text := strings.ToLower(e.Message)
	path := strings.ToLower(e.Param)
	if path == "" {
		for _, found := range append(named.FindStringSubmatch(text), "")[1:] {
			path += found
		}
	}
	member = memberAt(path)
	for _, about := range aboutSchema {
		if member == "" && strings.Contains(text, about.phrase) {
			member = about.name
		}
	}
	if (member == "" || member == MemberMessages) && (media.MatchString(text) || media.MatchString(path)) {
		return MemberMedia, 0
	}
	if found := declared.FindAllStringSubmatch(path, -1); member == "tools" && found != nil {
		n, _ := strconv.Atoi(found[len(found)-1][1])
		tool = max(0, len(k.Targets[k.usable[f.place].index].Parameters.Tools)-n)
	}
	return member, tool
}

// memberAt returns the member at a path of a provider's API; empty if the path is.
func memberAt(path string) string {
	for _, form := range [...]string{"generation_config.", "generationconfig.", "inferenceconfig."} {
		path = strings.TrimPrefix(path, form)
	}
	for _, m := range members {
		if rest, ok := strings.CutPrefix(path, m.path); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return m.name
		}
	}
	if i := strings.IndexAny(path, ".["); i >= 0 {
		path = path[:i]
	}
	return path
}
