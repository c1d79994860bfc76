package wire

import (
	"net/http"
	"strings"
	"testing"
)

func TestIdempotencyKey(t *testing.T) {
	for name, test := range map[string]struct {
		values []string
		want   string
		err    string
	}{
		"none":             {nil, "", ""},
		"a UUID":           {[]string{"3f0c9c1e-6b1f-4f9e-9a53-8d5c6f8f1a11"}, "3f0c9c1e-6b1f-4f9e-9a53-8d5c6f8f1a11", ""},
		"quoted":           {[]string{`"3f0c9c1e"`}, `"3f0c9c1e"`, ""},
		"first and last":   {[]string{"!~"}, "!~", ""},
		"the longest":      {[]string{strings.Repeat("k", 255)}, strings.Repeat("k", 255), ""},
		"too long":         {[]string{strings.Repeat("k", 256)}, "", "1 to 255"},
		"empty":            {[]string{""}, "", "1 to 255"},
		"a space":          {[]string{"a b"}, "", "visible ASCII"},
		"a tab":            {[]string{"a\tb"}, "", "visible ASCII"},
		"a control":        {[]string{"a\x7f"}, "", "visible ASCII"},
		"not ASCII":        {[]string{"clé"}, "", "visible ASCII"},
		"two":              {[]string{"a", "b"}, "", "2 Idempotency-Key headers"},
		"the same, twice":  {[]string{"a", "a"}, "", "2 Idempotency-Key headers"},
		"one of them void": {[]string{"a", ""}, "", "2 Idempotency-Key headers"},
	} {
		t.Run(name, func(t *testing.T) {
			h := http.Header{}
			for _, v := range test.values {
				h.Add("idempotency-key", v)
			}
			got, err := IdempotencyKey(h)
			if test.err == "" {
				if err != nil || got != test.want {
					t.Errorf("%q, %v", got, err)
				}
				return
			}
			if err == nil || err.Code != InvalidRequest || err.Param != "Idempotency-Key" || !strings.Contains(err.Message, test.err) || got != "" {
				t.Errorf("%q, %v (%+v)", got, err, err)
			}
		})
	}
}

func FuzzIdempotencyKey(f *testing.F) {
	for _, seed := range []string{"", "k", "a b", "é", "\x00", `"q"`, strings.Repeat("k", 256)} {
		f.Add(seed, false)
	}
	f.Add("k", true)
	f.Fuzz(func(t *testing.T, value string, twice bool) {
		h := http.Header{HeaderIdempotencyKey: {value}}
		if twice {
			h.Add(HeaderIdempotencyKey, value)
		}
		key, err := IdempotencyKey(h)
		if (key == "") != (err != nil) {
			t.Fatalf("key %q with error %v", key, err)
		}
		if err != nil {
			if err.Status != 400 || err.Param == "" || strings.Contains(err.Message, value) && len(value) > 20 {
				t.Fatalf("error %+v", err)
			}
			return
		}
		if twice || key != value || len(key) > 255 || strings.ContainsFunc(key, func(r rune) bool { return r < '!' || r > '~' }) {
			t.Fatalf("%q is taken as %q", value, key)
		}
	})
}
