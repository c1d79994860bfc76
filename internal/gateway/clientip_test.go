package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/limit"
)

// TestLimitsByClientIP counts by the client's address, of IPv6 by its /64.
func TestLimitsByClientIP(t *testing.T) {
	t.Parallel()
	each := &limit.Limit{Name: "each", By: limit.ByClientIP, Routes: []string{"remoteconfigs"}, Ceilings: []limit.Ceiling{yearly(limit.Requests, 1)}}
	g := startGateway(t, single(), withLimits(each), func(_ *gateway, c *gw.Config) {
		c.ClientIP = func(r *http.Request) string { return r.Header.Get("X-Test-Ip") }
	})
	for _, step := range []struct {
		ip     string
		status int
	}{
		{"192.0.2.1", 200}, {"192.0.2.1", 429}, {"::ffff:192.0.2.1", 429}, {"192.0.2.2", 200},
		{"2001:db8:0:1::1", 200}, {"2001:db8:0:1:ffff::2", 429}, {"2001:db8:0:2::1", 200}, {"fe80::1%eth0", 200}, {"fe80::1%eth1", 429},
		{"", 200}, {"@", 429},
	} {
		header := bearer(testKey)
		header.Set("X-Test-Ip", step.ip)
		// What is counted is known before the body is read.
		a := g.do(http.MethodPost, "/v1/remoteconfigs", `{"keys":["checkout"]}`, header)
		if a.status != step.status {
			t.Errorf("%s: %d %s", step.ip, a.status, a.body)
		}
		if step.status == http.StatusTooManyRequests && !strings.Contains(string(a.body), "The limit each (requests 1/366d by client_ip) is used up.") {
			t.Errorf("%s: %s", step.ip, a.body)
		}
	}
	var subjects []string
	for _, s := range g.current.Load().Workspace("default").LimitStatus(10)[0].Fullest {
		subjects = append(subjects, s.Subject)
	}
	if got := strings.Join(subjects, " "); !strings.Contains(got, "2001:db8:0:1::/64") || !strings.Contains(got, "192.0.2.1") {
		t.Errorf("subjects %s", got)
	}
}
