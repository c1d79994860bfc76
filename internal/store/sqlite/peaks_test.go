package sqlite

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// TestPeaks keeps the largest of each hour, for so many subjects, until retention or an
// erasure.
func TestPeaks(t *testing.T) {
	t.Parallel()
	now := time.Now().Truncate(time.Hour)
	peak := func(subject string, hours, percent int) recorder.Peak {
		return recorder.Peak{
			PeakID:  recorder.PeakID{Workspace: "default", Limit: "customers", Subject: subject, Hour: now.Unix()/3600 + int64(hours)},
			Percent: percent, Measure: "money", Ceiling: "5usd/1d", Used: float64(percent) / 20,
		}
	}
	path := filepath.Join(t.TempDir(), "a.db")
	retention := time.Duration(0)
	s := mustOpen(t, Config{Path: path, CurrentRetention: func() time.Duration { return retention }})
	mustCommit(t, s, recorder.Batch{Peaks: []recorder.Peak{peak("acme", -48, 7), peak("acme", -1, 40), peak("acme", 0, 50), peak("", 0, 3)}})
	mustCommit(t, s, recorder.Batch{Peaks: []recorder.Peak{peak("acme", 0, 60), peak("acme", -1, 30)}})
	var many []recorder.Peak
	for i := range maxPeakRows + 10 {
		many = append(many, peak(fmt.Sprint("c", i), 0, 1))
	}
	mustCommit(t, s, recorder.Batch{Peaks: append(many, peak("acme", 0, 61))})
	read := func(q PeakQuery) string {
		t.Helper()
		reader, err := OpenReader(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		q.Workspace = "default"
		rows, err := reader.Peaks(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		var list []string
		for _, r := range rows {
			list = append(list, fmt.Sprintf("%s %d %d", r.Subject, int(r.Hour.Sub(now).Hours()), r.Percent))
		}
		return strings.Join(list, ", ")
	}
	for want, q := range map[string]PeakQuery{
		"acme -48 7, acme -1 40, acme 0 61": {Subject: new("acme")},
		"acme -1 40, acme 0 61":             {Subject: new("acme"), Since: now.Add(-30 * time.Minute), Limit: "customers"},
		"acme -1 40":                        {Subject: new("acme"), Since: now.Add(-30 * time.Minute), Until: now},
		" 0 3":                              {Subject: new("")},
		"":                                  {Subject: new("acme"), Limit: "other"},
	} {
		if got := read(q); got != want {
			t.Errorf("%+v: %s, want %s", q, got, want)
		}
	}
	if rows := strings.Count(read(PeakQuery{Since: now}), ",") + 1; rows != maxPeakRows {
		t.Errorf("%d subjects in an hour", rows)
	}
	retention = 24 * time.Hour
	if _, err := s.Maintain(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if got := read(PeakQuery{Subject: new("acme")}); got != "acme -1 40, acme 0 61" {
		t.Errorf("after the retention: %s", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Erase(t.Context(), path, trace.Selector{Workspace: "default", MetadataName: "customer", MetadataValue: `"acme"`}); err != nil {
		t.Fatal(err)
	}
	if got := read(PeakQuery{Subject: new("acme")}); got != "" {
		t.Errorf("after the erasure: %s", got)
	}
}
