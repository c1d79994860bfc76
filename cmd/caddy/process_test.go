package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/freeport"
	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

const demoKey = "cadenza-demo-key-0001"

// asGateway is the environment variable that makes the test binary run as the gateway.
const asGateway = "CADENZA_TEST_AS_GATEWAY"

func TestMain(m *testing.M) {
	if os.Getenv(asGateway) != "" {
		main()
		return
	}
	code := gatewaytest.RunWaiting(m)
	if builtFolder != "" {
		_ = os.RemoveAll(builtFolder)
	}
	os.Exit(code)
}

// builtFolder is the directory in which a test has built the gateway, or empty. It is
// deleted when all tests have ended.
var builtFolder string

// process is the gateway in its own process.
type process struct {
	t       *testing.T
	root    string // the root of the repository, in which commands run
	url     string
	admin   string   // the address of the admin API
	program []string // the program and its first arguments; this binary unless replaced
	environ []string
	command *exec.Cmd
	output  *lockedBuffer
	exited  chan struct{}
}

// lockedBuffer is a buffer that may be read while the process writes to it.
type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

func newProcess(t *testing.T, data string, environ ...string) *process {
	t.Helper()
	address, admin := freeport.Address(t), freeport.Address(t)
	home := t.TempDir()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return &process{
		t:       t,
		root:    root,
		url:     "http://" + address,
		admin:   admin,
		program: []string{os.Args[0]},
		environ: append(append(os.Environ(),
			asGateway+"=1",
			"CADENZA_API_KEY="+demoKey,
			"CADENZA_ADDRESS=http://"+address,
			"CADENZA_ADMIN="+admin,
			"CADENZA_DATA="+data,
			"CADENZA_ROOT="+root,
			"OPENAI_API_KEY=",
			"HOME="+home, "XDG_DATA_HOME="+home, "XDG_CONFIG_HOME="+home,
		), environ...),
	}
}

// start runs the gateway with Caddyfile.example until it answers.
func (p *process) start() {
	p.t.Helper()
	p.startWith("Caddyfile.example")
}

// startWith runs the gateway with a Caddyfile until it answers.
func (p *process) startWith(caddyfile string) {
	p.t.Helper()
	p.run("run", "--config", caddyfile, "--adapter", "caddyfile")
	p.eventually("the gateway answers", func() bool {
		response, err := http.Get(p.url + "/")
		if err != nil {
			return false
		}
		response.Body.Close()
		return !p.beginning()
	})
}

// eventually waits for a condition of a running process, and fails with its log.
func (p *process) eventually(what string, holds func() bool) {
	p.t.Helper()
	gatewaytest.Eventually(p.t, what, func() bool {
		select {
		case <-p.exited:
			if !holds() {
				p.t.Fatalf("the gateway exited before: %s\n%s", what, p.output)
			}
			return true
		default:
			return holds()
		}
	}, p.output)
}

// answers waits until the gateway's answer to a body contains a text, and returns the answer.
func (p *process) answers(path, body, text string) (answer string) {
	p.t.Helper()
	p.eventually(fmt.Sprintf("%s answers %s with %s", path, body, text), func() bool {
		var err error
		_, _, answer, err = post(context.Background(), http.DefaultClient, p.url+path, body)
		return err == nil && strings.Contains(answer, text)
	})
	return answer
}

// beginning reports whether the admin API does not know the gateway's configuration yet.
// The configuration runs only when the API knows it; servers answer a little earlier.
func (p *process) beginning() bool {
	response, err := http.Get("http://" + p.admin + "/cadenza/status")
	if err != nil {
		return false // there is no admin API
	}
	response.Body.Close()
	return response.StatusCode == http.StatusNotFound
}

// status returns what the admin API says of the gateway.
func (p *process) status() []byte {
	p.t.Helper()
	response, err := http.Get("http://" + p.admin + "/cadenza/status")
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return text
}

// run starts a command of the gateway, at the root of the repository.
func (p *process) run(arguments ...string) {
	p.t.Helper()
	p.output = new(lockedBuffer)
	p.command = exec.Command(p.program[0], append(p.program[1:len(p.program):len(p.program)], arguments...)...)
	p.command.Dir, p.command.Env = p.root, p.environ
	p.command.Stdout, p.command.Stderr = p.output, p.output
	if err := p.command.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.exited = make(chan struct{})
	go func() {
		defer close(p.exited)
		_ = p.command.Wait()
	}()
	p.t.Cleanup(p.kill)
}

// kill ends the process like a crash, without a chance to clean up.
func (p *process) kill() {
	_ = p.command.Process.Kill()
	<-p.exited
}

// post sends a body and returns the status and the answer.
func post(ctx context.Context, client *http.Client, url, body string) (int, http.Header, string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, nil, "", err
	}
	request.Header.Set("Authorization", "Bearer "+demoKey)
	response, err := client.Do(request)
	if err != nil {
		return 0, nil, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, nil, "", fmt.Errorf("reading the answer: %w", err)
	}
	return response.StatusCode, response.Header, string(text), nil
}
