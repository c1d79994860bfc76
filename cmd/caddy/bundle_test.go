package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

// follow writes a Caddyfile whose definitions come from a source.
func (n *badNight) follow(s *gatewaytest.BundleSource) {
	n.write("bundle.pem", s.Keys.Public)
	n.write("Caddyfile", fmt.Sprintf(`{
	admin %s
	cadenza {
		definitions bundle %s/b.tar.gz {
			public_key bundle.pem
			scope shops
			poll 1s
		}
		store sqlite cadenza.db
		api_key app {env.CADENZA_API_KEY}
	}
}
%s {
	cadenza_health
	cadenza
}
`, n.admin, s.URL, n.url))
}

// TestBundleAndCrash kills a gateway while bundles come, and starts it with its source away:
// it serves a whole bundle that the source had.
func TestBundleAndCrash(t *testing.T) {
	t.Parallel()
	s := gatewaytest.NewBundleSource(t)
	n := newBadNight(t)
	n.follow(s)
	n.startWith(n.caddyfile)
	if got := n.answer(); !strings.HasPrefix(got, "503") {
		t.Error(got)
	}
	if code, output := n.do("cadenza", "pull"); code != 1 || !strings.Contains(output, "503") {
		t.Errorf("%d %s", code, output)
	}
	has := func(serial int64) {
		s.Has(s.Keys, serial, map[string]string{
			"prompts/p.yaml":         "provider: canned\nmodel: m\nmessages: [ { role: user, content: hello } ]\n",
			"remoteconfigs/c.yaml":   fmt.Sprintf("type: string\ndefault: b%d\n", serial),
			"remoteconfigs/big.yaml": fmt.Sprintf("type: string\ndefault: %q\n", strings.Repeat("x", 1<<20)),
		})
	}
	has(1)
	code, output := n.do("cadenza", "pull")
	if code != 0 || !strings.Contains(output, "by bundle commit-1 with serial 1 from "+s.URL+"/b.tar.gz") {
		t.Errorf("%d %s", code, output)
	}
	if code, output := n.do("cadenza", "pull", "--json"); code != 0 || !strings.Contains(output, `"result":"unchanged"`) {
		t.Errorf("%d %s", code, output)
	}
	random, serial, served := gatewaytest.Random(t), int64(1), "b1"
	for range 4 {
		had := []string{served}
		// It is killed somewhere between the fetching and the renaming, or after it.
		for range 3 {
			serial++
			has(serial)
			had = append(had, fmt.Sprintf("b%d", serial))
			if random.IntN(3) > 0 {
				pull, err := http.NewRequest(http.MethodPost, "http://"+n.admin+"/cadenza/pull", nil)
				if err != nil {
					t.Fatal(err)
				}
				go func() {
					if response, err := http.DefaultClient.Do(pull); err == nil {
						response.Body.Close()
					}
				}()
			}
			time.Sleep(time.Duration(random.IntN(60)) * time.Millisecond)
		}
		n.kill()
		s.HasNothing()
		n.startWith(n.caddyfile)
		if served = n.answer(); !slices.Contains(had, served) {
			t.Fatalf("after a crash %s is served, the source had %v", served, had)
		}
		if code, output := n.do("cadenza", "status"); code == 1 || !strings.Contains(output, "serial ") {
			t.Errorf("%d %s", code, output)
		}
	}
	n.kill()
	if err := os.Truncate(filepath.Join(n.dir, "cadenza.db-bundle-default"), 1<<10); err != nil {
		t.Fatal(err)
	}
	n.startWith(n.caddyfile)
	if got := n.answer(); !strings.HasPrefix(got, "503") {
		t.Errorf("a half of a bundle is served: %s", got)
	}
	has(serial + 1)
	n.eventually("the source's bundle is served", func() bool { return n.answer() == fmt.Sprintf("b%d", serial+1) })
	n.kill()
}
