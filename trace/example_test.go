package trace_test

import (
	"bytes"
	"fmt"
	"time"

	"github.com/cadenza-gateway/cadenza/trace"
)

// An id contains the kind and the creation time of its trace. Only an authority with
// the same key and workspace accepts it.
func ExampleAuthority() {
	key := bytes.Repeat([]byte("k"), trace.MinKeyLength)
	support, err := trace.NewAuthority(key, "support")
	if err != nil {
		panic(err)
	}
	sales, err := trace.NewAuthority(key, "sales")
	if err != nil {
		panic(err)
	}
	id := support.New(trace.KindEndpoint, time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC))
	fmt.Println(id.Time().UTC().Format(time.RFC3339))
	fmt.Println(support.Verify(id))
	_, own := sales.Verify(id)
	fmt.Println("of sales:", own)
	// Output:
	// 2026-03-14T15:09:26Z
	// endpoint true
	// of sales: false
}

func ExampleParseID() {
	id, ok := trace.ParseID("0199a1b2-c3d4-8e5f-9012-34567890abcd")
	fmt.Println(id, ok)
	_, ok = trace.ParseID("not an id")
	fmt.Println(ok)
	// Output:
	// 0199a1b2-c3d4-8e5f-9012-34567890abcd true
	// false
}
