package providertest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/providers"
)

// UsageTest is an API's report of an answer's usage, in its own format, and the
// usage that a provider must read from it.
type UsageTest struct {
	Name string
	Said string
	Want providers.Usage
}

// CheckUsage reads usages from whole answers and from streams. The functions make an
// answer with such a report. broken makes a stream that breaks off after the report; it is
// nil if an API reports usage only at the end.
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
