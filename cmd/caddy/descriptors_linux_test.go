package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
	"github.com/cadenza-gateway/cadenza/internal/inflight"
)

// otherKey is another key of demoKey's workspace.
const otherKey = "cadenza-demo-key-0002"

// hangingUpstream starts an upstream that answers no call. It returns its base URL
// and its number of calls.
func hangingUpstream(t *testing.T) (url string, calls func() int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var count atomic.Int64
	var mu sync.Mutex
	var conns []net.Conn
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, conn)
			mu.Unlock()
			count.Add(1)
		}
	}()
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		defer mu.Unlock()
		for _, conn := range conns {
			conn.Close()
		}
	})
	return "http://" + l.Addr().String() + "/v1", count.Load
}

// startHanging runs a gateway with a limit of open files (0: the test's limit). Its
// endpoint "hang" calls an upstream that never answers.
func startHanging(t *testing.T, files int, upstream, options string) *process {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"definitions/prompts/hello.yaml":        "variants:\n  only:\n    provider: slow\n    model: m\n    messages: [ { role: user, content: Hi } ]\n",
		"definitions/endpoints/hang.yaml":       "prompt: hello\ntimeout: { total: 60s, first_token: 60s }\n",
		"definitions/remoteconfigs/banner.yaml": "type: string\ndefault: hi\n",
		"Caddyfile": "{\nadmin off\npersist_config off\ngrace_period 1s\ncadenza {\n" + options + `
			definitions ` + dir + `/definitions
			store sqlite ` + dir + `/cadenza.db
			api_key demo {env.CADENZA_API_KEY}
			api_key other {env.CADENZA_OTHER_KEY}
			provider slow openai {
				base_url ` + upstream + `
				api_key {env.CADENZA_OTHER_KEY}
			}
		}
		}
		{$CADENZA_ADDRESS} {
			cadenza
		}
`,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := newProcess(t, dir, "CADENZA_OTHER_KEY="+otherKey)
	if files > 0 {
		p.program = []string{"sh", "-c", fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, files), os.Args[0]}
	}
	p.startWith(filepath.Join(dir, "Caddyfile"))
	return p
}

// caller makes one call of an endpoint on a new connection. It keeps the connection
// open after it returns, until the gateway closes it or ctx ends.
func caller(ctx context.Context, address, body string) (status int, header http.Header, text string, took time.Duration, err error) {
	began := time.Now()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return
	}
	context.AfterFunc(ctx, func() { conn.Close() })
	if _, err = fmt.Fprintf(conn, "POST /v1/endpoints HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", address, demoKey, len(body), body); err != nil {
		return
	}
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, nil)
	took = time.Since(began)
	if err != nil {
		return
	}
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return
	}
	go func() {
		_, _ = reader.ReadByte()
		conn.Close()
	}()
	return response.StatusCode, response.Header, string(content), took, nil
}

// TestHangingProviderLeavesTheRestAlone has 4,000 callers of one key that wait for a
// provider that hangs, in a gateway with 1,024 descriptors. Callers above the ceiling
// get an error, and their connections are closed for others. Requests that need no
// provider are answered as usual, with the same key and with another one.
func TestHangingProviderLeavesTheRestAlone(t *testing.T) {
	t.Parallel()
	const files = 1024
	callers := 4000
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if available := int(limit.Cur) - 1500; available < callers {
		if callers = available; callers < 2*files {
			t.Skipf("with %d descriptors of its own the test can't exhaust another's %d", limit.Cur, files)
		}
	}
	upstream, calls := hangingUpstream(t)
	p := startHanging(t, files, upstream, "")
	address := strings.TrimPrefix(p.url, "http://")

	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	var mu sync.Mutex
	outcomes := make(map[string]int)
	var slowest time.Duration
	for range callers {
		group.Go(func() {
			status, header, text, took, err := caller(ctx, address, `{"key":"hang"}`)
			if ctx.Err() != nil {
				return
			}
			outcome := fmt.Sprint(err)
			if err == nil {
				var problem struct{ Name string }
				_ = json.Unmarshal([]byte(text), &problem)
				outcome = fmt.Sprintf("%d %s", status, problem.Name)
				if retry := header.Get("Retry-After"); retry < "1" || retry > "3" {
					outcome += ", retry after " + retry
				}
			}
			mu.Lock()
			defer mu.Unlock()
			outcomes[outcome]++
			slowest = max(slowest, took)
		})
	}
	answered := func() (n int) {
		mu.Lock()
		defer mu.Unlock()
		for _, count := range outcomes {
			n += count
		}
		return n
	}
	// At the same time, other requests are sent one after the other, each on a new connection.
	client := &http.Client{Timeout: gatewaytest.Patience, Transport: &http.Transport{DisableKeepAlives: true}}
	var worst time.Duration
	probe := func() {
		for _, key := range []string{demoKey, otherKey} {
			for path, body := range map[string]string{"/v1/remoteconfigs": `{"keys":["banner"]}`, "/v1/prompts": `{"keys":["hello"]}`, "/v1/metrics": `{"score":50}`} {
				began := time.Now()
				if status, text := postAs(t, client, p.url+path, key, body); status != http.StatusOK {
					t.Errorf("%s: %d %s", path, status, text)
				}
				worst = max(worst, time.Since(began))
			}
		}
	}
	limits := inflight.Limits{}.WithDefaults(files)
	refused := callers - limits.Host // lower than the key's ceiling
	// The last of those that hang may still be connecting when the last one is refused.
	settled := func() bool { return answered() >= refused && calls() >= int64(limits.Host) }
	for deadline := time.Now().Add(gatewaytest.Patience); !settled() && time.Now().Before(deadline); {
		probe()
	}
	probe()
	mu.Lock()
	defer mu.Unlock() // before the hanging callers end
	t.Logf("%d callers: %v, the slowest after %s; %d calls hang; the slowest of the rest took %s", callers, outcomes, slowest, calls(), worst)
	problem := 0
	for outcome, count := range outcomes {
		switch outcome {
		case "503 overloaded", "429 rate_limited":
			problem += count
		default:
			t.Errorf("%d callers: %s", count, outcome)
		}
	}
	if problem != refused || calls() != int64(limits.Host) {
		t.Errorf("%d callers are refused, want %d; %d calls hang, want %d", problem, refused, calls(), limits.Host)
	}
	if n := strings.Count(p.output.String(), "too many open files"); n > 0 {
		t.Errorf("the gateway ran out of descriptors: %d lines of its log say so:\n%s", n, p.output)
	}
}

func postAs(t *testing.T, client *http.Client, url, key, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+key)
	response, err := client.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(text)
}
