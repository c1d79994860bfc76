package caddymodule_test

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Other packages do this work and test it. These tests check that the gateway uses them.

// TestBodyIsLeftUnreadWithoutAKey sends headers without a valid key: a caller with
// Expect: 100-continue gets the error, not 100.
func TestBodyIsLeftUnreadWithoutAKey(t *testing.T) {
	g := startGateway(t, workspace, options)
	for _, test := range []struct{ name, header, want string }{
		{"a wrong key", "Authorization: Bearer cadenza-test-key-0002\r\n", "HTTP/1.1 401"},
		{"a malformed key", "Authorization: Bearer x\r\n", "HTTP/1.1 401"},
		{"no key", "", "HTTP/1.1 401"},
		{"a good key", "Authorization: Bearer " + testKey + "\r\n", "HTTP/1.1 100"},
	} {
		connection, err := net.Dial("unix", g.socket)
		if err != nil {
			t.Fatal(err)
		}
		if err := connection.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(connection, "POST /v1/prompts HTTP/1.1\r\nHost: gateway\r\nContent-Length: 18\r\nConnection: close\r\nExpect: 100-continue\r\n%s\r\n", test.header)
		line, err := bufio.NewReader(connection).ReadString('\n')
		if err != nil || !strings.HasPrefix(line, test.want) {
			t.Errorf("%s: %q, %v, want %s", test.name, line, err, test.want)
		}
		connection.Close()
	}
}

// TestLossOfASinkIsCounted has a store that deletes rows because of its size before a
// sink could take them.
func TestLossOfASinkIsCounted(t *testing.T) {
	g := startGateway(t, workspace, options)
	storeOld(t, filepath.Join(g.dir, "full.db"), "losing", 600, 4000, time.Minute)
	// A directory can't be written to.
	if err := os.Mkdir(filepath.Join(g.dir, "out"), 0o700); err != nil {
		t.Fatal(err)
	}
	// A workspace with its own name, because the counter is the process's.
	g.site(sharing(t, map[string]string{"losing": "store sqlite {dir}/full.db {\nmax_size 1MiB\n}\nsink file {dir}/out\n"}, "losing"), observed)
	lost := regexp.MustCompile(`(?m)^cadenza_sink_lost_rows_total\{sink="file",workspace="losing"\} [1-9]`)
	eventually(t, "the loss is counted", func() bool { return lost.MatchString(g.scrape()) })
}

// TestTooLargeAPrompt has variables of a valid size that make a prompt too large.
func TestTooLargeAPrompt(t *testing.T) {
	files := single()
	files["definitions/prompts/hello.yaml"] = strings.Replace(workspace["definitions/prompts/hello.yaml"], "Say hello.", strings.Repeat("{{name}}", 5), 1) +
		"variables: { name: { required: true } }\n"
	files["definitions/endpoints/hi.yaml"] = "prompt: hello\n"
	g := startGateway(t, files, options)
	name := strings.Repeat("x", 500<<10)
	for path, body := range map[string]string{
		"/v1/prompts":   `{"keys":["hello"],"variables":{"name":"` + name + `"}}`,
		"/v1/endpoints": `{"key":"hi","variables":{"name":"` + name + `"}}`,
	} {
		checkError(t, g.post(path, body), "invalid_request", "variables")
	}
}

// TestKeysFileThatCannotBeUsed checks that the last keys stay valid while the file is
// missing or contains another workspace's key.
func TestKeysFileThatCannotBeUsed(t *testing.T) {
	list := func(key string) string {
		return fmt.Sprintf(`[{"name":"listed","sha256":"%x"}]`, sha256.Sum256([]byte(key)))
	}
	files := single()
	files["keys.json"] = list(otherKey)
	t.Setenv("CADENZA_TEST_KEY", testKey)
	const foreign = "cadenza-test-key-of-another"
	t.Setenv("CADENZA_FOREIGN_KEY", foreign)
	g := startGateway(t, files, `
		workspace one {
			definitions {dir}/definitions
			store sqlite {dir}/data/cadenza.db
			api_key test {env.CADENZA_TEST_KEY}
			provider canned
			`+keylessFake+`
			keys {dir}/keys.json
		}
		workspace two {
			definitions {dir}/definitions
			store sqlite {dir}/data/cadenza.db
			api_key test {env.CADENZA_FOREIGN_KEY}
			provider canned
			`+keylessFake+`
		}
	`)
	said := func(what string) func() bool {
		return func() bool {
			logs, err := os.ReadFile(g.logs)
			return err == nil && strings.Contains(string(logs), what)
		}
	}
	valid := func(what string) {
		t.Helper()
		g.do("POST", "/v1/prompts", `{"keys":["hello"]}`, bearer(otherKey)).ok(t, what)
	}
	valid("at first")
	if err := os.Remove(filepath.Join(g.dir, "keys.json")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the missing file is reported", said("the keys file can't be used"))
	valid("without the file")
	g.write("keys.json", list(foreign))
	eventually(t, "the foreign key is reported", said("it has no usable key"))
	valid("with a foreign key")
	g.write("keys.json", list("cadenza-test-key-0009"))
	eventually(t, "the mended file is used", func() bool {
		return g.do("POST", "/v1/prompts", `{"keys":["hello"]}`, bearer(otherKey)).status == http.StatusUnauthorized
	})
}
