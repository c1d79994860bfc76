package gemini

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cadenza-gateway/cadenza/secret"
)

func TestATokenIsRenewedFromItsFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		source := &tokenSource{reference: secret.Reference("{file." + file + "}")}
		expect := func(want, reason string) {
			t.Helper()
			got, err := source.get()
			if got != want || (err == nil) != (reason == "") || err != nil && !strings.Contains(err.Error(), reason) {
				t.Errorf("%q, %v; want %q, %q", got, err, want, reason)
			}
		}
		expect("", "does not exist")
		write("one\n")
		expect("", "does not exist")
		time.Sleep(tokenAge)
		expect("one", "")
		write("two\n")
		time.Sleep(tokenAge - 1)
		expect("one", "")
		time.Sleep(time.Nanosecond)
		expect("two", "")
		// What is caught being replaced does not end the token's use.
		write("")
		time.Sleep(tokenAge)
		expect("two", "")
		write("not a\nheader value")
		time.Sleep(tokenAge)
		expect("two", "")
		write("three")
		time.Sleep(tokenAge)
		expect("three", "")
	})
}

func TestATokenThatNoHeaderCarries(t *testing.T) {
	t.Setenv("GEMINI_TEST_TOKEN", "a\nb")
	source := &tokenSource{reference: "{env.GEMINI_TEST_TOKEN}"}
	if token, err := source.get(); token != "" || err == nil || strings.Contains(err.Error(), "a\nb") {
		t.Errorf("%q, %v", token, err)
	}
}

func BenchmarkToken(b *testing.B) {
	b.Setenv("GEMINI_TEST_TOKEN", "ya29.token")
	source := &tokenSource{reference: "{env.GEMINI_TEST_TOKEN}"}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := source.get(); err != nil {
			b.Fatal(err)
		}
	}
}
