package providertest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/providers"
)

// UsageTest is what an API says of an answer's usage, in its own words, and what a
// provider has to read of it.
type UsageTest struct {
	Name string
	Said string
	Want providers.Usage
}

// CheckUsage reads usages of whole answers and of streams. The functions make an answer
// of which the API says so; broken makes a stream that breaks off after it has said so,
// and is nil where an API says it at the end alone.
func (s *Subject) CheckUsage(t *testing.T, whole, stream, broken func(said string) Reply, tests []UsageTest) {
	for _, test := range tests {
		for form, reply := range map[string]func(string) Reply{"whole": whole, "stream": stream, "broken": broken} {
			if reply == nil {
				continue
			}
			t.Run(test.Name+"/"+form, func(t *testing.T) {
				o := s.Receive(t, reply(test.Said), form != "whole")
				if diff := cmp.Diff(test.Want, o.Result.Usage); diff != "" || (o.Err != nil) != (form == "broken") {
					t.Errorf("%v; usage (-want +got):\n%s", o.Err, diff)
				}
			})
		}
	}
}
