package upstream

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/cadenza-gateway/cadenza/providers"
)

// Turns calls each with the turns of a conversation, for services whose turns alternate
// between user and assistant: messages of one role in a row are one turn. A turn has
// the messages from one to before another, the first and the last of them included, but
// not the messages between them that belong to no turn: the system's, and empty ones.
// Results of tools are the user's. The error is that of each, or of a role that does
// not exist.
func (s *Service) Turns(messages []providers.Message, each func(role string, from, to int) error) error {
	for i := range messages {
		switch role := messages[i].Role; role {
		case "system", "developer", "user", "assistant", "tool":
		default:
			return s.Unsendable("message %d has the unknown role %q", i+1, role)
		}
	}
	for from := 0; from < len(messages); {
		role := turnOf(&messages[from])
		to, next := from+1, from+1
		for ; role != "" && next < len(messages); next++ {
			if of := turnOf(&messages[next]); of == role {
				to = next + 1
			} else if of != "" {
				break
			}
		}
		if role != "" {
			if err := each(role, from, to); err != nil {
				return err
			}
		}
		from = next
	}
	return nil
}

// turnOf returns whose turn a message belongs to, empty for none.
func turnOf(m *providers.Message) string {
	switch m.Role {
	case "assistant":
		if sendable(m) {
			return "assistant"
		}
	case "user", "tool":
		if sendable(m) {
			return "user"
		}
	}
	return ""
}

// sendable reports whether anything of a message is to be sent. Thoughts alone are not:
// they are all there is of an answer that ended before its first word. White space alone
// is not either: some services reject it, even where their own models have said it before
// they called a tool.
func sendable(m *providers.Message) bool {
	if m.Parts == nil {
		return !m.Content.Blank()
	}
	for i := range m.Parts {
		switch p := &m.Parts[i]; p.Kind {
		case providers.PartThinking:
		case providers.PartText:
			if !p.Text.Blank() {
				return true
			}
		default:
			return true
		}
	}
	return false
}

// Parts calls each with the parts of a turn, and with the number of their message:
// the assistant's as InPlace has them. It ends with the first error of each,
// which is its own.
func Parts(messages []providers.Message, from, to int, each func(at int, p *providers.Part) error) error {
	for at := from; at < to; at++ {
		m := &messages[at]
		var err error
		switch {
		case turnOf(m) == "":
		case m.Parts == nil:
			err = each(at, &providers.Part{Kind: providers.PartText, Text: m.Content})
		case m.Role == "assistant":
			err = InPlace(m.Parts, func(p *providers.Part) error { return each(at, p) })
		default:
			for i := 0; i < len(m.Parts) && err == nil; i++ {
				err = each(at, &m.Parts[i])
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// OnlyText returns the text of a turn that is one message, and has nothing else.
func OnlyText(messages []providers.Message, from, to int) (text providers.Text, ok bool) {
	m := &messages[from]
	switch {
	case to > from+1:
		return "", false
	case m.Parts == nil:
		return m.Content, true
	case len(m.Parts) == 1 && m.Parts[0].Kind == providers.PartText:
		return m.Parts[0].Text, true
	}
	return "", false
}

// AppendInput appends the arguments of a tool call of message at, as they are, for a
// service that takes a JSON object in JSON. No arguments are the arguments of a tool
// without parameters. Others are an error.
func (s *Service) AppendInput(dst []byte, at int, arguments string) ([]byte, error) {
	from := len(dst)
	dst = append(dst, arguments...)
	switch input := bytes.TrimSpace(dst[from:]); {
	case len(input) == 0, string(input) == "null":
		return append(dst[:from], "{}"...), nil
	case input[0] != '{' || !json.Valid(input):
		return nil, s.Unsendable("message %d has a tool call whose arguments are not a JSON object", at+1)
	}
	return dst, nil
}

// ToolNames returns the names of the tools that a conversation has calls or results of,
// each once.
func ToolNames(messages []providers.Message) []string {
	var names []string
	for i := range messages {
		for j := range messages[i].Parts {
			p := &messages[i].Parts[j]
			for _, name := range [...]string{p.Call.Name, p.Result.Name} {
				if name != "" && !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
	}
	return names
}

// MediaType returns a media type in lower case, without its parameters. It
// corrects image/jpg, which some callers write, to image/jpeg.
func MediaType(media string) string {
	media, _, _ = strings.Cut(media, ";")
	if media = strings.ToLower(strings.TrimSpace(media)); media == "image/jpg" {
		return "image/jpeg"
	}
	return media
}

// usualTypes are the media types that errors name.
var usualTypes = []string{
	"application/pdf", "application/json", "application/xml", "application/zip", "application/rtf", "application/octet-stream",
	"application/msword", "application/vnd.ms-excel", "application/vnd.ms-powerpoint",
	"application/vnd.openxmlformats-officedocument.wordprocessingml.document",
	"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
	"application/vnd.openxmlformats-officedocument.presentationml.presentation",
	"text/plain", "text/markdown", "text/html", "text/csv", "text/xml",
	"image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml", "image/heic", "image/avif", "image/bmp", "image/tiff",
	"audio/wav", "audio/mpeg", "audio/ogg", "audio/flac", "audio/aac", "video/mp4", "video/mpeg", "video/webm", "video/quicktime",
}

// TypeName returns a media type as errors name it: "of the type text/csv". Any but the
// usual ones is a word of the caller's own, which logs must not have: "of an unusual
// type".
func TypeName(media string) string {
	if media = MediaType(media); slices.Contains(usualTypes, media) {
		return "of the type " + media
	}
	return "of an unusual type"
}
