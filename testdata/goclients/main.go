// Command goclients reads flags of a gateway by OpenFeature's SDK for Go, and prints
// what it got.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/open-feature/go-sdk-contrib/providers/ofrep"
	"github.com/open-feature/go-sdk/openfeature"
)

func main() {
	key := os.Getenv("CADENZA_API_KEY")
	for _, auth := range []func() string{
		func() string { return read(ofrep.NewProvider(os.Getenv("CADENZA_URL"), ofrep.WithBearerToken(key))) },
		func() string { return read(ofrep.NewProvider(os.Getenv("CADENZA_URL"), ofrep.WithApiKeyAuth(key))) },
	} {
		fmt.Print(auth())
	}
}

func read(p *ofrep.Provider) (text string) {
	if err := openfeature.SetProviderAndWait(p); err != nil {
		log.Fatal(err)
	}
	client, ctx := openfeature.NewDefaultClient(), context.Background()
	who := openfeature.NewEvaluationContext("c-1042", map[string]any{"signed_up": time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)})
	add := func(value any, d openfeature.EvaluationDetails) {
		trace, _ := d.FlagMetadata["trace_id"].(string)
		text += fmt.Sprintln(d.FlagKey, value, d.Reason, d.Variant, d.ErrorCode, len(trace))
	}
	on, _ := client.BooleanValueDetails(ctx, "new_checkout", false, who)
	add(on.Value, on.EvaluationDetails)
	old, _ := client.BooleanValueDetails(ctx, "old", false, who)
	add(old.Value, old.EvaluationDetails)
	whole, _ := client.IntValueDetails(ctx, "integer", 1, who)
	add(whole.Value, whole.EvaluationDetails)
	half, _ := client.FloatValueDetails(ctx, "float", 1, who)
	add(half.Value, half.EvaluationDetails)
	empty, _ := client.StringValueDetails(ctx, "zero/string", "d", who)
	add(empty.Value, empty.EvaluationDetails)
	list, _ := client.ObjectValueDetails(ctx, "team/list", nil, who)
	add(list.Value, list.EvaluationDetails)
	none, _ := client.StringValueDetails(ctx, "none", "d", who)
	add(none.Value, none.EvaluationDetails)
	other, _ := client.StringValueDetails(ctx, "boolean", "d", who)
	add(other.Value, other.EvaluationDetails)
	return text
}
