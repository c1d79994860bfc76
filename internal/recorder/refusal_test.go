package recorder

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func shout(text string) string { return strings.ReplaceAll(text, "secret", "[redacted]") }

// TestRefusedIsBounded: what waits for the writer is bounded in subjects, bytes and
// examples, and redacted.
func TestRefusedIsBounded(t *testing.T) {
	var q refusals
	now := time.Unix(1_790_000_000, 0)
	for i := range maxRefusals + 500 {
		q.count(RefusalID{Workspace: "w", Subject: fmt.Sprint("s", i)}, now, "m", "", shout)
	}
	for i := range 10 {
		q.count(RefusalID{Workspace: "w", Limit: "l"}, now.Add(time.Duration(i)*500*time.Millisecond), fmt.Sprint("secret ", i, strings.Repeat("é", 300)), "secret", shout)
	}
	q.count(RefusalID{Workspace: "w", Subject: "s7"}, now.Add(2*time.Hour), "m", "", shout)
	all := q.take(nil)
	if len(all) != maxRefusals+3 || q.waiting() > 0 {
		t.Fatalf("%d wait", len(all))
	}
	others := false
	for _, r := range all {
		switch {
		case r.Limit == "l":
			if r.Count != 10 || len(r.Examples) != MaxRefusalExamples || !strings.HasPrefix(r.Examples[0].Message, "[redacted] 8é") ||
				len(r.Examples[0].Message) > maxRefusalMessage || r.Examples[0].Param != "[redacted]" || !r.Hour.Equal(now.Truncate(time.Hour)) {
				t.Errorf("%+v", r)
			}
		case r.Subject == OtherSubjects && r.Count == 500:
			others = true
		}
	}
	q.count(RefusalID{Workspace: "w", Subject: strings.Repeat("secret", 100)}, now, "m", "", shout)
	if got := q.take(nil)[0].Subject; !strings.HasPrefix(got, "[redacted]") || len(got) > maxRefusalSubject {
		t.Errorf("subject %s", got)
	}
	if !others {
		t.Error("no others")
	}
}

// BenchmarkRefused is what counting a refusal costs.
func BenchmarkRefused(b *testing.B) {
	var q refusals
	id := RefusalID{Workspace: "default", APIKey: "web", Route: "endpoints", Status: 429, Code: "rate_limited", Limit: "customers", Subject: "acme", Key: "chat"}
	now := time.Unix(1_790_000_000, 0)
	b.ReportAllocs()
	for b.Loop() {
		q.count(id, now, "The limit customers is used up.", "", shout)
	}
}
