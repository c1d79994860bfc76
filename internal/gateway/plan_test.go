package gateway_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
	"github.com/cadenza-gateway/cadenza/internal/inspect"
	"github.com/cadenza-gateway/cadenza/providers"
)

// edited loads the files of a revision, each changed by edit. It leaves out the analysis of
// the tables, which takes long for random ones: a plan does not ask for its warnings.
func edited(t *testing.T, past *definition.Past, edit func(path, text string) string) *definition.Snapshot {
	t.Helper()
	next := new(definition.Past)
	for _, f := range past.Files {
		f.Content = edit(f.Path, f.Content)
		f.Hash = fmt.Sprintf("%x", sha256.Sum256([]byte(f.Content)))
		next.Files = append(next.Files, f)
	}
	_, err := next.Load() // which tells the revision of the files
	if err == nil {
		t.Fatal("files without a revision are loaded")
	}
	_, named, _ := strings.Cut(err.Error(), " comes out as ")
	next.Revision, _, _ = strings.Cut(named, ":")
	s, err := next.Load()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// planned replays traces on sets of definitions that answer as the recorded ones did, and
// are others, so that none is taken as it is. It returns how many were replayed, what
// became of them, and the doubts.
func planned(t *testing.T, traces []*inspect.Traced, stored map[string]*definition.Past, edit func(path, text string) string) (total, undecided, version int64, doubts []inspect.PlanDoubt) {
	t.Helper()
	olds := loaded(t, stored)
	for revision, past := range stored {
		next := edited(t, past, edit)
		p := inspect.NewPlanner(func(revision string) (*definition.Snapshot, error) { return olds[revision], nil }, nil, next, inspect.PlanOptions{})
		for _, traced := range traces {
			if traced.Revision != revision {
				continue
			}
			if err := p.Add(traced, 1); err != nil {
				t.Fatal(err)
			}
			if plan := p.Report(); plan.Changed > 0 {
				recorded, _ := json.Marshal(traced)
				text, _ := json.Marshal(plan)
				t.Fatalf("%s\n%s", text, recorded)
			}
		}
		plan := p.Report()
		total, undecided, version, doubts = total+plan.Total, undecided+plan.NotDecided, version+plan.Version, append(doubts, plan.Undecided...)
	}
	return total, undecided, version, doubts
}

// never adds a row above all others that holds at no instant.
func never(path, text string) string {
	value := "a"
	if strings.HasSuffix(path, "context.yaml") {
		return text
	}
	return strings.Replace(text, "rules:\n", "rules:\n  - { id: never, until: 2000-01-01, value: "+value+" }\n", 1)
}

// TestMustHoldPlanOfServedDefinitions checks that a plan of definitions that answer as the
// served ones do says that all is the same: of any kind of answer, cell and split, by what
// a gateway recorded. What it can't decide has a field that tells.
func TestMustHoldPlanOfServedDefinitions(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(31, 2))
	for name, test := range map[string]struct {
		mode    map[string]string
		setting setting
		most    float64 // the share that is not decided
	}{
		"values":  {map[string]string{"": ", trace: value"}, options, 0},
		"context": {map[string]string{"": ", trace: hash"}, logContent, 0},
		"hashes":  {map[string]string{"city": ", trace: none", "locale": ", trace: value"}, options, 0.6},
	} {
		traces, stored := recordedFiles(t, r, gatewaytest.Full(50_000)/fewer, 2, func(field string) string { return test.mode[field] + test.mode[""] }, test.setting)
		total, undecided, version, doubts := planned(t, traces, stored, never)
		if total < int64(len(traces))*9/10 || float64(undecided) > test.most*float64(total) || version > 0 && test.most == 0 {
			t.Errorf("%s: of %d traces %d, %d not decided, %d of another version: %+v", name, len(traces), total, undecided, version, doubts)
		}
		for _, d := range doubts {
			if d.Field == "" {
				t.Errorf("%s: %+v", name, d)
			}
		}
		t.Logf("%s: of %d %d not decided, %d of another version", name, total, undecided, version)
	}
}

// TestPlanOfExamples is the same of the examples, of which every definition is asked.
func TestPlanOfExamples(t *testing.T) {
	t.Parallel()
	files, root := make(map[string]string), "../../examples/definitions"
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			var text []byte
			text, err = os.ReadFile(path)
			files["definitions"+strings.TrimPrefix(filepath.ToSlash(path), root)] = string(text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	g := startGateway(t, files, options, withProvider("openai", failing{err: &providers.Error{Provider: "openai", Status: 401}}))
	asked, kinds := 0, make(map[string]int)
	for i := range 60 {
		context := fmt.Sprintf(`{"environment":%q,"locale":%q,"plan":%q,"seats":%d,"beta":%t,"customer_id":"c-%d","tags":[%q],"app_version":"2.%d.0"}`,
			[]string{"production", "staging"}[i%2], []string{"nl-BE", "nl", "fr", "en"}[i%4], []string{"free", "pro", "enterprise"}[i%3], i*3, i%5 == 0, i, []string{"employee", "press"}[i%7/6], i%3)
		for _, d := range g.source.Snapshot().Definitions {
			kinds[d.Kind.String()]++
			path, body := "/v1/"+d.Kind.Folder, `{"keys":["`+d.Key+`"],"context":`+context+`}`
			if d.Kind.String() == "endpoint" {
				body = `{"key":"` + d.Key + `","context":` + context + `,"variables":{"question":"where is it?","text":"a b"}}`
			} else if d.Kind.String() == "prompt" {
				body = strings.TrimSuffix(body, "}") + `,"variables":{"question":"where is it?","text":"a b"}}`
			}
			if a := g.post(path, body); a.status == 200 {
				asked++
			}
		}
	}
	traces, stored := g.recorded(asked)
	total, undecided, version, doubts := planned(t, traces, stored, func(path, text string) string {
		if path == "context.yaml" {
			return "timezone: Asia/Tokyo\n" + text
		}
		return text
	})
	// A list is recorded as a hash: whether it has one tag is not known, where that decides.
	if len(kinds) != 3 || total < 300 || version > 0 || undecided > total/5 || len(doubts) > 1 || doubts[0].Field != "tags" {
		t.Errorf("%v, %d of %d not decided: %+v", kinds, undecided, total, doubts)
	}
}
