package gateway

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/cache"
	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/invoke"
	"github.com/cadenza-gateway/cadenza/internal/price"
	"github.com/cadenza-gateway/cadenza/providers"
)

// Each field of an endpoint and of its prompt's variant must reach the call of the
// model. This test finds the fields by reflection, so a new one fails it until the
// field is wired, or excluded here.

// The parameters, for a prompt's variant and for a fallback.
const wiredParameters = `
temperature: 0.25
max_tokens: 100
top_p: 0.5
top_k: 40
frequency_penalty: 0.125
presence_penalty: 0.375
seed: 7
stop: [ END ]
reasoning_effort: low
response_format: { json_schema: { name: form, schema: { type: object }, strict: true } }
tools: [ { name: look, description: Looks., parameters: { type: object }, strict: true }, { name: find } ]
tool_choice: { name: look }
extra: { user: someone }
`

const wiredEndpoint = `
prompt: asked
log: metadata
retry: { count: 1, on_codes: [ 429 ] }
max_attempts: 5
timeout: { total: 60s, first_token: 10s, idle: 8s }
hedge: { after: 2s }
cache: { ttl: 10m }
idempotency: true
weight: 3
fallback:
  - provider: second
    model: large
    weight: 2
`

const wiredPrompt = `
variants:
  only:
    provider: first
    model: small
    messages: [ { role: user, content: Hi } ]
`

// wiring is an edit that changes a single field, and its expected effects.
type wiring struct {
	old, new string
	// elsewhere is set if the field does not affect the call of the model: it
	// names the tests of the field.
	elsewhere string
}

// parameterEdits are by the path of the field, relative to providers.Parameters.
var parameterEdits = map[string]wiring{
	"Temperature":           {old: "0.25", new: "0.75"},
	"MaxTokens":             {old: "max_tokens: 100", new: "max_tokens: 101"},
	"TopP":                  {old: "top_p: 0.5", new: "top_p: 0.6"},
	"TopK":                  {old: "40", new: "41"},
	"FrequencyPenalty":      {old: "0.125", new: "0.25"},
	"PresencePenalty":       {old: "0.375", new: "0.5"},
	"Seed":                  {old: "seed: 7", new: "seed: 8"},
	"Stop":                  {old: "[ END ]", new: "[ STOP ]"},
	"ReasoningEffort":       {old: "low", new: "high"},
	"ResponseFormat.Type":   {old: "{ json_schema: { name: form, schema: { type: object }, strict: true } }", new: "json"},
	"ResponseFormat.Name":   {old: "name: form", new: "name: shape"},
	"ResponseFormat.Schema": {old: "name: form, schema: { type: object", new: "name: form, schema: { type: object, maxProperties: 1"},
	"ResponseFormat.Strict": {old: "schema: { type: object }, strict: true", new: "schema: { type: object }, strict: false"},
	"Tools.Name":            {old: "find", new: "seek"},
	"Tools.Description":     {old: "Looks.", new: "Finds."},
	"Tools.Parameters":      {old: "parameters: { type: object", new: "parameters: { type: object, maxProperties: 1"},
	"Tools.Strict":          {old: "parameters: { type: object }, strict: true", new: "parameters: { type: object }, strict: false"},
	"ToolChoice.Mode":       {old: "{ name: look }\n", new: "required\n"},
	"ToolChoice.Name":       {old: "tool_choice: { name: look }", new: "tool_choice: { name: find }"},
}

// endpointEdits are by the path of the field, relative to definition.Endpoint or its
// definition.Policy.
var endpointEdits = map[string]wiring{
	"Definition.Log":     {old: "metadata", new: "content", elsewhere: "TestCallersLowerTheLog"},
	"Prompt":             {old: "asked", new: "other"},
	"Retry.Count":        {old: "count: 1", new: "count: 0"},
	"Retry.OnCodes":      {old: "429", new: "500"},
	"MaxAttempts":        {old: "max_attempts: 5", new: "max_attempts: 6"},
	"Fallback.Provider":  {old: "second", new: "third"},
	"Fallback.Model":     {old: "large", new: "huge"},
	"Fallback.Extra":     {old: "someone", new: "nobody"},
	"Weights":            {old: "weight: 2", new: "weight: 4"},
	"Timeout.Total":      {old: "60s", new: "61s"},
	"Timeout.FirstToken": {old: "10s", new: "11s"},
	"Timeout.Idle":       {old: "8s", new: "9s"},
	"HedgeAfter":         {old: "2s", new: "3s"},
	"CacheTTL":           {old: "10m", new: "11m", elsewhere: "TestRememberedAnswerExpires"},
	"Idempotency":        {old: "true\nweight", new: "false\nweight", elsewhere: "TestEndpointIsAskedOnceForAKey"},
}

// derived are fields that follow from the others.
var derived = []string{
	"Definition.Kind", "Definition.Key", "Definition.Aliases", "Definition.Version", "Definition.Pos", "Definition.content", "Definition.prompt", "Definition.typ", "Definition.client", "Definition.Window", "Definition.table", "Definition.answer", "Definition.same", "Definition.node", "Fallback.origin", "origin",
	"policies", "byOutcome", "fallback", "Key",
	// Members and parameters that only callers set: see brought_test.go.
	// TestEmbeddingEndpoint and TestEmbeddingBatches have those of vectors.
	"Embedding.Space", "Embedding.Batch",
	"Accept", "Versions", "Fallback.Parameters.ParallelToolCalls", "Fallback.Parameters.Logprobs", "Parameters.ParallelToolCalls", "Parameters.Logprobs",
	"Fallback.Parameters.Thinking", "Parameters.Thinking", "Fallback.Parameters.Caller", "Parameters.Caller", "Fallback.Parameters.Tools.Cache", "Parameters.Tools.Cache",
}

// wired is the result of an endpoint's definition.
type wired struct {
	endpoint *definition.Endpoint
	how      *definition.Policy
	policy   invoke.Policy
	targets  []invoke.Target
	question cache.Question
}

// leaves returns the values of the fields of the endpoint and of its policy.
func (a *wired) leaves() map[string]string {
	leaves := leavesOf(a.endpoint)
	maps.Copy(leaves, leavesOf(a.how))
	return leaves
}

// standing is a provider that is never called.
type standing struct {
	providers.Provider
	name string
}

// PrepareRequests returns the request as text.
func (standing) PrepareRequests(req *providers.Request) (any, error) {
	text, err := json.Marshal(req)
	return string(text), err
}

func loadAsked(t *testing.T, endpoint, prompt string) wired {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"context.yaml": "fields: {}\n", "endpoints/e.yaml": endpoint,
		"prompts/asked.yaml": prompt, "prompts/other.yaml": strings.Replace(prompt, "small", "tiny", 1),
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	snapshot, err := definition.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	a := wired{endpoint: snapshot.Endpoints["e"]}
	w := &Workspace{WorkspaceConfig: WorkspaceConfig{Name: "w", Providers: map[string]providers.Provider{
		"first": standing{name: "first"}, "second": standing{name: "second"}, "third": standing{name: "third"},
	}}, prices: price.NewTable(nil), hosts: map[string]string{"first": "first:443", "second": "second:443", "third": "third:443"}}
	variant := a.endpoint.Prompt.Variants()[0]
	a.how = a.endpoint.Default()
	a.policy, a.targets = policyOf(a.how), w.targets(snapshot, a.how, variant)
	a.question = questionOf(w, a.endpoint, a.how, variant, []providers.Message{{Role: "user", Content: "Hi"}}, nil)
	return a
}

// questionOf returns the question of a call without targets.
func questionOf(w *Workspace, e *definition.Endpoint, how *definition.Policy, v *definition.Variant, messages []providers.Message, brought *dialect.Call) cache.Question {
	p := plan{asked: asked{callOf(incoming{workspace: w}), e, brought}, policy: how, variant: v, messages: messages}
	return p.cacheQuestion()
}

func TestFieldsOfAnEndpointAreWired(t *testing.T) {
	indented := func(text, by string) string {
		return strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n"+by) + "\n"
	}
	endpoint := strings.TrimRight(wiredEndpoint, "\n") + indented(wiredParameters, "    ")
	prompt := strings.TrimRight(wiredPrompt, "\n") + indented(wiredParameters, "    ")
	base := loadAsked(t, endpoint, prompt)

	// All edits, by the path of the field.
	edits := maps.Clone(endpointEdits)
	for path, edit := range parameterEdits {
		edits["Fallback.Parameters."+path] = edit
	}
	checkPaths(t, edits, reflect.TypeFor[definition.Endpoint](), reflect.TypeFor[definition.Policy]())

	reached := make(map[string]bool)
	for _, path := range slices.Sorted(maps.Keys(edits)) {
		edit := edits[path]
		edited := loadAsked(t, replaceOnce(t, path, endpoint, edit), prompt)
		changed := differences(base.leaves(), edited.leaves())
		if !slices.Contains(changed, path) {
			t.Errorf("%s: the edit %q → %q does not change it", path, edit.old, edit.new)
		}
		for _, also := range changed {
			// A form or a choice of another kind has no name.
			if parent, _, nested := cutLast(path); also != path && !(nested && strings.HasPrefix(also, parent+".")) {
				t.Errorf("%s: the edit changes %s too", path, also)
			}
		}
		checkAsked(t, path, base, edited, edit, reached)
		if edited.endpoint.Version == base.endpoint.Version {
			t.Errorf("%s: an endpoint that differs in it has the same version", path)
		}
	}

	variantEdits := map[string]wiring{
		"Provider": {old: "first", new: "third"}, "Model": {old: "small", new: "medium"}, "Extra": {old: "someone", new: "nobody"},
	}
	for path, edit := range parameterEdits {
		variantEdits["Parameters."+path] = edit
	}
	checkPaths(t, variantEdits, reflect.TypeFor[definition.Target]())
	for _, path := range slices.Sorted(maps.Keys(variantEdits)) {
		edit := variantEdits[path]
		edited := loadAsked(t, endpoint, replaceOnce(t, path, prompt, edit))
		checkAsked(t, "variant "+path, base, edited, edit, reached)
		if edited.endpoint.Prompt.Version == base.endpoint.Prompt.Version {
			t.Errorf("variant %s: a prompt that differs in it has the same version", path)
		}
	}

	// Each field of a call has an edit.
	for path := range leavesOf(base.policy) {
		if !reached["Policy."+path] {
			t.Errorf("no field of an endpoint decides on invoke.Policy.%s", path)
		}
	}
	for field := range fieldsOf(reflect.TypeFor[invoke.Call]()) {
		// The request sets the messages and the form of the answer, the workspace the ceilings
		// of calls in flight and the limits: see TestCeilingsOfCallsInFlight.
		// TestFailuresBehindAFallbackAreKept and TestTargets check the stored failures.
		if !slices.Contains([]string{"Policy", "Targets", "Messages", "Stream", "Pieces", "Committed", "InFlight", "HostLimit", "Purse", "StartSpan", "Terse", "Changed", "Ask"}, field.Name) {
			t.Errorf("nothing here sees what decides on invoke.Call.%s", field.Name)
		}
	}
	for path := range leavesOf(base.targets[0]) {
		// TestBoundsOf and TestABudgetKnowsExtra check the sources of bounds, and
		// TestLargerWindows that of the window, which the list of prices has.
		if !reached["Target."+path] && !strings.HasPrefix(path, "Bounds.") && path != "Window" && !slices.Contains(derived, path) {
			t.Errorf("no field of an endpoint decides on invoke.Target.%s", path)
		}
	}
}

// checkAsked checks that an edit reaches the call, and changes the question of the
// answer cache.
func checkAsked(t *testing.T, path string, base, edited wired, edit wiring, reached map[string]bool) {
	t.Helper()
	var found []string
	for _, p := range differences(leavesOf(base.policy), leavesOf(edited.policy)) {
		found = append(found, "Policy."+p)
	}
	for i := range base.targets {
		for _, p := range differences(leavesOf(base.targets[i]), leavesOf(edited.targets[i])) {
			found = append(found, "Target."+p)
		}
	}
	prepared := false // the provider's prepared request differs
	for _, p := range found {
		reached[p] = true
		prepared = prepared || p == "Target.Prepared"
	}
	for _, p := range found {
		if !prepared && (strings.HasPrefix(p, "Target.Parameters.") || p == "Target.Extra" || p == "Target.Model") {
			t.Errorf("%s: it reaches %s, and not what the provider prepares", path, p)
		}
	}
	if (len(found) == 0) != (edit.elsewhere != "") {
		t.Errorf("%s: it reaches %q of the call (said to be seen elsewhere: %q)", path, found, edit.elsewhere)
	}
	if edited.question == base.question {
		t.Errorf("%s: the answer cache takes what differs in it for the same question", path)
	}
}

// TestQuestion checks that every part of a question counts.
func TestQuestion(t *testing.T) {
	base := loadAsked(t, wiredEndpoint, wiredPrompt)
	variant := base.endpoint.Prompt.Variants()[0]
	seen := make(map[cache.Question]string)
	how := base.how
	see := func(what, workspace string, e *definition.Endpoint, v *definition.Variant, messages ...string) {
		t.Helper()
		list := make([]providers.Message, 0, len(messages)/2)
		for i := 0; i < len(messages); i += 2 {
			list = append(list, providers.Message{Role: messages[i], Content: providers.Escape(messages[i+1])})
		}
		q := questionOf(&Workspace{WorkspaceConfig: WorkspaceConfig{Name: workspace}}, e, how, v, list, nil)
		if other, there := seen[q]; there {
			t.Errorf("%s and %s are one question", what, other)
		}
		seen[q] = what
	}
	see("base", "w", base.endpoint, variant, "user", "Hi")
	see("another workspace", "v", base.endpoint, variant, "user", "Hi")
	see("another role", "w", base.endpoint, variant, "system", "Hi")
	see("another text", "w", base.endpoint, variant, "user", "Hi!")
	see("another cut", "w", base.endpoint, variant, "userH", "i")
	see("two messages", "w", base.endpoint, variant, "user", "Hi", "user", "Hi")
	endpoint := *base.endpoint
	endpoint.Key = "f"
	see("another endpoint", "w", &endpoint, variant, "user", "Hi")
	endpoint = *base.endpoint
	endpoint.Version += "0"
	see("another version", "w", &endpoint, variant, "user", "Hi")
	for what, edit := range map[string]func(*definition.Prompt){
		"another prompt":             func(p *definition.Prompt) { p.Key += "0" },
		"another prompt's version":   func(p *definition.Prompt) { p.Version += "0" },
		"a key that grew and shrank": func(p *definition.Prompt) { p.Key, p.Version = p.Key+p.Version[:1], p.Version[1:] },
	} {
		endpoint, prompt := *base.endpoint, *base.endpoint.Prompt
		edit(&prompt)
		endpoint.Prompt = &prompt
		see(what, "w", &endpoint, variant, "user", "Hi")
	}
	other := *variant
	other.Key += "0"
	see("another variant", "w", base.endpoint, &other, "user", "Hi")
	how = &definition.Policy{Key: "another"}
	see("another variant of the endpoint", "w", base.endpoint, variant, "user", "Hi")
}

func replaceOnce(t *testing.T, path, text string, edit wiring) string {
	t.Helper()
	if n := strings.Count(text, edit.old); n != 1 {
		t.Errorf("%s: %q is %d times in\n%s", path, edit.old, n, text)
	}
	return strings.Replace(text, edit.old, edit.new, 1)
}

// checkPaths checks that there is an edit for each field, and for no others.
func checkPaths(t *testing.T, edits map[string]wiring, types ...reflect.Type) {
	t.Helper()
	var paths []string
	for _, typ := range types {
		paths = append(paths, pathsOf(typ, "")...)
	}
	for _, path := range paths {
		if _, there := edits[path]; !there {
			t.Errorf("%s.%s: nothing here sees that it reaches the call of the model. Add an edit that changes it alone.", types, path)
		}
	}
	for path := range edits {
		if !slices.Contains(paths, path) {
			t.Errorf("%s has no field %s", types, path)
		}
	}
}

// inner returns the struct type of a field, of its elements or of its pointer's
// target; nil for other types. A prompt is a separate definition.
func inner(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[definition.Prompt]() {
		return nil
	}
	return t
}

// pathsOf returns the paths of the fields of a struct.
func pathsOf(t reflect.Type, prefix string) (paths []string) {
	for field := range fieldsOf(t) {
		path := prefix + field.Name
		switch typ := inner(field.Type); {
		case slices.Contains(derived, path):
		case typ == nil:
			paths = append(paths, path)
		default:
			paths = append(paths, pathsOf(typ, path+".")...)
		}
	}
	return paths
}

func fieldsOf(t reflect.Type) func(yield func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			if !yield(t.Field(i)) {
				return
			}
		}
	}
}

// leavesOf returns the values of the fields by their paths. The values of a list's
// elements are joined.
func leavesOf(v any) map[string]string {
	leaves := make(map[string]string)
	var walk func(v reflect.Value, prefix string)
	walk = func(v reflect.Value, prefix string) {
		for field := range fieldsOf(v.Type()) {
			path := prefix + field.Name
			if slices.Contains(derived, path) {
				continue
			}
			value := v.FieldByIndex(field.Index)
			if inner(field.Type) == nil {
				leaves[path] += printed(value) + ";"
				continue
			}
			for value.Kind() == reflect.Pointer && !value.IsNil() {
				value = value.Elem()
			}
			switch value.Kind() {
			case reflect.Struct:
				walk(value, path+".")
			case reflect.Slice:
				for i := range value.Len() {
					walk(value.Index(i), path+".")
				}
			}
		}
	}
	walk(reflect.Indirect(reflect.ValueOf(v)), "")
	return leaves
}

func printed(v reflect.Value) string {
	if p, ok := v.Interface().(*definition.Prompt); ok {
		return p.Key
	}
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	return fmt.Sprint(v.Interface())
}

// differences returns the paths at which two values differ.
func differences(a, b map[string]string) (paths []string) {
	for path, value := range a {
		if b[path] != value {
			paths = append(paths, path)
		}
	}
	for path := range b {
		if _, there := a[path]; !there {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

func cutLast(path string) (parent, name string, nested bool) {
	i := strings.LastIndexByte(path, '.')
	if i < 0 {
		return "", path, false
	}
	return path[:i], path[i+1:], true
}
