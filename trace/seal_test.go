package trace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func mustSealer(t testing.TB, key, workspace string) *Sealer {
	t.Helper()
	s, err := NewSealer([]byte(key), workspace)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const sealKey = "0123456789abcdef"

// sealedRecord is a record with every member.
func sealedRecord(t testing.TB) *Record {
	t.Helper()
	r := completeRecord()
	r.Sealer = mustSealer(t, sealKey, "default")
	r.SealAs(r.State)
	return r
}

// TestSealsStayTheSame checks that the input of a seal does not change. Otherwise the
// records of earlier versions would seem changed.
func TestSealsStayTheSame(t *testing.T) {
	if got, want := sealedRecord(t).Seal, "606f9b23.VqfIdju491ud9EUIJYw3vg.context=lwIJO_bdjQA.variables=U_2gVgUbk_Q.messages=ZtF3w3jWoIk.response=sNR24MbAT5w.tool_calls=qV8yJpIVuMA"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// change changes the value at a pointer.
func change(t *testing.T, at any) {
	t.Helper()
	switch at := at.(type) {
	case *string:
		*at += "x"
	case *[]byte:
		*at = append(slices.Clone(*at), 'x')
	case *int:
		*at++
	case *int64:
		*at++
	case *float64:
		*at = *at*2 + 1
	case *bool:
		*at = !*at
	case *[]string:
		*at = append(slices.Clone(*at), "")
	case *time.Time:
		*at = at.Add(time.Millisecond)
	case *time.Duration:
		*at += time.Microsecond
	case *ID:
		at[3] ^= 1
	case *Kind:
		*at = KindPrompt
	case *State:
		*at = StateEnded
	default:
		t.Fatalf("a %T can't be changed", at)
	}
}

// TestSealNotices checks that a seal detects the change and the removal of each member of
// a record, and the change of each member of an attempt, in a stored record and in JSON.
func TestSealNotices(t *testing.T) {
	good := sealedRecord(t)
	var parsed Record
	clean := *good
	clean.Notes, clean.Response = []string{"a"}, []byte("hello")
	clean.SealAs(clean.State)
	if err := json.Unmarshal(clean.AppendJSON(nil), &parsed); err != nil {
		t.Fatal(err)
	}
	for form, original := range map[string]*Record{"stored": good, "parsed": &parsed} {
		if v := good.Sealer.Verify(original); v.Result != SealValid || v.Changed != nil || v.Removed != nil {
			t.Errorf("%s: %+v", form, v)
		}
		verify := func(what string, r *Record, want Verification) {
			t.Helper()
			want.Key = good.Sealer.keyName
			if diff := cmp.Diff(want, good.Sealer.Verify(r)); diff != "" {
				t.Errorf("%s, %s (-want +got):\n%s", form, what, diff)
			}
		}
		for _, f := range RecordFields {
			changed, removed := *original, *original
			want, without := Verification{Result: SealChanged}, Verification{Result: SealChanged}
			if f.Content {
				want.Changed = []string{f.Name}
				without = Verification{Result: SealValid, Removed: []string{f.Name}}
			}
			switch f.Name {
			case "seal":
				continue
			case "answers": // it grows after the seal
				change(t, f.At(&changed))
				verify(f.Name, &changed, Verification{Result: SealValid})
				without = Verification{Result: SealValid}
			case "attempts":
				for i := range attemptFields {
					changed.Attempts = slices.Clone(original.Attempts)
					change(t, attemptFields[i].At(&changed.Attempts[1]))
					verify(f.Name+" "+attemptFields[i].Name, &changed, want)
				}
			default:
				change(t, f.At(&changed))
				verify(f.Name, &changed, want)
			}
			if f.Known != nil {
				*f.Known(&removed) = false
			} else {
				reflect.ValueOf(f.At(&removed)).Elem().SetZero()
			}
			if f.Name != "state" { // change has set it to the zero value already
				verify("without "+f.Name, &removed, without)
			}
		}
		both := *original
		both.Context, both.Response = nil, []byte("bye")
		verify("two parts", &both, Verification{Result: SealChanged, Changed: []string{"response"}, Removed: []string{"context"}})
	}
	bare := *good
	bare.Context, bare.Variables, bare.Messages, bare.Response, bare.ToolCalls = nil, nil, nil, nil, nil
	bare.SealAs(bare.State)
	bare.Response = []byte("added")
	if v := good.Sealer.Verify(&bare); v.Result != SealChanged || !slices.Equal(v.Changed, []string{"response"}) {
		t.Errorf("a response that was added: %+v", v)
	}
}

// TestMembersAreKeptApart checks that text moved from one member to the next is a change.
func TestMembersAreKeptApart(t *testing.T) {
	r := sealedRecord(t)
	r.Notes = []string{"ab", "c"}
	r.SealAs(r.State)
	r.Notes = []string{"a", "bc"}
	if v := r.Sealer.Verify(r); v.Result != SealChanged {
		t.Errorf("notes: %+v", v)
	}
	r.Metadata = []byte("{}")
	r.SealAs(r.State)
	moved := r.Seal[:31] + string(appendSealed(nil, &sealedFields[len(sealedFields)-1], r))
	for _, seal := range []string{moved + r.Seal[31:], r.Seal + moved[31:]} {
		without := *r
		without.Metadata, without.Seal = nil, seal
		if v := r.Sealer.Verify(&without); v.Result != SealChanged {
			t.Errorf("the last member in the seal: %+v", v)
		}
	}
	r.Row, r.Variant = "ab", ""
	r.SealAs(r.State)
	r.Row, r.Variant = "", "ab"
	if v := r.Sealer.Verify(r); v.Result != SealChanged {
		t.Errorf("row and variant: %+v", v)
	}
}

// TestOtherSeals verifies seals of other keys, malformed seals, and a record without one.
func TestOtherSeals(t *testing.T) {
	good := sealedRecord(t)
	name := good.Sealer.keyName
	other, workspace := mustSealer(t, "another trace key", "default"), mustSealer(t, sealKey, "other")
	for _, tt := range []struct {
		by   *Sealer
		seal string
		want Verification
	}{
		{mustSealer(t, sealKey, "default"), good.Seal, Verification{Result: SealValid, Key: name}},
		{other, good.Seal, Verification{Result: SealOtherKey, Key: name}},
		{workspace, good.Seal, Verification{Result: SealChanged, Key: name}}, // moved there
		{good.Sealer, "", Verification{Result: SealNone}},
		{good.Sealer, "nonsense", Verification{Result: SealChanged}},
		{good.Sealer, "ZZZZZZZZ" + good.Seal[8:], Verification{Result: SealChanged}},
		{good.Sealer, "00000000" + good.Seal[8:], Verification{Result: SealOtherKey, Key: "00000000"}},
		{good.Sealer, name, Verification{Result: SealChanged, Key: name}},
		{good.Sealer, name + ".", Verification{Result: SealChanged, Key: name}},
		{good.Sealer, good.Seal[:30], Verification{Result: SealChanged, Key: name}},
		{good.Sealer, good.Seal[:31], Verification{Result: SealChanged, Key: name}}, // without its parts
		{good.Sealer, strings.Replace(good.Seal, ".context=", ".contexT=", 1), Verification{Result: SealChanged, Key: name}},
		{good.Sealer, good.Seal + ".x=y", Verification{Result: SealChanged, Key: name}},
	} {
		r := *good
		r.Seal = tt.seal
		if diff := cmp.Diff(tt.want, tt.by.Verify(&r)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.seal, diff)
		}
	}
	if _, err := NewSealer([]byte("short"), "w"); err == nil {
		t.Error("a short key is taken")
	}
	if _, err := NewSealer([]byte(sealKey), ""); err == nil {
		t.Error("no workspace is taken")
	}
	bare := new(Record)
	if bare.SealAs(StateEnded); bare.Seal != "" {
		t.Error("a record without a sealer is sealed")
	}
}

// TestSealOfShared checks that a seal covers a record as the store shows it.
func TestSealOfShared(t *testing.T) {
	s := mustSealer(t, sealKey, "default")
	for _, content := range []bool{true, false} {
		r := completeRecord()
		r.Sealer, r.SharesContent = s, content
		r.Shared = &Shared{Notes: []string{"first"}, Metadata: []byte(`{"m":1}`), Context: []byte(`{"c":1}`), Variables: []byte(`{"v":1}`)}
		r.SealAs(r.State)
		shown := *r
		shown.Shared, shown.SharesContent = nil, false
		shown.Notes, shown.Metadata, shown.Context, shown.Variables = append([]string{"first"}, r.Notes...), r.Shared.Metadata, nil, nil
		if content {
			shown.Context, shown.Variables = r.Shared.Context, r.Shared.Variables
		}
		if v := s.Verify(&shown); v.Result != SealValid || v.Removed != nil {
			t.Errorf("content %t: %+v", content, v)
		}
		shown.Notes[0] = "second"
		if v := s.Verify(&shown); v.Result != SealChanged {
			t.Errorf("content %t, another note: %+v", content, v)
		}
	}
}

// BenchmarkSeal measures seals of records with contents of several sizes.
func BenchmarkSeal(b *testing.B) {
	evaluation := completeRecord()
	evaluation.Attempts, evaluation.Messages, evaluation.Response, evaluation.ToolCalls, evaluation.Context, evaluation.Variables = nil, nil, nil, nil, nil, nil
	evaluation.Metadata = []byte(`{"conversation_id":"c-1","feature":"checkout"}`)
	evaluation.Splits = []byte(`[{"experiment":{"definition":"remoteconfigs/new_checkout","rule":"ramp","salt":"ramp"},"bucket":12000,"arm":"1","share":0.2,"unit":"AAAAAAAAAAAAAAAA"}]`)
	evaluation.Inputs = []byte(`{"environment":"production","plan":"pro","beta":false,"seats":{"hash":"BAAAAAAAAAAAAAAA"},"customer_id":{"hash":"AAAAAAAAAAAAAAAA"}}`)
	for _, content := range []int{0, 4 << 10, 64 << 10} {
		r := *evaluation
		r.Sealer, r.Messages = mustSealer(b, sealKey, "default"), make([]byte, content)
		b.Run(fmt.Sprintf("content=%d", content), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r.SealAs(StateEnded)
			}
		})
	}
}

// A sealer that has sealed earlier turns of conversations makes the seals of one that has
// not.
func TestSealsOfConversations(t *testing.T) {
	newSealer := func() *Sealer { return mustSealer(t, sealKey, "default") }
	used := newSealer()
	messages := []byte(`[{"role":"user","content":"` + strings.Repeat("The parcel is late. ", 4000) + `"}]`)
	for turn := range 20 {
		r := &Record{Workspace: "default", Messages: messages, Response: messages[:len(messages)-turn], Sealer: used}
		r.SealAs(StateInterrupted)
		r.SealAs(StateEnded)
		if want := newSealer().seal(r); r.Seal != want {
			t.Fatalf("turn %d has the seal %s, want %s", turn, r.Seal, want)
		}
		changed := *r
		changed.Messages = bytes.Clone(messages)
		changed.Messages[len(messages)*turn/20]++
		if v := used.Verify(&changed); v.Result != SealChanged {
			t.Errorf("turn %d: changed messages are %s", turn, v.Result)
		}
		messages = append(messages[:len(messages)-1:len(messages)-1], fmt.Sprintf(`,{"role":"user","content":"%d %s"}]`, turn, strings.Repeat("x", 1000*turn))...)
		if turn == 10 { // it is summed up
			messages = append(bytes.Clone(messages[:70_000]), `"}]`...)
		}
	}
}
