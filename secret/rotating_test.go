package secret

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestRotating(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	synctest.Test(t, func(t *testing.T) {
		s := Reference("{file." + file + "}").Rotating(func(value string) error {
			if strings.Contains(value, "?") {
				return errors.New("is a question")
			}
			return nil
		})
		for _, step := range []struct {
			name    string
			content string // written before, if not empty
			remove  bool
			wait    time.Duration
			want    string // empty: an error
		}{
			{"no file yet", "", false, 0, ""},
			{"what cannot be used, at first", "who?", false, Refresh, ""},
			{"a file, too early", "one\n", false, time.Second, ""},
			{"the file is there", "", false, Refresh, "one"},
			{"written anew, too early", "two", false, Refresh - 1, "one"},
			{"written anew", "", false, 1, "two"},
			{"half written", " \n", false, Refresh, "two"},
			{"what cannot be used", "what?", false, Refresh, "two"},
			{"removed", "", true, Refresh, "two"},
			{"back", "three", false, Refresh, "three"},
		} {
			if step.content != "" {
				if err := os.WriteFile(file, []byte(step.content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if step.remove {
				if err := os.Remove(file); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(step.wait)
			got, err := s.Value()
			if got != step.want || (err != nil) != (step.want == "") {
				t.Errorf("%s: %q, %v; want %q", step.name, got, err, step.want)
			}
		}
	})
}

// TestStaleSecret has a file go bad in one way and another, and become good again.
// Each change is reported once, with since when, and without the secret.
func TestStaleSecret(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	synctest.Test(t, func(t *testing.T) {
		write := func(text string) {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		remove := func() { os.Remove(file) }
		nothing := func() {}
		s := Reference("{file." + file + "}").Rotating(func(value string) error {
			if strings.Contains(value, "?") {
				return errors.New("is a question")
			}
			return nil
		})
		var reports []error
		s.Report(func(stale error) { reports = append(reports, stale) })
		const good, gone, empty, bad, none = "", "does not exist", "is empty", "is a question", "-"
		var began time.Time // start of the stale time
		for _, step := range []struct {
			name          string
			change        func()
			stale, report string
		}{
			{"no file yet is no stale secret", nothing, good, none},
			{"still none", nothing, good, none},
			{"the file is there", func() { write("sesame-one") }, good, good},
			{"it stays", nothing, good, none},
			{"removed", remove, gone, gone},
			{"still removed", nothing, gone, none},
			{"emptied", func() { write("") }, empty, empty},
			{"what can't be used", func() { write("sesame?") }, bad, bad},
			{"good again", func() { write("sesame-two") }, good, good},
			{"still good", nothing, good, none},
			{"removed again", remove, gone, gone},
		} {
			step.change()
			time.Sleep(Refresh)
			reports = nil
			if step.stale != good && began.IsZero() {
				began = time.Now()
			} else if step.stale == good {
				began = time.Time{}
			}
			since, err := s.Stale()
			if (err == nil) != (step.stale == good) || err != nil && !strings.Contains(err.Error(), step.stale) || !since.Equal(began) {
				t.Errorf("%s: %v since %v, want %q since %v", step.name, err, since, step.stale, began)
			}
			if _, err := s.Value(); err != nil && step.stale != good {
				t.Errorf("%s: the last secret is gone: %v", step.name, err)
			}
			switch {
			case step.report == none && len(reports) == 0:
			case len(reports) != 1 || (reports[0] == nil) != (step.report == good) || reports[0] != nil && !strings.Contains(reports[0].Error(), step.report):
				t.Errorf("%s: reported %v, want %q", step.name, reports, step.report)
			}
			if err != nil && strings.Contains(err.Error(), "sesame") {
				t.Errorf("%s: the error has the secret: %v", step.name, err)
			}
		}
	})
}

// TestSecretOutlivesItsUser: what takes another's place while the file is bad goes on
// with the last key, and knows since when.
func TestSecretOutlivesItsUser(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "token")
	short := func(value string) error {
		if len(value) > 5 {
			return errors.New("is long")
		}
		return nil
	}
	synctest.Test(t, func(t *testing.T) {
		write := func(text string) {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		reference := Reference("{file." + file + "}")
		reference.Rotating(nil)
		write("first")
		first := reference.Rotating(nil)
		write("second")
		time.Sleep(Refresh)
		first.Value()
		write("")
		time.Sleep(Refresh)
		bad, _ := first.Stale()
		time.Sleep(time.Hour)
		var reports []error
		for range 2 {
			next := reference.Rotating(nil)
			next.Report(func(stale error) { reports = append(reports, stale) })
			for _, wait := range []time.Duration{0, Refresh} {
				time.Sleep(wait)
				value, err := next.Value()
				since, stale := next.Stale()
				if value != "second" || err != nil || stale == nil || !since.Equal(bad) {
					t.Errorf("%q, %v; stale since %v, want %v: %v", value, err, since, bad, stale)
				}
			}
			if len(reports) != 1 || reports[0] == nil || strings.Contains(reports[0].Error(), "second") {
				t.Errorf("reported %v", reports) // by the first, as the one before it had no reporter
			}
		}
		if value, err := reference.Rotating(short).Value(); value != "" || err == nil {
			t.Errorf("a last key that can't be used: %q, %v", value, err)
		}
		if value, err := Reference("{file." + dir + "/other}").Rotating(nil).Value(); value != "" || err == nil {
			t.Errorf("another file: %q, %v", value, err)
		}
		// It is over, and bad again: that began then.
		write("third")
		next := reference.Rotating(nil)
		if since, err := next.Stale(); err != nil || !since.IsZero() {
			t.Errorf("a good file is stale since %v: %v", since, err)
		}
		write("")
		time.Sleep(Refresh)
		if value, _ := next.Value(); value != "third" {
			t.Errorf("%q", value)
		}
		if since, _ := reference.Rotating(nil).Stale(); !since.Equal(time.Now()) {
			t.Errorf("bad since %v, want %v", since, time.Now())
		}
	})
}

// TestUsersOfAFileSayItOnce: many workspaces may have the same file.
func TestUsersOfAFileSayItOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	synctest.Test(t, func(t *testing.T) {
		var users []*Rotating
		var reports []string
		use := func() {
			s := Reference("{file." + file + "}").Rotating(nil)
			s.Report(func(stale error) { reports = append(reports, fmt.Sprint(stale != nil)) })
			users = append(users, s)
		}
		use()
		use()
		for i, text := range []string{"first", "", "second", "", "third"} {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if i == 3 {
				use() // while it is bad
			}
			time.Sleep(Refresh)
			for _, s := range users {
				s.Value()
			}
		}
		// The first is of the key that the first two users began without.
		if got := strings.Join(reports, " "); got != "false true false true false" {
			t.Errorf("reported %s", got)
		}
	})
}

// TestLastSecretsAreBounded goes beyond the ceiling: the first file is forgotten.
func TestLastSecretsAreBounded(t *testing.T) {
	name := func(n int) Reference { return Reference("{file." + t.TempDir() + "/" + strings.Repeat("x", n+1) + "}") }
	first, again := name(0), name(1)
	first.keep("first")
	for range maxKnown {
		again.keep("again")
	}
	if value, _ := first.wentBad(time.Now()); value != "first" {
		t.Errorf("the same file forgot another: %q", value)
	}
	for n := range maxKnown {
		Reference(fmt.Sprintf("{file./nowhere/%d}", n)).keep("others")
	}
	if value, _ := first.wentBad(time.Now()); value != "" || len(lasts.files) != maxKnown || len(lasts.order) != maxKnown {
		t.Errorf("the first is still %q, of %d and %d", value, len(lasts.files), len(lasts.order))
	}
}

func TestAVariableDoesNotRotate(t *testing.T) {
	t.Setenv("SECRET_TEST", "one")
	s := Reference("{env.SECRET_TEST}").Rotating(nil)
	t.Setenv("SECRET_TEST", "two")
	s.read = time.Now().Add(-time.Hour)
	if got, err := s.Value(); got != "one" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := Reference("a literal").Rotating(nil).Value(); got != "" || err == nil {
		t.Errorf("a literal: %q, %v", got, err)
	}
}
