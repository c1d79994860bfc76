package wire

import (
	"net/http/httptest"
	"strings"
	"testing"
)

// TestLargeBodiesGrowOnce: a part of a body that has come vouches for the rest, so that
// a body of a megabyte is not copied from buffer to buffer.
func TestLargeBodiesGrowOnce(t *testing.T) {
	body := strings.Repeat("x", 1<<20)
	req := httptest.NewRequest("POST", "/", strings.NewReader(body))
	r := new(Request)
	var reserved []int
	err := r.ReadBody(httptest.NewRecorder(), req, 8<<20, 0, func(bytes int) *Error {
		reserved = append(reserved, bytes)
		return nil
	})
	if err != nil || string(r.body) != body {
		t.Fatalf("%v, %d bytes", err, len(r.body))
	}
	if len(reserved) != 1 || reserved[0] > 1<<20 {
		t.Errorf("reserved %v", reserved)
	}
}

// TestDroppedBodies are used for the next request, while what was parsed of them stays.
func TestDroppedBodies(t *testing.T) {
	parse := func(text string) (*Request, string) {
		r := AcquireRequest()
		body := `{"key":"a","variables":{"x":"` + strings.Repeat(text, 100_000) + `"}}`
		if err := r.ReadBody(httptest.NewRecorder(), httptest.NewRequest("POST", "/", strings.NewReader(body)), 8<<20, 0, nil); err != nil {
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
		return r, view(e.Variables.GetStringBytes("x"))
	}
	first, x := parse("x")
	second, y := parse("y")
	if strings.Trim(x, "x") != "" || strings.Trim(y, "y") != "" || len(x) != 100_000 || len(y) != 100_000 {
		t.Error("one request's text is in another's")
	}
	first.Release()
	second.Release()
}
