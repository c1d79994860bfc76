package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

// ceilings are the gateway's promises under attack by a caller, an upstream or an
// author of definitions.
var ceilings = struct {
	resident int64         // bytes of memory, under each attack and under all
	patience time.Duration // for an answer to another caller, on a busy machine
	load     time.Duration // for a load of definitions to be served or refused
	stalled  time.Duration // until a reader that stalls is cut off
	dripping time.Duration // until a body that drips is cut off, for any value of the option
	logLines int           // for one load of definitions with any number of mistakes
	list     int64         // bytes of one page of traces
}{
	resident: 512 * 1000 * 1000,
	patience: 10 * time.Second,
	load:     20 * time.Second,
	stalled:  45 * time.Second,
	dripping: 45 * time.Second,
	logLines: 200,
	list:     8 << 20,
}

const (
	// builtGateway is the environment variable with the path of a built gateway to
	// attack. Default: the tests build one.
	builtGateway = "CADENZA_BINARY"

	attackerKey = "cadenza-key-of-an-attacker"
	witnessKey  = "cadenza-key-of-a-witness-1"
	betaKey     = "cadenza-key-of-workspace-b"

	// addressSpace bounds the memory of a gateway in KiB, to protect the machine if
	// the ceilings fail.
	addressSpace = 6 << 20
)

// buildGateway returns the path of a gateway that is built like a user's. The test's own
// binary may have the race detector, which needs additional memory.
var buildGateway = sync.OnceValues(func() (string, error) {
	if path := os.Getenv(builtGateway); path != "" {
		return path, nil
	}
	var err error
	if builtFolder, err = os.MkdirTemp("", "cadenza-built"); err != nil {
		return "", err
	}
	path := filepath.Join(builtFolder, "caddy")
	if output, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the gateway: %w\n%s", err, output)
	}
	return path, nil
})

func gatewayBinary(t *testing.T) string {
	t.Helper()
	path, err := buildGateway()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// siege is a gateway with two workspaces and a hostile upstream, and has methods to attack it.
type siege struct {
	*process
	upstream *hostileUpstream
	client   *http.Client
	folder   string // the directory of the definitions
	data     string
	good     int    // the number of generations of beta's definitions
	around   string // shell commands before the gateway starts
	slow     string // the address of another upstream; empty: there is none
}

// besiege starts the gateway that an attack needs.
func besiege(t *testing.T, a attack) *siege {
	t.Helper()
	if a.definitions == nil {
		a.definitions = besieged
	}
	s := newSiege(t, a.definitions())
	s.around = fmt.Sprintf("ulimit -v %d; ", addressSpace)
	if a.descriptors > 0 {
		s.around += fmt.Sprintf("ulimit -n %d; ", a.descriptors)
	}
	s.begin(t, gatewayBinary(t), a.store)
	return s
}

// newSiege prepares everything except the gateway, with definitions of workspace alpha.
func newSiege(t *testing.T, definitions map[string]string) *siege {
	t.Helper()
	s := &siege{
		upstream: newHostileUpstream(t),
		folder:   t.TempDir(),
		data:     t.TempDir(),
		client: &http.Client{
			Timeout:   60 * time.Second,
			Transport: &http.Transport{MaxIdleConnsPerHost: 16, DisableCompression: true},
		},
	}
	t.Cleanup(s.client.CloseIdleConnections)
	for name, text := range definitions {
		gatewaytest.Write(t, filepath.Join(s.folder, "alpha"), name, text)
	}
	s.serveBeta(t, s.generation())
	return s
}

// begin starts a gateway with options for its store.
func (s *siege) begin(t *testing.T, binary, store string) {
	t.Helper()
	s.process = newProcess(t, s.data,
		"ATTACKER_KEY="+attackerKey, "WITNESS_KEY="+witnessKey, "BETA_KEY="+betaKey,
		"UPSTREAM_KEY=the-key-of-the-upstream")
	// The memory limit of this test's process must not bound the gateway's.
	s.environ = slices.DeleteFunc(s.environ, func(variable string) bool {
		return strings.HasPrefix(variable, "GOMEMLIMIT=") || strings.HasPrefix(variable, "GOGC=")
	})
	s.program = []string{"/bin/sh", "-c", s.around + `exec "$0" "$@"`, binary}

	workspace := func(name, keys string) string {
		return fmt.Sprintf(`workspace %s {
definitions %s
store sqlite %s {
%s
}
log content
%s
provider hostile openai {
	base_url %s
	api_key {env.UPSTREAM_KEY}
}
provider slow openai {
	base_url %s
	api_key {env.UPSTREAM_KEY}
}
provider canned
}
`, name, filepath.Join(s.folder, name), filepath.Join(s.data, "cadenza.db"), store, keys, s.upstream.url, cmp.Or(s.slow, s.upstream.url))
	}
	caddyfile := filepath.Join(t.TempDir(), "Caddyfile")
	text := "{\nadmin {$CADENZA_ADMIN}\npersist_config off\ngrace_period 2s\ncadenza {\n" +
		workspace("alpha", "api_key attacker {env.ATTACKER_KEY}\napi_key witness {env.WITNESS_KEY}") +
		workspace("beta", "api_key beta {env.BETA_KEY}") +
		"}\n}\n{$CADENZA_ADDRESS} {\ncadenza\n}\n"
	if err := os.WriteFile(caddyfile, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.startWith(caddyfile)
}

// serveBeta replaces the files of workspace beta's directory atomically.
func (s *siege) serveBeta(t *testing.T, files map[string]string) {
	t.Helper()
	folder, err := os.MkdirTemp(s.folder, "set")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		gatewaytest.Write(t, folder, name, text)
	}
	// Attacks have many definitions, and the next set has one.
	gatewaytest.Write(t, folder, ".cadenza-allow-empty", "")
	s.swapBeta(t, folder)
}

func (s *siege) swapBeta(t *testing.T, folder string) {
	t.Helper()
	link := filepath.Join(s.folder, "link")
	if err := os.Symlink(filepath.Base(folder), link); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(link, filepath.Join(s.folder, "beta")); err != nil {
		t.Fatal(err)
	}
}

// generation returns a new set of definitions. Its configuration "generation" shows
// which set is served.
func (s *siege) generation() map[string]string {
	s.good++
	return map[string]string{
		"context.yaml":                  "fields: { s: { type: string } }\n",
		"remoteconfigs/generation.yaml": fmt.Sprintf("type: number\ndefault: %d\n", s.good),
	}
}

// serves reports whether beta answers with its newest generation.
func (s *siege) serves(t *testing.T) bool {
	t.Helper()
	if s.gone() {
		t.Fatal("the gateway is gone")
	}
	ctx, cancel := context.WithTimeout(t.Context(), ceilings.patience)
	defer cancel()
	reply, _ := s.send(ctx, betaKey, "/v1/remoteconfigs", strings.NewReader(`{"keys":["generation"]}`))
	return reply.status == http.StatusOK && strings.Contains(reply.body, fmt.Sprintf(`"value":%d,`, s.good))
}

// reply is an answer of the gateway.
type reply struct {
	status      int
	header      http.Header
	body        string
	code, param string // if it is an error
	took        time.Duration
}

func (r reply) String() string {
	body := r.body
	if len(body) > 300 {
		body = fmt.Sprintf("%s… (%d bytes)", body[:300], len(body))
	}
	return fmt.Sprintf("%d after %s: %s", r.status, r.took.Round(time.Millisecond), body)
}

// send sends a request. The status is 0 if no complete answer came.
func (s *siege) send(ctx context.Context, key, path string, body io.Reader, header ...string) (reply, error) {
	began := time.Now()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+path, body)
	if err != nil {
		return reply{}, err
	}
	request.Header.Set("Authorization", "Bearer "+key)
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := s.client.Do(request)
	if err != nil {
		return reply{took: time.Since(began)}, err
	}
	defer response.Body.Close()
	// The end of a very large answer is counted but not kept in memory.
	var text bytes.Buffer
	n, err := io.Copy(&text, io.LimitReader(response.Body, 1<<20))
	if err == nil {
		_, err = io.Copy(io.Discard, response.Body)
	}
	r := reply{status: response.StatusCode, header: response.Header, body: text.String(), took: time.Since(began)}
	if err != nil {
		return r, fmt.Errorf("after %d bytes: %w", n, err)
	}
	var failure struct {
		Error struct{ Code, Param string }
	}
	if r.status != http.StatusOK && json.Unmarshal(text.Bytes(), &failure) == nil {
		r.code, r.param = failure.Error.Code, failure.Error.Param
	}
	return r, nil
}

// host returns the gateway's address.
func (s *siege) host() string { return strings.TrimPrefix(s.url, "http://") }

// head returns the first lines of a request that a test writes itself.
func (s *siege) head(path, key string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n", path, s.host(), key)
}

// ask sends a request that must be answered, at least by an error.
func (s *siege) ask(t *testing.T, key, path, body string, header ...string) reply {
	t.Helper()
	r, err := s.send(t.Context(), key, path, strings.NewReader(body), header...)
	if err != nil {
		t.Errorf("%s is not answered: %v %s", path, err, r)
	}
	return r
}

// refused fails the test unless the answer is an error with a code. If param is not
// empty, the error must be about this member or a part of it.
func refused(t *testing.T, what string, r reply, status int, code, param string) {
	t.Helper()
	if r.status != status || r.code != code || !strings.HasPrefix(r.param, param) {
		t.Errorf("%s: want %d %s of %q, have %s", what, status, code, param, r)
	}
}

// get sends a request to the admin API.
func (s *siege) get(t *testing.T, path string) (int, string) {
	t.Helper()
	response, err := s.client.Get("http://" + s.admin + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// metric returns the sum of the gateway's series with a name and labels.
func (s *siege) metric(t *testing.T, name string, labels ...string) float64 {
	t.Helper()
	_, text := s.get(t, "/metrics")
	sum := 0.0
lines:
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, name+"{") && !strings.HasPrefix(line, name+" ") {
			continue
		}
		for _, label := range labels {
			if !strings.Contains(line, label) {
				continue lines
			}
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ' '):]), 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += value
	}
	return sum
}

// memory reads a line of a process's status, such as VmRSS, in bytes.
func memory(pid int, line string) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for l := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(l, line+":"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("no %s in the status", line)
}

// resetPeak resets the peak of the resident memory to its current size.
func (s *siege) resetPeak() {
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", s.command.Process.Pid), []byte("5"), 0)
}

// holds fails the test unless the gateway runs and its peak memory is below the ceiling.
func (s *siege) holds(t *testing.T) {
	t.Helper()
	if s.gone() {
		text := s.output.String()
		if i := strings.Index(text, "fatal error:"); i >= 0 {
			text = text[i:]
		}
		t.Fatalf("the gateway is gone: %s", text[:min(len(text), 2000)])
	}
	peak, err := memory(s.command.Process.Pid, "VmHWM")
	if err != nil {
		t.Fatal(err)
	}
	if peak > ceilings.resident {
		t.Errorf("resident memory rose to %d MB, more than %d MB", peak/1e6, ceilings.resident/1e6)
	}
	t.Logf("resident at most: %d MB", peak/1e6)
}

// gone reports whether the gateway's process has ended.
func (s *siege) gone() bool {
	select {
	case <-s.exited:
		return true
	default:
		return false
	}
}

// witness asks for prompts and configurations and reports metrics, with its own key,
// until stop. All of its requests must be answered during the attack.
type witness struct {
	stop    context.CancelFunc
	done    chan struct{}
	asked   int
	slowest time.Duration
	failed  []string
}

func (s *siege) watch(t *testing.T) *witness {
	ctx, cancel := context.WithCancel(t.Context())
	w := &witness{stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		for ctx.Err() == nil {
			w.round(ctx, s)
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return w
}

func (w *witness) round(ctx context.Context, s *siege) {
	ask := func(path, body string) reply {
		one, cancel := context.WithTimeout(context.WithoutCancel(ctx), ceilings.patience)
		defer cancel()
		r, err := s.send(one, witnessKey, path, strings.NewReader(body))
		w.asked++
		w.slowest = max(w.slowest, r.took)
		if (err != nil || r.status != http.StatusOK) && len(w.failed) < 5 {
			w.failed = append(w.failed, fmt.Sprintf("%s: %v %s", path, err, r))
		}
		return r
	}
	ask("/v1/prompts", `{"keys":["calm"],"variables":{"text":"hello"}}`)
	r := ask("/v1/remoteconfigs", `{"keys":["calm"],"context":{"s":"x"}}`)
	if r.status == http.StatusOK && ctx.Err() == nil {
		ask("/v1/metrics", fmt.Sprintf(`{"trace_id":%q,"metadata":{"n":1}}`, r.header.Get("Cadenza-Trace-Id")))
	}
}

// served fails the test unless all requests of the witness were answered.
func (w *witness) served(t *testing.T) {
	t.Helper()
	w.stop()
	<-w.done
	for _, failure := range w.failed {
		t.Errorf("somebody else's request meanwhile: %s", failure)
	}
	if w.asked == 0 {
		t.Error("nobody else asked anything meanwhile")
	}
	t.Logf("%d requests of somebody else, the slowest took %s", w.asked, w.slowest.Round(time.Millisecond))
}

// until waits for a condition.
func until(limit time.Duration, condition func() bool) error {
	for began := time.Now(); !condition(); time.Sleep(50 * time.Millisecond) {
		if time.Since(began) > limit {
			return errors.New("not within " + limit.String())
		}
	}
	return nil
}
