package price

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/regular"
)

// The names that a price has in files and in a Caddyfile, that a change for long prompts
// has, and that a class of service has.
var (
	Members       = slices.Concat(names[:], []string{"web_search", "file_search", "code_execution", "above", "batch", "flex", "priority", "max_output"}, ModelMembers)
	ChangeMembers = slices.Concat([]string{"factor"}, names[:])
	ClassMembers  = slices.Concat(ChangeMembers, []string{"above"})
)

// Example is a file of prices, for messages.
const Example = `gpt-6-luna: { prompt: 0.10, completion: 0.50 }`

// ReadFiles reads files of prices, whose paths resolve completes. No two files may have
// a price of the same name.
func ReadFiles(files []string, resolve func(file string) (path string, err error)) (map[string]*Price, error) {
	all := make(map[string]*Price)
	from := make(map[string]string) // the file of each
	for _, file := range files {
		path, err := resolve(file)
		if err != nil {
			return nil, fmt.Errorf("prices %s: %w", file, err)
		}
		prices, err := ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("prices %s:\n%w", file, err)
		}
		for _, model := range slices.Sorted(maps.Keys(prices)) {
			if other, taken := from[model]; taken {
				return nil, fmt.Errorf("prices %s: %s has a price in %s too: delete one of them", file, model, other)
			}
			all[model], from[model] = prices[model], file
		}
	}
	return all, nil
}

// ReadFile reads a file of prices, YAML or JSON: a mapping of MODEL or PROVIDER/MODEL to
// the members of a price, of which prompt and completion are required. The error names
// each mistake with its line and column.
func ReadFile(path string) (map[string]*Price, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, document.MaxFileBytes+1))
	if err != nil {
		return nil, err
	}
	return parseFile(path, data)
}

func parseFile(file string, data []byte) (map[string]*Price, error) {
	var errs document.Errors
	if document.TooLarge(file, int64(len(data)), &errs) {
		return nil, errs.Err()
	}
	root := document.Parse(file, data, &errs)
	if err := errs.Err(); err != nil {
		return nil, err
	}
	prices := make(map[string]*Price)
	if root == nil {
		return prices, nil
	}
	if !root.CheckMapping(&errs, "a file of prices", Example) {
		return nil, errs.Err()
	}
	for _, m := range root.Members {
		model, ok := m.Key.ReadName(&errs, "a model")
		if ok && model == "" {
			errs.AddAt(m.Key.Pos, "a price must have the name of a model, or of a provider and its model, such as azure/gpt-5.5")
			continue
		}
		if !ok || !m.Value.CheckMembers(&errs, "the price of "+model, Members...) {
			continue
		}
		r := reader{price: new(Price), model: model, errs: &errs}
		r.members(m.Value, "", Members)
		for _, required := range names[:completion+1] {
			if m.Value.Get(required) == nil {
				errs.AddAt(m.Key.Pos, "the price of %s must have %s: US dollars per million tokens, 0 where nothing is paid", model, required)
			}
		}
		if errs.Len() == 0 {
			if err := r.price.Validate(); err != nil {
				errs.AddAt(m.Key.Pos, "the price of %s: %v", model, err)
			}
		}
		prices[model] = r.price
	}
	return prices, errs.Err()
}

// reader reads one price of a file.
type reader struct {
	price *Price
	model string
	errs  *document.Errors
}

// members reads the known members of a mapping, whose place in the price has the prefix.
// Others were reported by then.
func (r reader) members(n *document.Node, prefix string, known []string) {
	for _, m := range n.Members {
		switch name := m.Key.Text; {
		case !slices.Contains(known, name):
		case name == "above":
			r.tiers(m.Value, prefix+"above")
		case prefix == "" && r.price.classOf(name) != nil:
			if m.Value.Shape == document.Scalar {
				r.set(m.Value, name+".factor")
			} else if m.Value.CheckMembers(r.errs, "the class "+name, ClassMembers...) {
				r.some(m, "the class "+name)
				r.members(m.Value, name+".", ClassMembers)
			}
		case prefix == "" && slices.Contains(ModelMembers, name):
			text, ok := m.Value.ReadName(r.errs, name+" of "+r.model)
			if !ok {
				continue
			}
			if err := r.price.Model.Set(name, text); err != nil {
				r.errs.AddAt(m.Value.Pos, "%s of %s: %v", name, r.model, err)
			}
		default:
			r.set(m.Value, prefix+name)
		}
	}
}

func (r reader) tiers(n *document.Node, path string) {
	if !n.CheckMapping(r.errs, "above", "{ 200000: { prompt: 2.5, completion: 15 } }") {
		return
	}
	for _, m := range n.Members {
		tokens, err := strconv.ParseInt(m.Key.Text, 10, 64)
		if err != nil || tokens <= 0 {
			r.errs.AddAt(m.Key.Pos, "above has numbers of tokens of the prompt, such as 200000, this is %s", m.Key.Describe())
			continue
		}
		if m.Value.CheckMembers(r.errs, "above "+m.Key.Text, ChangeMembers...) {
			r.some(m, "above "+m.Key.Text)
			r.members(m.Value, fmt.Sprintf("%s.%d.", path, tokens), ChangeMembers)
		}
	}
}

// some refuses a part of a price of which nothing is given.
func (r reader) some(m document.Member, part string) {
	if len(m.Value.Members) == 0 {
		r.errs.AddAt(m.Key.Pos, "%s of %s must have prices, such as prompt: 2.5", part, r.model)
	}
}

// set reads a number.
func (r reader) set(n *document.Node, path string) {
	if path == "max_output" {
		tokens, ok := n.ReadInt(r.errs, path+" of "+r.model, 0, math.MaxInt64)
		if ok {
			r.price.MaxOutput = tokens
		}
		return
	}
	number, ok := n.ReadFloat(r.errs, path+" of "+r.model, 0, dearest)
	if ok {
		_ = r.price.Set(path, number) // which has no other errors
	}
}
