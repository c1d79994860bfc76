package calls

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cadenza-gateway/cadenza/trace"
)

// fill gives a value and all that is in it values that are not zero.
func fill(v reflect.Value, n *int) {
	*n++
	switch at := v.Addr().Interface().(type) {
	case **trace.Sealer: // nothing keeps it
		return
	case *time.Time:
		*at = time.Unix(1790000000, 123456789)
		return
	case *[]byte:
		*at = []byte{'{', '"', byte(*n), 0xff, '}'}
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("text\x00" + string(rune('a'+*n%26)))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(-int64(*n) << 33)
	case reflect.Uint8:
		v.SetUint(uint64(1 + *n%3))
	case reflect.Float64:
		v.SetFloat(-0.1 * float64(*n))
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	default:
		panic("a record has a " + v.Type().String())
	}
}

// textual replaces bytes that JSON can't keep in a list: notes are text.
func textual(r *trace.Record) {
	for i := range r.Attempts {
		r.Attempts[i].Error = "text"
	}
}

// TestEveryMemberComesBack, alone and with all others, exactly as it was.
func TestEveryMemberComesBack(t *testing.T) {
	n := 0
	var all trace.Record
	fill(reflect.ValueOf(&all).Elem(), &n)
	textual(&all)
	records := []trace.Record{{}, all}
	kind := reflect.TypeFor[trace.Record]()
	for i := range kind.NumField() {
		var one trace.Record
		fill(reflect.ValueOf(&one).Elem().Field(i), &n)
		switch kind.Field(i).Name {
		case "PromptTokens", "CompletionTokens", "TotalTokens":
			one.HasUsage = true
		case "SharesContent":
			one.Shared = &trace.Shared{Context: []byte("{}")}
		}
		if one.Shared != nil {
			one.SharesContent = true // of content that is not shown nothing is kept
		}
		textual(&one)
		records = append(records, one)
	}
	for _, want := range records {
		got, err := readRecord(first(appendRecord(nil, &want)))
		if err != nil {
			t.Fatal(err)
		}
		if got.State != trace.StateStarted {
			t.Errorf("the state is %s", got.State)
		}
		got.State = want.State
		if diff := cmp.Diff(&want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("(-written +read):\n%s", diff)
		}
	}
}

func first(text []byte, _ int) []byte { return text }

// TestContentIsLast: a list reads a record without it.
func TestContentIsLast(t *testing.T) {
	n := 0
	var whole trace.Record
	fill(reflect.ValueOf(&whole).Elem(), &n)
	textual(&whole)
	text, short := appendRecord(nil, &whole)
	got, err := readRecord(text[:short])
	if err != nil {
		t.Fatal(err)
	}
	want := whole
	want.State, want.Context, want.Variables, want.Messages, want.Response, want.ToolCalls = trace.StateStarted, nil, nil, nil, nil, nil
	want.Shared = &trace.Shared{Notes: whole.Shared.Notes, Metadata: whole.Shared.Metadata}
	if diff := cmp.Diff(&want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-want +read):\n%s", diff)
	}
}

// TestUnknownMembersArePassedOver: another version may have written them.
func TestUnknownMembersArePassedOver(t *testing.T) {
	text := first(appendRecord(nil, &trace.Record{ID: trace.ID{1}, Key: "k"}))
	text = appendValue(appendName(text, "a later member"), "value")
	text = appendText(text, "variant", []byte("v"))
	if r, err := readRecord(text); err != nil || r.Key != "k" || r.Variant != "v" {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestShownHasWhatIsShared(t *testing.T) {
	r := &trace.Record{
		Notes: []string{"own"}, SharesContent: true, Seal: "of an interrupted call",
		Shared: &trace.Shared{Notes: []string{"shared"}, Metadata: []byte("{}"), Context: []byte("[1]"), Variables: []byte("[2]")},
	}
	want := &trace.Record{Notes: []string{"shared", "own"}, Metadata: []byte("{}"), Context: []byte("[1]"), Variables: []byte("[2]")}
	if diff := cmp.Diff(want, Shown(r)); diff != "" {
		t.Error(diff)
	}
}

// FuzzReadRecord: whatever the bytes are, there is a record or an error.
func FuzzReadRecord(f *testing.F) {
	n := 0
	var all trace.Record
	fill(reflect.ValueOf(&all).Elem(), &n)
	f.Add(first(appendRecord(nil, &all)))
	f.Add([]byte{3, 'k', 'e', 'y', 0xff})
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := readRecord(text)
		if err != nil {
			return
		}
		again, err := readRecord(first(appendRecord(nil, r)))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r, again, cmpopts.EquateEmpty(), cmpopts.EquateNaNs()); diff != "" {
			t.Errorf("(-read +read again):\n%s", diff)
		}
	})
}
