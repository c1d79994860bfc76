package secret

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

func TestRotating(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	synctest.Test(t, func(t *testing.T) {
		s := Reference("{file." + file + "}").Rotating()
		for _, step := range []struct {
			name    string
			content string // written before, where it is not empty
			remove  bool
			wait    time.Duration
			want    string // empty: an error
		}{
			{"no file yet", "", false, 0, ""},
			{"a file, too early", "one\n", false, time.Second, ""},
			{"the file is there", "", false, refresh, "one"},
			{"written anew, too early", "two", false, refresh - 1, "one"},
			{"written anew", "", false, 1, "two"},
			{"half written", " \n", false, refresh, "two"},
			{"removed", "", true, refresh, "two"},
			{"back", "three", false, refresh, "three"},
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
	s := Reference("{env.SECRET_TEST}").Rotating()
	t.Setenv("SECRET_TEST", "two")
	s.read = time.Now().Add(-time.Hour)
	if got, err := s.Value(); got != "one" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := Reference("a literal").Rotating().Value(); got != "" || err == nil {
		t.Errorf("a literal: %q, %v", got, err)
	}
}
