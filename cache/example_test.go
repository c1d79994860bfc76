package cache_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/cadenza-gateway/cadenza/cache"
	"github.com/cadenza-gateway/cadenza/trace"
)

// A new revision of the definitions needs no purge: its answers have keys of
// their own.
func ExampleCache() {
	c, err := cache.New(1 << 20)
	if err != nil {
		panic(err)
	}
	defer c.Close()
	key := cache.AppendKey(nil, "default", "revision-1", trace.KindRemoteConfig, "greeting")
	key = cache.AppendText(key, "country=BE") // the fields of the context that the table reads
	c.Set(key, cache.Value{Bytes: []byte(`"Dag"`), Row: 3})

	value, ok := c.Get(key)
	for range 1000 { // the cache takes a value a moment later
		if ok {
			break
		}
		time.Sleep(time.Millisecond)
		value, ok = c.Get(key)
	}
	fmt.Printf("%s of row %d, %t\n", value.Bytes, value.Row, ok)

	next := cache.AppendKey(nil, "default", "revision-2", trace.KindRemoteConfig, "greeting")
	next = cache.AppendText(next, "country=BE")
	_, ok = c.Get(next)
	fmt.Println("of the next revision:", ok)
	// Output:
	// "Dag" of row 3, true
	// of the next revision: false
}

// The first caller has the lead: it asks the model. Later callers are answered
// without.
func ExampleAnswers() {
	answers, err := cache.NewAnswers(1 << 20)
	if err != nil {
		panic(err)
	}
	defer answers.Close()
	question := cache.Question(sha256.Sum256([]byte("model, messages, parameters")))
	for range 2 {
		answer, lead, err := answers.Ask(context.Background(), question)
		if err != nil {
			panic(err)
		}
		if answer == nil {
			fmt.Println("asks the model")
			answer = &cache.Answer{Pieces: []string{"Hello", " there"}, Expires: time.Now().Add(time.Hour)}
			lead.Answer(answer)
		}
		fmt.Println(answer.Pieces)
	}
	// Output:
	// asks the model
	// [Hello  there]
	// [Hello  there]
}
