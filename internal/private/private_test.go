package private

import "testing"

func TestQuote(t *testing.T) {
	const want = `/var/a-b_1.db 'a b' 'it'\''s' '$(x)'`
	if got := quote([]string{"/var/a-b_1.db", "a b", "it's", "$(x)"}); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
