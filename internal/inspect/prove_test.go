package inspect

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/rules"
	"github.com/cadenza-gateway/cadenza/trace"
)

// provedTrace is a trace of the examples' ramp, by their revision and version.
const provedTrace = `{"trace_id":"t","time":"2026-11-22T09:30:00.12Z","kind":"remoteconfig","key":"new_checkout","version":"VERSION","revision":"REVISION",` +
	`"reason":"split","row":"ramp","arm":"new","splits":[{"experiment":{"definition":"remoteconfigs/new_checkout","rule":"ramp","salt":"ramp"},"bucket":12000,"arm":"new","share":0.2,"unit":"AAAAAAAAAAAAAAAA"}],` +
	`"inputs":{"environment":"production","plan":"pro","beta":false,"seats":{"hash":"B"},"customer_id":{"hash":"A"}},"context":{"environment":"production","plan":"pro","beta":false,"seats":20,"customer_id":"[redacted:email]"}}`

func tracedRamp(t testing.TB) (s *definition.Snapshot, traced string) {
	t.Helper()
	s, err := definition.Load(examples)
	must(t, err)
	return s, strings.NewReplacer("VERSION", s.RemoteConfigs["new_checkout"].Version, "REVISION", s.Revision).Replace(provedTrace)
}

// TestProve: what a proof says of one trace by what of it is another.
func TestProve(t *testing.T) {
	s, good := tracedRamp(t)
	for _, tt := range []struct{ old, new, result, says string }{
		{"", "", Same, "a recorded bucket stands in"},
		{`,"context":{`, `,"ignored":{`, Unknown, "trace: value for seats"},
		{`"seats":20`, `"seats":9`, Differs, "decide the default, and recorded is ramp (split), arm new"},
		{`"seats":20,`, ``, Differs, `of which the context has no value`},
		{`"plan":"pro","beta":false,"seats":20`, `"plan":"free","beta":false,"seats":20`, Differs, `"plan" is "pro", and "free" by the context`},
		{`"reason":"split"`, `"reason":""`, Unknown, "the trace has no reason"},
		{`"reason":"split"`, `"reason":"split","api_key":"console:eve"`, Unknown, "a call of the console's playground"},
		{`"reason":"split"`, `"reason":"no_context"`, Differs, "without a context there are no inputs"},
		{`"bucket":12000`, `"bucket":32000`, Differs, `bucket 32000 has arm ""`},
		{`"bucket":12000,`, ``, Differs, "its bucket is none"},
		{`"share":0.2`, `"share":0.3`, Differs, "share 0.2, and recorded are"},
		{`"salt":"ramp"`, `"salt":"other"`, Differs, "is no split that the answer rests on"},
		{`"key":"new_checkout"`, `"key":"gone"`, Differs, "has no remoteconfig gone"},
		{`"revision":"`, `"revision":"x`, Differs, "the trace is of revision x"},
		{`"inputs":{`, `"inputs":[],"was":{`, Differs, "inputs is no object"},
		{`"inputs":{"env`, `"inputs":{"extra":1,"env`, Differs, `inputs has "extra"`},
		{`"unit":"A`, `"unit":"B`, Same, ""},
	} {
		text := strings.Replace(good, tt.old, tt.new, 1)
		traced := new(Traced)
		must(t, json.Unmarshal([]byte(text), traced))
		p := Prove(s, traced)
		if says := fmt.Sprint(p.Differences, p.Missing, p.Notes); p.Result != tt.result || !strings.Contains(says, tt.says) {
			t.Errorf("%s for %s: %s %s, want %s %s", tt.new, tt.old, p.Result, says, tt.result, tt.says)
		}
	}
}

// TestProveSeals: what the seal adds to a proof, and to one that can't be had.
func TestProveSeals(t *testing.T) {
	s, good := tracedRamp(t)
	for _, tt := range []struct {
		v            trace.Verification
		result, says string
	}{
		{trace.Verification{Result: trace.SealValid, Key: "k"}, Same, "[] [] [a recorded bucket"},
		{trace.Verification{Result: trace.SealValid, Removed: []string{"response", "messages"}}, Same, "removed after the record was made: response, messages"},
		{trace.Verification{Result: trace.SealChanged}, Differs, "the record was changed after it was made"},
		{trace.Verification{Result: trace.SealChanged, Changed: []string{"response"}}, Differs, "changed after the record was made: response"},
		{trace.Verification{Result: trace.SealOtherKey, Key: "9c2f1a0b"}, Unknown, "under the trace key 9c2f1a0b"},
		{trace.Verification{Result: trace.SealNone}, Unknown, "has no seal"},
	} {
		traced := &Traced{Verification: tt.v}
		must(t, json.Unmarshal([]byte(good), traced))
		p := Prove(s, traced)
		if says := fmt.Sprint(p.Differences, p.Missing, p.Notes); p.Result != tt.result || !strings.Contains(says, tt.says) {
			t.Errorf("%+v: %s %s, want %s %s", tt.v, p.Result, says, tt.result, tt.says)
		}
		want := Unknown
		if tt.result == Differs {
			want = Differs
		}
		if p := Unproved(traced, "gone"); p.Result != want || !strings.Contains(fmt.Sprint(p.Missing), "gone") {
			t.Errorf("%+v, without definitions: %s %s", tt.v, p.Result, p.Missing)
		}
	}
}

// FuzzProve: no trace of another program ends the process, and a proof that is not
// the same says why.
func FuzzProve(f *testing.F) {
	s, good := tracedRamp(f)
	f.Add(good)
	f.Add(strings.Replace(good, `"reason":"split"`, `"context":7,"reason":"no_context"`, 1))
	f.Add(strings.NewReplacer(`"remoteconfig"`, `"endpoint"`, "new_checkout", "support_chat").Replace(good))
	f.Fuzz(func(t *testing.T, text string) {
		traced := new(Traced)
		if json.Unmarshal([]byte(text), traced) != nil {
			return
		}
		traced.Revision = s.Revision
		p := Prove(s, traced)
		if (p.Result == Differs) != (len(p.Differences) > 0) || p.Result == Unknown && len(p.Missing) == 0 {
			t.Errorf("%s: %v %v", p.Result, p.Differences, p.Missing)
		}
	})
}

// TestProveSplitsOfTwoTables: a table is asked for its own splits alone, and those of a
// configuration that it reads are that one's.
func TestProveSplitsOfTwoTables(t *testing.T) {
	s := load(t, workspace(t,
		"context.yaml", "fields:\n  id: string\n  plan: { type: string, trace: value }\n",
		"remoteconfigs/inner.yaml", "type: boolean\ndefault: false\nrules:\n- id: half\n  split: { by: id, of: [ { value: true, share: 50% } ] }\n",
		"remoteconfigs/outer.yaml", "type: number\ndefault: 0\nrules:\n- id: staff\n  when: { plan: staff }\n  value: 9\n- id: ramp\n  when: { config: { inner: true } }\n  split: { by: id, of: [ { value: 1, share: 20% } ] }\n",
	))
	split := func(name, rule string, bucket int, arm string, share float64) string {
		return fmt.Sprintf(`{"experiment":{"definition":"remoteconfigs/%s","rule":%q,"salt":%[2]q},"bucket":%d,"arm":%q,"share":%v,"unit":"AAAAAAAAAAAAAAAA"}`, name, rule, bucket, arm, share)
	}
	inner, outer := split("inner", "half", 12000, "1", 0.5), split("outer", "ramp", 12000, "1", 0.2)
	for splits, result := range map[string]string{inner + "," + outer: Same, outer + "," + inner: Same, outer: Differs, inner + "," + outer + "," + outer: Differs} {
		traced := new(Traced)
		text := fmt.Sprintf(`{"trace_id":"t","time":"2026-11-22T09:30:00.12Z","kind":"remoteconfig","key":"outer","version":%q,"revision":%q,"reason":"split","row":"ramp","arm":"1",`+
			`"splits":[%s],"read":{"remoteconfigs/inner":%q},"inputs":{"id":{"hash":"A"},"plan":"free"},"context":{"id":"[redacted:email]","plan":"free"}}`,
			s.RemoteConfigs["outer"].Version, s.Revision, splits, s.RemoteConfigs["inner"].Version)
		must(t, json.Unmarshal([]byte(text), traced))
		if p := Prove(s, traced); p.Result != result {
			t.Errorf("%s: %s, want %s: %v %v", splits, p.Result, result, p.Differences, p.Missing)
		}
	}
}

// TestProveSplitsBeside: splits that were not consulted are held against the definitions,
// the unit where it is known, and each other.
func TestProveSplitsBeside(t *testing.T) {
	t.Parallel()
	s := load(t, workspace(t,
		"context.yaml", "fields:\n  id: string\n  plan: { type: string, trace: value }\n",
		"remoteconfigs/a.yaml", "type: number\ndefault: 0\nrules:\n- { id: top, when: { plan: pro }, value: 9 }\n"+
			"- { id: half, split: { by: id, salt: s, of: [ { value: 1, share: 50% }, { value: 2, share: 30%, name: b } ] } }\n"+
			"- { id: again, split: { by: id, salt: s, of: [ { value: 3, share: 10% } ] } }\n",
	))
	c := s.RemoteConfigs["a"]
	var b rules.Binding
	var trail rules.Trail
	must(t, s.Model.Bind(&b, fastjson.MustParse(`{"id":"c-1","plan":"pro"}`), time.Now()))
	c.Table().AppendTrail(&trail, &b)
	trail.Rest(&b)
	splits := string(trail.AppendSplits(nil, &b, func(dst []byte, _, _ string) []byte { return append(dst, "AAAAAAAAAAAAAAAA"...) }))
	bucket := fmt.Sprintf(`"bucket":%d`, trail.Splits[0].Bucket)
	if strings.Count(splits, bucket+`,"consulted":false`) != 2 || trail.Splits[0].Bucket > 99_990 {
		t.Fatal(splits)
	}
	another := fmt.Sprintf(`"bucket":%d`, trail.Splits[0].Bucket+1)
	for _, tt := range []struct {
		old, new, context string
		all               bool
		result, says      string
	}{
		{"", "", "", false, Same, ""},
		{"", "", `{"id":"c-1","plan":"pro"}`, false, Same, ""},
		{bucket, another, "", false, Differs, "again and half divide units alike, and the buckets of one unit are different"},
		{bucket, another, "", true, Same, ""},
		{bucket, another, `{"id":"c-1","plan":"pro"}`, true, Differs, "again: the unit falls on bucket"},
		{`{"1":0.5,"b":0.3}`, `{"1":0.5,"b":0.2}`, "", false, Differs, "the shares of its arms are map[1:0.5 b:0.3], and recorded are map[1:0.5 b:0.2]"},
		{`,"arms":{"1":0.1}`, "", "", false, Differs, "the shares of its arms are map[1:0.1], and recorded are map[]"},
		{`"consulted":false`, `"consulted":true`, "", false, Differs, `has arm`},
		{`"consulted":false`, `"consulted":false,"arm":"1","share":0.5`, "", false, Differs, `has arm "" and share 0, and recorded are "1" and 0.5`},
		{`"rule":"half"`, `"rule":"top"`, "", false, Differs, "is no split that the answer rests on"},
	} {
		n := 1
		if tt.all {
			n = -1
		}
		recorded := strings.Replace(splits, tt.old, tt.new, n)
		if tt.old == "" {
			recorded = splits
		}
		text := fmt.Sprintf(`{"trace_id":"t","time":"2026-11-22T09:30:00.12Z","kind":"remoteconfig","key":"a","version":%q,"revision":%q,"reason":"match","row":"top","splits":%s,"inputs":{"id":{"hash":"AAAAAAAAAAAAAAAA"},"plan":"pro"}`,
			c.Version, s.Revision, recorded)
		if tt.context != "" {
			text += `,"context":` + tt.context
		}
		traced := new(Traced)
		must(t, json.Unmarshal([]byte(text+"}"), traced))
		p := Prove(s, traced)
		if says := fmt.Sprint(p.Differences, p.Missing, p.Notes); p.Result != tt.result || !strings.Contains(says, tt.says) {
			t.Errorf("%s for %s: %s %s, want %s %s", tt.new, tt.old, p.Result, says, tt.result, tt.says)
		}
	}
	// A unit that came to a split was an exposure, whatever the record says.
	text := fmt.Sprintf(`{"trace_id":"t","time":"2026-11-22T09:30:00.12Z","kind":"remoteconfig","key":"a","version":%q,"revision":%q,"reason":"default","splits":[{"experiment":{"definition":"remoteconfigs/a","rule":"half","salt":"s"},"bucket":90000,"consulted":false,"arms":{"1":0.5,"b":0.3}},`+
		`{"experiment":{"definition":"remoteconfigs/a","rule":"again","salt":"s"},"bucket":90000,"share":0.1}],"inputs":{"id":{"hash":"A"},"plan":"free"}}`, c.Version, s.Revision)
	traced := new(Traced)
	must(t, json.Unmarshal([]byte(text), traced))
	if p := Prove(s, traced); p.Result != Differs || !strings.Contains(fmt.Sprint(p.Differences), "row half is recorded as not consulted, and the unit came to it") {
		t.Errorf("%s %v", p.Result, p.Differences)
	}
}
