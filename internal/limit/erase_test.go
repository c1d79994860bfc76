package limit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/journaltest"
)

// has reports whether one of a limiter's files contains a text.
func has(t *testing.T, path, text string) bool {
	t.Helper()
	for _, name := range []string{path, path + "-2"} {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(content, []byte(text)) {
			return true
		}
	}
	return false
}

func everywhere(string) bool { return true }

// TestErase checks that an erased subject appears in no output and no file, and that its
// use still counts until its window ends, also after a restart.
func TestErase(t *testing.T) {
	hash := func(subject string) string { return fmt.Sprintf("hash-%d", len(subject)) }
	year := Window{366 * 24 * time.Hour} // which does not end within the test
	budget := limitOf("budget", Ceiling{Requests, 10, year}, Ceiling{Tokens, 1000, year})
	other := limitOf("other", Ceiling{Requests, 10, year})
	now := time.Now()
	for name, subject := range map[string]string{"short": "ada-lovelace", "long": strings.Repeat("ada-lovelace", 20)} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "limits")
			open := func() *Limiter {
				l := filed(t, path)
				l.SetHash("w", hash)
				return l
			}
			l := open()
			ask := Ask{budget, subject}
			underway := mustReserve(t, l, now, Amounts{Requests: 1, Tokens: 50}, ask)
			mustReserve(t, l, now, Amounts{Requests: 2}, ask, Ask{other, subject}).Settle(now, Amounts{Requests: 2})
			if !has(t, path, "ada-lovelace") {
				t.Fatal("the file does not have the subject before it is erased")
			}
			if err := l.Erase(t.Context(), "w", subject, func(name string) bool { return name == "budget" }); err != nil {
				t.Fatal(err)
			}
			if shown := l.Subjects("w", now, other, 5); len(shown) != 1 || shown[0].Subject != short(subject) {
				t.Errorf("a limit that was not chosen shows %v", shown)
			}
			if err := l.Erase(t.Context(), "w", subject, everywhere); err != nil {
				t.Fatal(err)
			}
			underway.Settle(now, Amounts{Requests: 1, Tokens: 40})
			check := func(when string) {
				t.Helper()
				if has(t, path, "lovelace") {
					t.Errorf("%s the file has the subject", when)
				}
				shown := l.Subjects("w", now, budget, 5)
				if len(shown) != 1 || shown[0].Subject != erasedMark+hash(short(subject)) || shown[0].Used != 3 {
					t.Errorf("%s %v is shown, want 3 requests of a hash", when, shown)
				}
				if use := l.AppendStandings(nil, "w", now, ask); use[0].Used != 3 || use[1].Used != 40 {
					t.Errorf("%s the subject has used %v, want 3 requests and 40 tokens", when, use)
				}
			}
			check("at once")
			mustClose(t, l)
			check("closed")
			l = open()
			defer mustClose(t, l)
			check("after a restart")
			mustReserve(t, l, now, Amounts{Requests: 7}, ask).Settle(now, Amounts{Requests: 7})
			mustRefuse(t, l, now, Amounts{Requests: 1}, ask)
			if has(t, path, "lovelace") {
				t.Error("a call after the restart has brought the subject back")
			}
		})
	}
}

// TestEraseFails checks that an erasure returns an error if the file can't be written, and
// that a later erasure completes it.
func TestEraseFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits")
	var m journaltest.Disk
	l := openOn(Options{Path: path}, m.Options())
	defer l.Close()
	l.SetHash("w", func(string) string { return "hash" })
	ask, now := Ask{limitOf("budget", Ceiling{Requests, 10, Window{time.Hour}}), "ada-lovelace"}, time.Now()
	mustReserve(t, l, now, Amounts{Requests: 1}, ask).Settle(now, Amounts{Requests: 1})
	m.Fail(errors.New("disk full"))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := l.Erase(ctx, "w", "ada-lovelace", everywhere); err == nil {
		t.Error("a file that can't be written is erased")
	}
	m.Fail(nil)
	if err := l.Erase(t.Context(), "w", "ada-lovelace", everywhere); err != nil || has(t, path, "lovelace") {
		t.Errorf("the next erasure: %v; the file has the subject: %v", err, has(t, path, "lovelace"))
	}
}
