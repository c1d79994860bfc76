package wire

import (
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
)

// TestLargeBodiesGrowOnce: the bytes that have arrived allow a larger buffer for the
// remainder, so that a body of a megabyte is not copied from buffer to buffer.
func TestLargeBodiesGrowOnce(t *testing.T) {
	body := strings.Repeat("x", 1<<20)
	req := httptest.NewRequest("POST", "/", strings.NewReader(body))
	r := new(Request)
	var reserved []int
	err := r.ReadBody(httptest.NewRecorder(), req, 8<<20, 0, 1, func(bytes int) *Error {
		reserved = append(reserved, bytes)
		return nil
	})
	if err != nil || string(r.body) != body {
		t.Fatalf("%v, %d bytes", err, len(r.body))
	}
	if len(reserved) != 1 || reserved[0] > 2<<20 {
		t.Errorf("reserved %v", reserved)
	}
}

// TestDroppedBodies: a dropped body's buffer serves the next request, and its parsed
// values stay.
func TestDroppedBodies(t *testing.T) {
	parse := func(text string) (*Request, string) {
		r := AcquireRequest()
		body := `{"key":"a","variables":{"x":"` + strings.Repeat(text, 100_000) + `"}}`
		if err := r.ReadBody(httptest.NewRecorder(), httptest.NewRequest("POST", "/", strings.NewReader(body)), 8<<20, 0, 0, nil); err != nil {
			t.Fatal(err)
		}
		e, err := r.Endpoint()
		if err != nil {
			t.Fatal(err)
		}
		size := r.Size()
		if r.DropBody(); r.Body() != nil || r.Size() != size || size < len(body) {
			t.Errorf("%d bytes are left, of a size of %d", len(r.Body()), r.Size())
		}
		return r, jsontext.View(e.Variables.GetStringBytes("x"))
	}
	first, x := parse("x")
	second, y := parse("y")
	if strings.Trim(x, "x") != "" || strings.Trim(y, "y") != "" || len(x) != 100_000 || len(y) != 100_000 {
		t.Error("one request's text is in another's")
	}
	first.Release()
	second.Release()
}

// TestManyValuesAreCounted: a short body may have many values, which take far more
// memory than its bytes. That memory is reserved before the values are parsed, and the
// reservation is about right.
func TestManyValuesAreCounted(t *testing.T) {
	body := `{"messages":[` + strings.Repeat(`{"role":"user","content":"a"},`, 16_000) + `{}]}`
	least := uint64(1 << 62)
	var r *Request
	for range 3 { // the least: other goroutines may allocate meanwhile
		r = new(Request)
		reserved := 0
		if err := r.ReadBody(httptest.NewRecorder(), httptest.NewRequest("POST", "/", strings.NewReader(body)), 8<<20, 0, 1, func(bytes int) *Error {
			reserved += bytes
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		of := reserved
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := r.Object(); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
		if got, want := reserved-of, r.Size()-len(body); got != want {
			t.Fatalf("reserved %d bytes for values of %d", got, want)
		}
	}
	if size := uint64(r.Size()); size < least*9/10 || size > least*3/2 {
		t.Errorf("a size of %d bytes, for %d that are allocated", size, least)
	}

	r.reserve = func(int) *Error { return Errorf(Overloaded, "", "no room") }
	if _, err := r.Object(); err == nil || err.Name != "overloaded" {
		t.Errorf("parsed without room: %v", err)
	}
	few := &Request{body: []byte(`{"messages":[]}`), reserve: r.reserve}
	if _, err := few.Object(); err != nil {
		t.Errorf("a small body: %v", err)
	}
}

// TestCopiesOfALargeBodyAreCounted: memory is reserved for a body and for its copies
// while it arrives, so parsing reserves none unless there are many values.
func TestCopiesOfALargeBodyAreCounted(t *testing.T) {
	for size, copies := range map[int]int{8 << 20: 2, 1 << 20: 1, 100 << 10: 0} {
		body := `{"a":"` + strings.Repeat("x", size-8) + `"}`
		r, reserved := new(Request), 0
		reserve := func(bytes int) *Error { reserved += bytes; return nil }
		if err := r.ReadBody(httptest.NewRecorder(), httptest.NewRequest("POST", "/", strings.NewReader(body)), 8<<20, 0, copies, reserve); err != nil {
			t.Fatal(err)
		}
		want := (1 + copies) * size
		if reserved < want-(1+copies)*keepBodyBytes || reserved > want+(1+copies)*keepBodyBytes {
			t.Errorf("a body of %d bytes with %d copies: %d reserved", size, copies, reserved)
		}
		of := reserved
		if _, err := r.Object(); err != nil || reserved != of {
			t.Errorf("a body of %d bytes: %d reserved to parse it, %v", size, reserved-of, err)
		}
	}
}
