package providers

import (
	"encoding/base64"
	"strings"
	"testing"
)

func TestParseMedia(t *testing.T) {
	for address, want := range map[string]Media{
		"https://x.test/i.png":       {URL: "https://x.test/i.png"},
		"HTTP://x":                   {URL: "HTTP://x"},
		"data:image/png;base64,aGVs": {Type: "image/png", Data: "aGVs"},
		"DATA:image/svg+xml;charset=utf-8;base64,aGk=":      {Type: "image/svg+xml", Data: "aGk="},
		"data:application/vnd.ms-excel;base64,ab+/cd==":     {Type: "application/vnd.ms-excel", Data: "ab+/cd=="},
		"data:image/png;base64,aGVs\n":                      {},
		"data:image/png;base64,aG=s":                        {},
		"data:image/png;base64,a===":                        {},
		"data:image/png;base64,aGV":                         {},
		"data:image/png;base64,":                            {},
		"data:image/png,aGVs":                               {},
		"data:image/png;base64":                             {},
		"data:png;base64,aGVs":                              {},
		"data:image/p g;base64,aGVs":                        {},
		"data:a/b;" + strings.Repeat("x", 256) + ";base64,": {},
		"https://":            {},
		"https://x.test/\n":   {},
		"file:///etc/passwd":  {},
		"javascript:alert(1)": {},
		"":                    {},
		"data:a/b;base64," + strings.Repeat("aGVs", 1<<16): {Type: "a/b", Data: strings.Repeat("aGVs", 1<<16)},
	} {
		m, problem := ParseMedia(address)
		if m != want || (problem == "") != (want != Media{}) {
			t.Errorf("%.60q: %.60v, %q", address, m, problem)
		}
	}
}

// FuzzParseMedia holds that data which passes can be decoded, and that a URL which
// passes has one of the schemes.
func FuzzParseMedia(f *testing.F) {
	f.Add("data:image/png;base64,aGVs")
	f.Add("https://x.test/i")
	f.Fuzz(func(t *testing.T, address string) {
		m, problem := ParseMedia(address)
		switch {
		case problem != "":
			if m != (Media{}) {
				t.Fatalf("%v and %s", m, problem)
			}
		case m.Data != "":
			if _, err := base64.StdEncoding.DecodeString(m.Data); err != nil || !ValidMediaType(m.Type) {
				t.Fatalf("%v: %v", m, err)
			}
		default:
			if scheme, _, _ := strings.Cut(strings.ToLower(m.URL), ":"); scheme != "https" && scheme != "http" {
				t.Fatal(m.URL)
			}
		}
	})
}
