package price

import (
	_ "embed"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
)

// shippedPrices is the shipped table. Its head explains its lines. It is searched
// as text and never parsed as a whole, so that it costs nothing at start.
//
//go:embed prices.txt
var shippedPrices string

// Public reports whether the shipped table has prices of models that a host serves.
func Public(host string) bool {
	_, _, _, ok := section(hostName(host))
	return ok
}

// Shipped returns the shipped price of a model at a host, with or without a port, or
// nil. If the table lacks the model's whole name, it is the price of the name without
// the parts that name a version, removed one by one:
//
//	models/gemini-2.5-pro                          gemini-2.5-pro
//	gpt-4o-2024-08-06                              gpt-4o
//	us.anthropic.claude-haiku-4-5-20251001-v1:0    anthropic.claude-haiku-4-5
//	gemini-2.5-pro-preview-05-06                   gemini-2.5-pro
//	anthropic/claude-sonnet-4.5:nitro              anthropic/claude-sonnet-4.5
//
// At OpenRouter names that end in :free cost nothing.
func Shipped(host, model string) *Price {
	_, lines, also, ok := section(hostName(host))
	if !ok || model == "" {
		return nil
	}
	for {
		if p := search(lines, model); p != nil {
			return p
		}
		if also == "" {
			return nil
		}
		var next string
		next, also, _ = strings.Cut(also, " ")
		lines = sectionOf(shippedPrices, next)
	}
}

func hostName(host string) string {
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		host = host[:i]
	}
	return strings.ToLower(host)
}

// section returns the name and the lines of the prices of a host, and the names of the
// sections whose prices apply if it lacks its own. The lines begin with the end of a
// line.
func section(host string) (name, lines, also string, ok bool) {
	if host == "" {
		return "", "", "", false
	}
	rest := shippedPrices
	for {
		_, after, found := strings.Cut(rest, "\n[")
		if !found {
			return "", "", "", false
		}
		end := strings.IndexByte(after, '\n')
		rest = after[end:]
		name, patterns, _ := strings.Cut(after[:end], "] ")
		patterns, also, _ := strings.Cut(patterns, " + ")
		for pattern := range strings.FieldsSeq(patterns) {
			if matches(pattern, host) {
				lines, _, _ = strings.Cut(rest, "\n[")
				return name, lines, also, true
			}
		}
	}
}

// sectionOf returns the lines of a section of a table by its name.
func sectionOf(table, name string) string {
	_, after, _ := strings.Cut(table, "\n["+name+"]")
	lines, _, _ := strings.Cut(after, "\n[")
	return lines
}

// matches reports whether a host is one of a pattern, in which a * means any text.
func matches(pattern, host string) bool {
	before, after, any := strings.Cut(pattern, "*")
	if !any {
		return pattern == host
	}
	return len(host) > len(before)+len(after) && strings.HasPrefix(host, before) && strings.HasSuffix(host, after)
}

// versions yields the names under which a model may have a price: its own, and then the
// name without one part after the other that names a version.
func versions(model string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for whole := model; whole != ""; whole = withoutPrefix(whole) {
			for name := whole; name != ""; name = withoutSuffix(name) {
				if !yield(name) {
					return
				}
			}
		}
	}
}

// search looks for a model in the lines of a section.
func search(lines, model string) *Price {
	for name := range versions(strings.ToLower(model)) {
		if strings.HasSuffix(name, ":free") && strings.Contains(name, "/") {
			return new(Price)
		}
		if line := lineOf(lines, name); line != "" {
			p, _ := parseLine(line) // a test reads all lines
			return p
		}
	}
	return nil
}

// lineOf returns the text of a model's line, or of the line that it refers to, or
// "".
func lineOf(lines, name string) string {
	for {
		_, after, _ := strings.Cut(lines, "\n"+name+" ")
		line, _, _ := strings.Cut(after, "\n")
		alias, isAlias := strings.CutPrefix(line, "= ")
		if !isAlias {
			return line
		}
		name = alias
	}
}

// prefixes are prefixes of models' names: regions of Bedrock's inference profiles
// (https://docs.aws.amazon.com/bedrock/latest/userguide/inference-profiles.html), and
// resources of the APIs of Google and Fireworks.
var prefixes = []string{"us.", "eu.", "apac.", "global.", "us-gov.", "au.", "ca.", "in.", "jp.", "sa.", "models/", "accounts/fireworks/models/"}

// withoutPrefix returns the name of a model without one prefix, or "" if it has none.
func withoutPrefix(name string) string {
	for _, mark := range [...]string{"inference-profile/", "foundation-model/"} {
		if _, rest, ok := strings.Cut(name, mark); ok {
			return rest
		}
	}
	if strings.HasPrefix(name, "publishers/") || strings.HasPrefix(name, "projects/") {
		_, rest, _ := strings.Cut(name, "/models/")
		return rest
	}
	for _, prefix := range prefixes {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			return rest
		}
	}
	return ""
}

// withoutSuffix returns the name of a model without one part at its end that names a
// version, or "" if it has none.
func withoutSuffix(name string) string {
	i := strings.LastIndexByte(name, '-')
	if i > 0 {
		switch last := name[i+1:]; {
		case last == "latest", last == "preview", last == "exp", last == "beta":
			return name[:i]
		case last == "v0", last == "v1", last == "v2": // Bedrock's
			return name[:i]
		case isDigits(last) && len(last) == 2: // -05-06, -2024-08-06
			if before, ok := cutDigits(name[:i], 2); ok {
				if year, ok := cutDigits(before, 4); ok {
					return year
				}
				return before
			}
		case isDigits(last) && len(last) == 4: // -0613, -03-2025
			if before, ok := cutDigits(name[:i], 2); ok {
				return before
			}
			return name[:i]
		case isDigits(last) && (len(last) == 3 || len(last) == 8): // -001, -20250929
			return name[:i]
		}
	}
	if i := strings.LastIndexAny(name, ":@"); i > 0 {
		return name[:i]
	}
	return ""
}

// cutDigits returns name without a - and so many digits at its end.
func cutDigits(name string, digits int) (string, bool) {
	i := len(name) - digits - 1
	if i <= 0 || name[i] != '-' || !isDigits(name[i+1:]) {
		return "", false
	}
	return name[:i], true
}

func isDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

var errLine = errors.New("a line has a price of prompts, one of completions, and members as NAME=NUMBER")

// parseLine parses the part of a line after the name:
//
//	1.25 10 cache_read=0.125 above.200000.prompt=2.5 batch.factor=0.5 max_output=65536
func parseLine(line string) (*Price, error) {
	p := new(Price)
	fields := strings.Split(line, " ")
	if len(fields) < 2 {
		return nil, errLine
	}
	for i, field := range fields {
		name, text, named := strings.Cut(field, "=")
		if named != (i >= 2) {
			return nil, errLine
		}
		if !named {
			name, text = names[i], field
		}
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", field, err)
		}
		if err := p.Set(name, n); err != nil {
			return nil, err
		}
	}
	return p, p.Validate()
}

// Set sets a price by its name, which begins with the names of the members around it:
//
//	prompt    web_search    above.200000.prompt    batch.factor    batch.above.200000.prompt
func (p *Price) Set(name string, n float64) error {
	switch name {
	case names[prompt]:
		p.Prompt = n
	case names[completion]:
		p.Completion = n
	case "web_search":
		p.WebSearch = n
	case "file_search":
		p.FileSearch = n
	case "code_execution":
		p.CodeExecution = n
	case "max_output":
		if p.MaxOutput = int64(n); float64(p.MaxOutput) != n {
			return fmt.Errorf("max_output %v must be a whole number of tokens", n)
		}
	default:
		first, rest, deeper := strings.Cut(name, ".")
		if !deeper {
			return setPart(p.member(name), name, n)
		}
		if first == "above" {
			return setTier(&p.Above, rest, n)
		}
		class := p.classOf(first)
		if class == nil {
			return fmt.Errorf("%s is no class of service", first)
		}
		if *class == nil {
			*class = new(Class)
		}
		if rest, ok := strings.CutPrefix(rest, "above."); ok {
			return setTier(&(*class).Above, rest, n)
		}
		return setPart((*class).member(rest), rest, n)
	}
	return nil
}

func setTier(tiers *map[int64]Change, name string, n float64) error {
	length, name, _ := strings.Cut(name, ".")
	tokens, err := strconv.ParseInt(length, 10, 64)
	if err != nil {
		return fmt.Errorf("above %s must be a number of tokens of the prompt, 1 or more", length)
	}
	if *tiers == nil {
		*tiers = make(map[int64]Change)
	}
	tier := (*tiers)[tokens]
	err = setPart(tier.member(name), name, n)
	(*tiers)[tokens] = tier
	return err
}

func setPart(part **float64, name string, n float64) error {
	if part == nil {
		return fmt.Errorf("%s is no price", name)
	}
	*part = &n
	return nil
}
