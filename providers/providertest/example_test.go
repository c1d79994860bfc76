package providertest_test

import (
	"fmt"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/providertest"
)

// The contract describes an upstream's behaviour. A provider's tests translate it
// to the service's format.
func ExampleBehaviour_Streamed() {
	behave := func(b providertest.Behaviour) providertest.Reply {
		r := providertest.SSE()
		for _, w := range b.Words {
			r.Body = append(r.Body, providertest.Event(`{"text":`+providertest.Quote(w)+`}`))
		}
		end := providertest.Event(`{"done":"` + b.Reason("stop", "limit", "policy") + `"}`)
		return b.Streamed(r, providertest.Event(`{"error":"broken"}`), end)
	}
	words := []string{"Hello", " there"}
	fmt.Print(behave(providertest.Behaviour{Words: words, Finish: providers.FinishLength}).Text())
	fmt.Print(behave(providertest.Behaviour{Words: words[:1], Fail: providertest.Reported}).Text())
	// Output:
	// data: {"text":"Hello"}
	//
	// data: {"text":" there"}
	//
	// data: {"done":"limit"}
	//
	// data: {"text":"Hello"}
	//
	// data: {"error":"broken"}
}
