package definition

import (
	"regexp"
	"slices"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/prompt"
)

// otherBraces find placeholders of other template languages, which reach the model as
// they are: {% if x %}, and a name in single braces.
var otherBraces = regexp.MustCompile(`\{%.{1,60}?%\}|\$?\{([A-Za-z_][\w.-]*)\}`)

// warnOtherBraces warns of a placeholder of another template language in a message:
// of tags, and of names that are variables here.
func (p *Prompt) warnOtherBraces(l *loader, set variantSet) {
	names := p.vars.Names()
	seen := make(map[document.Position]bool) // a message may be inherited
	for _, v := range set.list {
		for i := range v.messages {
			v.messages[i].eachText(func(_ *prompt.Template, source string, pos document.Position) {
				if !seen[pos] {
					seen[pos] = true
					warnBraces(l, source, pos, names)
				}
			})
		}
	}
}

// warnBraces warns of the first such placeholder of a text.
func warnBraces(l *loader, source string, pos document.Position, names []string) {
	for _, at := range otherBraces.FindAllStringSubmatchIndex(source, -1) {
		text := source[at[0]:at[1]]
		switch {
		case at[2] < 0:
			l.warnAt("placeholder", &document.Node{Pos: pos}, "%s is sent to the model as it is: a message has {{name}} only, so make it a variant, or decide it in the caller", text)
		case slices.Contains(names, source[at[2]:at[3]]) && (at[0] == 0 || source[at[0]-1] != '{'):
			l.warnAt("placeholder", &document.Node{Pos: pos}, "%s is sent to the model as it is: write {{%s}} for the variable", text, source[at[2]:at[3]])
		default:
			continue
		}
		return
	}
}
