package secret

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestResolve(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "key")
	if err := os.WriteFile(file, []byte("from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	blank := filepath.Join(dir, "blank")
	if err := os.WriteFile(blank, []byte(" \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	large := filepath.Join(dir, "large")
	if err := os.WriteFile(large, make([]byte, maxFileSize+1), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SECRET_TEST", "from-env")
	t.Setenv("SECRET_TEST_BLANK", "  ")

	for _, test := range []struct {
		reference Reference
		want      string
		empty     bool // the error wraps ErrEmpty and names the source
		failure   bool
	}{
		{reference: "{env.SECRET_TEST}", want: "from-env"},
		{reference: Reference("{file." + file + "}"), want: "from-file"},
		{reference: "{env.SECRET_TEST_BLANK}", empty: true},
		{reference: "{env.SECRET_TEST_UNSET}", empty: true},
		{reference: Reference("{file." + blank + "}"), empty: true},
		{reference: Reference("{file." + file + ".missing}"), empty: true},
		{reference: Reference("{file." + large + "}"), failure: true},
		{reference: Reference("{file." + dir + "}"), failure: true},
	} {
		t.Run(string(test.reference), func(t *testing.T) {
			if err := test.reference.Validate(); err != nil {
				t.Fatalf("Validate: %v", err)
			}
			got, err := test.reference.Resolve()
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if errors.Is(err, ErrEmpty) != test.empty {
				t.Errorf("error %v, want empty=%v", err, test.empty)
			}
			if (err != nil) != (test.empty || test.failure) {
				t.Errorf("error %v", err)
			}
			if test.empty && !strings.Contains(err.Error(), string(test.reference)) {
				t.Errorf("error %q does not name %s", err, test.reference)
			}
		})
	}
}

func TestLiteralIsRefusedAndNotRepeated(t *testing.T) {
	for _, literal := range []Reference{
		"", "sk-secret-0123456789", "{env.}", "{env.A}x", "x{env.A}", "{env.A}{env.B}",
		"{vault.secret-0123456789}", "{secret-0123456789}", "{env.A", "env.A}", "{}",
	} {
		err := literal.Validate()
		if err == nil {
			t.Errorf("%q was taken for a reference", literal)
			continue
		}
		if literal != "" && len(literal) > 8 && strings.Contains(err.Error(), string(literal)) {
			t.Errorf("error repeats the literal: %v", err)
		}
		if value, err := literal.Resolve(); err == nil {
			t.Errorf("%q resolved to %q", literal, value)
		}
	}
}
