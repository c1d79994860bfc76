package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	_ "github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile" // reads Caddyfiles
)

// TestWhereTheGatewayIs holds where commands ask, with and without a Caddyfile in
// the working directory.
func TestWhereTheGatewayIs(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	off := file("off.caddyfile", "{\n\tadmin off\n}\n")
	other := file("other.caddyfile", "{\n\tadmin localhost:7000\n}\n")
	for name, test := range map[string]struct {
		client           gatewayClient
		adjacent, env    string
		want, wantsError string
	}{
		"environment":             {env: "localhost:7003", adjacent: "{\n\tadmin localhost:7002\n}\n", want: "localhost:7003"},
		"environment, a URL":      {env: "http://localhost:7003", want: "localhost:7003"},
		"environment, no address": {env: "https://gateway", wantsError: "CADENZA_ADMIN"},
		"environment and address": {env: "localhost:7003", client: gatewayClient{address: "gateway:7001"}, want: "gateway:7001"},
		"environment and a file":  {env: "localhost:7003", client: gatewayClient{config: other}, want: "localhost:7000"},
		"default":                 {want: caddy.DefaultAdminListen},
		"address":                 {client: gatewayClient{address: "gateway:7001", config: off}, want: "gateway:7001"},
		"a URL":                   {client: gatewayClient{address: "http://127.0.0.1:7001/"}, want: "127.0.0.1:7001"},
		"a socket":                {client: gatewayClient{address: "unix//run/caddy.sock"}, want: "unix//run/caddy.sock"},
		"another scheme":          {client: gatewayClient{address: "https://gateway"}, wantsError: "HOST:PORT"},
		"a path":                  {client: gatewayClient{address: "http://gateway/admin"}, wantsError: "HOST:PORT"},
		"a file":                  {client: gatewayClient{config: other}, want: "localhost:7000"},
		"off":                     {client: gatewayClient{config: off}, wantsError: "admin off"},
		"no file":                 {client: gatewayClient{config: filepath.Join(dir, "none")}, wantsError: "--address"},
		"adjacent":                {adjacent: "{\n\tadmin localhost:7002\n}\n", want: "localhost:7002"},
		"adjacent, without":       {adjacent: ":80\n", want: caddy.DefaultAdminListen},
		"adjacent, off":           {adjacent: "{\n\tadmin off\n}\n", wantsError: "Caddyfile turns the admin API off"},
		"adjacent, broken":        {adjacent: "{\n", wantsError: "the Caddyfile of this folder can't be read"},
		"adjacent, not needed":    {adjacent: "{\n", client: gatewayClient{address: "gateway:7001"}, want: "gateway:7001"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(adminVariable, test.env)
			if test.adjacent != "" {
				defer os.Remove(file("Caddyfile", test.adjacent))
			}
			err := test.client.resolve()
			if test.wantsError != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantsError) {
					t.Errorf("%v, want %q", err, test.wantsError)
				}
				return
			}
			if err != nil || test.client.address != test.want {
				t.Errorf("%q, %v, want %q", test.client.address, err, test.want)
			}
		})
	}
}
