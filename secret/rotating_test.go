package secret

import (
	"errors"
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
			content string // written before, where it is not empty
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
