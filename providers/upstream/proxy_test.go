package upstream

import (
	"net/url"
	"strings"
	"testing"
)

func TestParseProxy(t *testing.T) {
	for text, valid := range map[string]bool{
		"http://proxy:3128": true, "https://proxy.example": true, "socks5://10.0.0.1:1080": true,
		"": false, "proxy:3128": false, "ftp://proxy": false, "http://": false,
		"http://user:s3cret@proxy:3128": false, "http://s3cret\x7f": false,
	} {
		u, err := ParseProxy(text)
		if (err == nil) != valid || valid && u.String() != text {
			t.Errorf("%q: %v, %v", text, u, err)
		}
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("the error repeats the text: %v", err)
		}
	}
}

func TestUnencrypted(t *testing.T) {
	for text, want := range map[string]bool{
		"http://example.com/v1": true, "http://10.0.0.1": true, "https://example.com": false,
		"http://localhost:11434/v1": false, "http://127.0.0.1:1": false, "http://[::1]:1": false,
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := Unencrypted(u); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}
