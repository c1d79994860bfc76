//go:build !race

package gateway_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/limit"
)

// limitsOf returns limits of requests and money that apply to a flag and never refuse.
func limitsOf(by ...limit.By) (all []*limit.Limit) {
	for i, by := range by {
		all = append(all, &limit.Limit{
			Name: fmt.Sprint("calls-", i), By: by, Member: "customer", Routes: []string{"remoteconfigs"},
			Ceilings: []limit.Ceiling{
				{Measure: limit.Requests, Most: 1 << 50, Window: limit.Window{Length: time.Minute}},
				{Measure: limit.Money, Most: 1 << 50, Window: limit.Month},
			},
		})
	}
	return all
}

// limitedBy has numbers of limits, with the additional allocations that a request may have
// with them: the meter, the two headers, and a text for a value of metadata.
var limitedBy = []struct {
	name   string
	limits []*limit.Limit
	allocs float64
}{
	{"none", nil, 0},
	{"api_key", limitsOf(limit.ByAPIKey), 4},
	{"metadata", limitsOf(limit.ByMetadata), 5},
	{"api_key and metadata", limitsOf(limit.ByAPIKey, limit.ByMetadata), 9},
}

var limitedFlag = work{"flag", "/v1/remoteconfigs", `{"keys":["flag"],"context":{"environment":"production","plan":"pro"},"metadata":{"customer":"acme"}}`}

// BenchmarkLimited measures a flag with limits, whose file is in the temporary directory.
func BenchmarkLimited(b *testing.B) {
	for _, test := range limitedBy {
		b.Run(test.name, func(b *testing.B) {
			serve := workServer(b, workFiles(), definition.LogNone, withLimits(test.limits...))(limitedFlag)
			b.ReportAllocs()
			for b.Loop() {
				serve()
			}
		})
	}
}

func TestAllocationsOfLimits(t *testing.T) {
	var without float64
	for i, test := range limitedBy {
		serve := workServer(t, workFiles(), definition.LogNone, withLimits(test.limits...))(limitedFlag)
		for range 100 {
			serve()
		}
		n := allocationsOf(serve)
		if i == 0 {
			without = n
		}
		if n-without > test.allocs {
			t.Errorf("%s: %.0f allocations more than without limits, at most %.0f are allowed", test.name, n-without, test.allocs)
		}
	}
}
