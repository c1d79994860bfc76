package download

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/fileserver"

	"github.com/cadenza-gateway/cadenza/internal/bundle"
	"github.com/cadenza-gateway/cadenza/internal/freeport"
)

// requireNginx is the environment variable that makes TestNginxAsASource fail, rather than
// skip, if nginx is missing.
const requireNginx = "CADENZA_REQUIRE_NGINX"

func TestNginxAsASource(t *testing.T) {
	nginx, err := exec.LookPath("nginx")
	if err != nil {
		if os.Getenv(requireNginx) != "" {
			t.Fatal(err)
		}
		t.Skipf("there is no nginx (set %s to fail instead)", requireNginx)
	}
	dir, root, listen := t.TempDir(), t.TempDir(), freeport.Address(t)
	// A server that is started as root has workers of another user, who read the files.
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	text := "daemon off;\nmaster_process off;\npid pid;\nerror_log stderr;\nevents {}\nhttp {\naccess_log off;\n"
	for _, name := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		text += fmt.Sprintf("%s_temp_path %s;\n", name, name)
	}
	text += fmt.Sprintf("server {\nlisten %s;\nroot %s;\n}\n}\n", listen, root)
	if err := os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	output, err := os.Create(filepath.Join(dir, "output"))
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close()
	command := exec.Command(nginx, "-p", dir, "-c", "nginx.conf")
	command.Stdout, command.Stderr = output, output
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		if said, _ := os.ReadFile(output.Name()); t.Failed() {
			t.Logf("%s", said)
		}
	})
	checkSource(t, "http://"+listen, root)
}

func TestCaddyAsASource(t *testing.T) {
	root, listen := t.TempDir(), freeport.Address(t)
	type object = map[string]any
	config, err := json.Marshal(object{
		"admin":   object{"disabled": true, "config": object{"persist": false}},
		"logging": object{"logs": object{"default": object{"level": "ERROR"}}},
		"apps": object{"http": object{"servers": object{"files": object{
			"listen": []string{listen},
			"routes": []object{{"handle": []object{{"handler": "file_server", "root": root}}}},
		}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := caddy.Load(config, true); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := caddy.Stop(); err != nil {
			t.Error(err)
		}
	}()
	checkSource(t, "http://"+listen, root)
}

// checkSource follows a file that a server of files has, and which is replaced.
func checkSource(t *testing.T, url, root string) {
	key := signer(t)
	file, replaced := filepath.Join(root, "shop.tar.gz"), time.Now().Add(-time.Hour)
	replace := func(packed []byte) {
		t.Helper()
		if err := os.WriteFile(file+".new", packed, 0o644); err != nil {
			t.Fatal(err)
		}
		// Servers make the tag of size and time, some of whole seconds.
		replaced = replaced.Add(2 * time.Second)
		if err := os.Chtimes(file+".new", replaced, replaced); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	var bodies, confirmations atomic.Int64
	var served atomic.Value
	d := New(Config{
		URL: url + "/shop.tar.gz", Keys: []bundle.PublicKey{key.Public()}, PollMin: 5 * time.Millisecond, PollMax: 10 * time.Millisecond,
		File: filepath.Join(t.TempDir(), "bundle"),
		Client: &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			response, err := http.DefaultTransport.RoundTrip(r)
			switch {
			case err != nil:
			case response.StatusCode == http.StatusOK:
				bodies.Add(1)
			case response.StatusCode == http.StatusNotModified:
				confirmations.Add(1)
			}
			return response, err
		})},
		Activate: func(b *bundle.Bundle) error { served.Store(b.Files[0].Content); return nil },
	})
	eventually := func(what string, holds func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("not within a minute: %s; %+v", what, d.Status())
			}
		}
	}
	confirmed := func() {
		t.Helper()
		was := confirmations.Load()
		eventually("it is asked again, and answers 304", func() bool { return confirmations.Load() > was+2 })
	}
	replace(pack(t, key, 1, "a"))
	done := make(chan struct{})
	defer func() { <-done }()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { defer close(done); d.Run(ctx) }()

	eventually("the bundle is served", func() bool { return served.Load() == "a" })
	confirmed()
	replace(pack(t, key, 2, "b"))
	eventually("another bundle is served", func() bool { return served.Load() == "b" })
	replace(pack(t, signer(t), 3, "c"))
	eventually("a bundle is refused", func() bool { return strings.Contains(d.Status().Refused, "another key") })
	confirmed()
	if got := bodies.Load(); got != 3 {
		t.Errorf("%d bodies were fetched, want 3", got)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	eventually("the file is missing", func() bool { return strings.Contains(d.Status().Error, "404") })
	replace(pack(t, key, 4, "d"))
	eventually("another bundle is served", func() bool { return served.Load() == "d" })
	confirmed()
	if s := d.Status(); s.Serial != 4 || s.Error+s.Refused+s.FileError != "" || bodies.Load() != 4 || time.Since(s.Confirmed) > time.Minute {
		t.Errorf("%+v, %d bodies", s, bodies.Load())
	}
}
