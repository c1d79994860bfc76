package definition

import (
	"cmp"
	"slices"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/internal/prompt"
	"github.com/cadenza-gateway/cadenza/providers"
)

// contentPart is a part of a message's content: text, or an image, a sound or a file.
type contentPart struct {
	kind   providers.PartKind
	text   *prompt.Template // of text
	source string           // the text, or the address, as it is written
	media  providers.Media  // its members in the definition
	slot   int              // the variable that is the address; -1: none
	name   string           // of that variable
	pos    document.Position
}

// maxParts is how many parts a message may have.
const maxParts = 100

// partKinds are the members of which a part has one.
var partKinds = []providers.PartKind{providers.PartText, providers.PartImage, providers.PartAudio, providers.PartFile}

// partMembers are the members of a part of each kind except the one that names it.
var partMembers = map[providers.PartKind][]string{
	providers.PartText:  nil,
	providers.PartImage: {"detail", "type"},
	providers.PartAudio: {"type"},
	providers.PartFile:  {"name", "type"},
}

// decodeParts reads the content of a message that is a list of parts.
func decodeParts(n *document.Node, role string, vars *prompt.Variables, errs *document.Errors) []contentPart {
	if len(n.Items) == 0 || len(n.Items) > maxParts {
		errs.Add(n, "a message has 1 to %d parts, this has %d", maxParts, len(n.Items))
	}
	parts := make([]contentPart, 0, len(n.Items))
	for _, item := range n.Items {
		if p, ok := decodePart(item, role, vars, errs); ok {
			parts = append(parts, p)
		}
	}
	return parts
}

func decodePart(n *document.Node, role string, vars *prompt.Variables, errs *document.Errors) (contentPart, bool) {
	if !n.CheckMapping(errs, "a part", `{ text: "…" } or { image: "{{photo}}" }`) {
		return contentPart{}, false
	}
	p := contentPart{slot: -1}
	for _, kind := range partKinds {
		if n.Get(kind.String()) != nil {
			p.kind = cmp.Or(p.kind, kind)
		}
	}
	if p.kind == 0 {
		known := make([]string, len(partKinds))
		for i, kind := range partKinds {
			known[i] = kind.String()
		}
		hint := ""
		for _, m := range n.Members {
			if near := document.Nearest(m.Key.Text, known); near != "" {
				hint = ": did you mean " + quoted(near) + "?"
			}
		}
		errs.Add(n, "a part must have one of the members %s%s", strings.Join(known, ", "), hint)
		return contentPart{}, false
	}
	what := p.kind.String()
	n.CheckMembers(errs, "a part with "+what, append([]string{what}, partMembers[p.kind]...)...)
	value := n.Get(what)
	if value.Shape != document.Scalar || value.IsNull() {
		errs.Add(value, "%s must be text, this is %s", what, value.Describe())
		return contentPart{}, false
	}
	p.source, p.pos = value.Text, value.Pos
	template := prompt.Compile(value, vars, errs)
	if p.kind == providers.PartText {
		p.text = template
		return p, true
	}
	if role != "user" && slices.Contains(roles, role) {
		errs.Add(n, "%s goes into a message with the role user, this has the role %s", what, role)
	}
	p.decodeMedia(n, errs)
	slot, alone, mixed := template.Whole()
	switch {
	case alone:
		p.slot = slot
		template.Uses(vars, func(name string) { p.name = name })
		if text, ok := vars.Default(p.name); ok && text != "" {
			if _, problem := p.read(text); problem != "" {
				errs.Add(value, "the default of the variable %s %s", p.name, problem)
			}
		}
	case mixed:
		errs.Add(value, `%s must come whole from a variable, as "{{photo}}" does, or have no variable in it: else a request could lead elsewhere`, what)
	default:
		if strings.Contains(value.Text, "{{") {
			break // reported, or escaped, which is no address
		}
		m, problem := p.read(value.Text)
		if problem != "" {
			errs.Add(value, "%s %s", what, problem)
		}
		if m.Data != "" && n.Get("type") != nil {
			errs.Add(n.Get("type"), "the data: URI says the type already: remove this one")
		}
		p.media = m
	}
	return p, true
}

// decodeMedia reads an image, a sound or a file of the definition.
func (p *contentPart) decodeMedia(n *document.Node, errs *document.Errors) {
	if m := n.Get("detail"); m != nil && p.kind == providers.PartImage {
		p.media.Detail, _ = m.ReadWord(errs, "detail", "auto", "low", "high")
	}
	if m := n.Get("name"); m != nil && p.kind == providers.PartFile {
		p.media.Name, _ = m.ReadName(errs, "name")
	}
	m := n.Get("type")
	if m == nil {
		return
	}
	text, ok := m.ReadString(errs, "type")
	switch {
	case !ok:
	case !providers.ValidMediaType(text):
		errs.Add(m, "type must be a media type such as application/pdf, this is %s", m.Describe())
	case !p.fits(text):
		errs.Add(m, "type must be that of %s, this is %s", p.kind, text)
	default:
		p.media.Type = text
	}
}

// fits reports whether data of a media type may be in the part.
func (p *contentPart) fits(mediaType string) bool {
	return p.kind == providers.PartFile || len(mediaType) > len(p.kind.String()) && strings.EqualFold(mediaType[:len(p.kind.String())+1], p.kind.String()+"/")
}

// read reads an address: a URL with the scheme https, or a data: URI. problem is the
// end of a sentence.
func (p *contentPart) read(address string) (m providers.Media, problem string) {
	m, problem = providers.ParseMedia(address)
	const must = "must be a URL that begins with https://, or a data: URI such as data:image/png;base64,iVBORw0…"
	switch {
	case strings.HasPrefix(problem, "must"): // which would name http, too
		return m, must
	case problem != "":
		return m, problem
	case m.URL != "" && !strings.EqualFold(m.URL[:len("https://")], "https://"):
		return m, must
	case m.Data != "" && !p.fits(m.Type):
		return m, "is data of the type " + m.Type + ", which is no " + p.kind.String()
	}
	m.Type, m.Detail, m.Name = cmp.Or(m.Type, p.media.Type), p.media.Detail, p.media.Name
	return m, ""
}

// check checks the variable that is the part's address. The error is a
// *prompt.InvalidError.
func (p *contentPart) check(values *prompt.Values) error {
	if p.slot < 0 {
		return nil
	}
	_, _, err := p.address(jsontext.View(values.Text(p.slot)))
	return err
}

// address reads the variable that is the part's address. has is false where it is
// empty.
func (p *contentPart) address(text string) (m providers.Media, has bool, err error) {
	if text == "" {
		return m, false, nil
	}
	m, problem := p.read(text)
	if problem != "" {
		return m, false, &prompt.InvalidError{Name: p.name, Reason: problem}
	}
	return m, true, nil
}

// render returns the part for a model. It copies data once, because the request that
// it came in does not outlive the call's beginning. has is false where it is empty. The
// error is a *prompt.InvalidError.
func (p *contentPart) render(values *prompt.Values) (rendered providers.Part, has bool, err error) {
	rendered.Kind = p.kind
	switch {
	case p.kind == providers.PartText:
		rendered.Text = p.text.Text(values)
		return rendered, rendered.Text != "", nil
	case p.slot < 0:
		rendered.Media = p.media
		return rendered, true, nil
	}
	rendered.Media, has, err = p.address(string(values.Text(p.slot)))
	return rendered, has, err
}

// always reports whether the part is never empty.
func (p *contentPart) always() bool {
	if p.kind == providers.PartText {
		return p.text.Literal() > 0
	}
	return p.slot < 0
}

// item returns the part in OpenAI's shape, for the answer that the API gives.
//
//	{"type":"image_url","image_url":{"url":…,"detail":"low"}}
//	{"type":"input_audio","input_audio":{"data":…,"format":"wav"}}
//	{"type":"file","file":{"file_data":…,"filename":…}}
func (p *contentPart) item() *prompt.Answer {
	a := &prompt.Answer{}
	switch p.kind {
	case providers.PartText:
		a.Literal(`{"type":"text","text":"`)
		a.Template(p.text)
		a.Literal(`"}`)
		return a
	case providers.PartAudio:
		if p.slot < 0 {
			a.Literal(string(appendAudio(nil, []byte(p.source))))
		} else {
			a.Media(p.slot, appendAudio, len(audioFrame))
		}
		return a
	}
	member, rest := `{"type":"image_url","image_url":{"url":"`, ""
	if p.media.Detail != "" {
		rest = `,"detail":` + quoted(p.media.Detail)
	}
	if p.kind == providers.PartFile {
		member = `{"type":"file","file":{"file_data":"`
		if p.media.Name != "" {
			rest = `,"filename":` + quoted(p.media.Name)
		}
	}
	a.Literal(member)
	if p.slot < 0 {
		a.Literal(string(jsontext.AppendEscaped(nil, p.source)))
	} else {
		a.Media(p.slot, nil, 0)
	}
	a.Literal(`"` + rest + "}}")
	return a
}

// audioFrame has at least as many bytes as appendAudio adds to an address.
const audioFrame = `{"type":"input_audio","input_audio":{"data":"","format":""}}`

// appendAudio appends a sound in OpenAI's shape, which has data in two formats. Other
// formats have the name of their type, and a URL has the shape of vLLM.
func appendAudio(dst, address []byte) []byte {
	m, _ := providers.ParseMedia(jsontext.View(address))
	if m.URL != "" {
		dst = append(dst, `{"type":"audio_url","audio_url":{"url":`...)
		dst = jsontext.AppendString(dst, m.URL)
		return append(dst, "}}"...)
	}
	_, format, _ := strings.Cut(strings.ToLower(m.Type), "/")
	switch format {
	case "mpeg":
		format = "mp3"
	case "x-wav", "wave", "vnd.wave":
		format = "wav"
	}
	dst = append(dst, `{"type":"input_audio","input_audio":{"data":`...)
	dst = jsontext.AppendString(dst, m.Data)
	dst = append(dst, `,"format":`...)
	dst = jsontext.AppendString(dst, format)
	return append(dst, "}}"...)
}

// content returns the part for a definition's content.
func (p *contentPart) content() content {
	c := content{p.kind.String(): p.source}
	if p.media.Detail != "" {
		c["detail"] = p.media.Detail
	}
	if p.media.Name != "" {
		c["name"] = p.media.Name
	}
	if p.media.Type != "" && (p.slot >= 0 || p.media.Data == "") {
		c["type"] = p.media.Type
	}
	return c
}
