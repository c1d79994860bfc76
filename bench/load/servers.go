//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// apiKey is the key of the gateway's callers.
const apiKey = "load-test-key-0001"

// readerKey is the key of people who look at the console.
const readerKey = "load-test-key-0002"

// server is a process of the binary.
type server struct {
	name    string // none, metadata, content, postgres, plain
	dir     string
	admin   string
	listen  string // for plain: the address of the proxy
	command *exec.Cmd
	output  bytes.Buffer // read after the end
	ended   chan struct{}

	window  time.Duration // see settle
	used    time.Duration // the CPU time at rested
	rested  time.Time     // the end of the last round
	between float64       // the share of a processor used from rested to the next round
}

// usedPorts are the ports that freeAddress has returned.
var usedPorts = map[int]bool{}

// freeAddress returns a free address of this machine, a different one each time. Its port is
// outside the range of outgoing connections, of which there are thousands.
func freeAddress() (string, error) {
	var fault error
	for range 100 {
		port := 10_000 + rand.IntN(22_000)
		if usedPorts[port] {
			continue
		}
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		listener, err := net.Listen("tcp", address)
		if err != nil {
			fault = err
			continue
		}
		usedPorts[port] = true
		return address, listener.Close()
	}
	return "", fmt.Errorf("no port of 10000 to 31999 is free: %w", fault)
}

// gatewayConfig has the variable parts of a gateway's Caddyfile.
type gatewayConfig struct {
	admin, listen, level, definitions, dir string
	upstream                               string // a URL without its path
	sink                                   bool
	calls                                  int    // each ceiling of calls in flight; 0: the default
	ceiling                                string // the option in_flight, if calls is 0
	sites                                  string // additional sites
	console                                bool   // the site has one
}

func (c gatewayConfig) caddyfile() string {
	more := ""
	if c.sink {
		more += "\n\t\ttrace_key {env.LOAD_TRACE_KEY}\n\t\tsink postgres {env.LOAD_POSTGRES}"
	}
	if c.calls > 0 {
		more += fmt.Sprintf("\n\t\tin_flight {\n\t\t\tprocess %[1]d\n\t\t\tworkspace %[1]d\n\t\t\tkey %[1]d\n\t\t\thost %[1]d\n\t\t}", c.calls)
	}
	if c.ceiling != "" {
		more += "\n\t\tin_flight {\n\t\t\t" + c.ceiling + "\n\t\t}"
	}
	directives := "cadenza"
	if c.console {
		more += "\n\t\tapi_key reader {env.LOAD_READER_KEY} {\n\t\t\trole editor\n\t\t}"
		directives = "cadenza_console {\n\t\tinsecure_http\n\t}\n\tcadenza"
	}
	return fmt.Sprintf(`{
	admin %s
	persist_config off
	grace_period 2s
	servers {
		protocols h1 h2c
	}
	cadenza {
		definitions %s
		store sqlite %s
		log %s
		api_key load {env.LOAD_API_KEY}%s
		provider mock openai {
			base_url %s/v1
			api_key {env.LOAD_API_KEY}
		}
		provider canned
	}
}
%s`, c.admin, c.definitions, filepath.Join(c.dir, "cadenza.db"), c.level, more, c.upstream, site(c.listen, directives)+c.sites)
}

// site returns a site with one directive, for requests of any host.
func site(listen, directive string) string {
	_, port, err := net.SplitHostPort(listen)
	if err != nil {
		panic(err) // from freeAddress
	}
	return fmt.Sprintf("\nhttp://:%s {\n\tbind 127.0.0.1\n\t%s\n}\n", port, directive)
}

// plainConfig returns the Caddyfile of plain Caddy: a proxy, and for each
// evaluation a site that responds with a body.
func plainConfig(admin, proxy, upstream string, bodies map[string]int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "{\n\tadmin %s\n\tpersist_config off\n\tgrace_period 2s\n\tservers {\n\t\tprotocols h1 h2c\n\t}\n}\n%s", admin, site(proxy, "reverse_proxy "+upstream))
	for address, length := range bodies {
		body := strings.Repeat("x", length)
		if length == 0 {
			body = "200"
		}
		b.WriteString(site(address, "respond "+body))
	}
	return b.String()
}

// start runs the binary with a Caddyfile on one processor.
func (s *server) start(binary, config string, cpu int, environment ...string) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	file := filepath.Join(s.dir, "Caddyfile")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return err
	}
	s.command = exec.Command(binary, "run", "--config", file, "--adapter", "caddyfile")
	s.command.Stdout, s.command.Stderr = &s.output, &s.output
	s.command.Env = append(append(os.Environ(),
		"GOMAXPROCS=1", "HOME="+s.dir, "XDG_DATA_HOME="+s.dir, "XDG_CONFIG_HOME="+s.dir, "LOAD_API_KEY="+apiKey, "LOAD_READER_KEY="+readerKey), environment...)
	s.ended = make(chan struct{})
	started := make(chan error)
	go func() {
		// The child inherits the processor of the thread that starts it, and
		// the kernel ends it when that thread is gone.
		runtime.LockOSThread()
		err := pin(0, cpu)
		s.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
		if err == nil {
			err = s.command.Start()
		}
		started <- err
		if err == nil {
			_ = s.command.Wait() // stop reads the output
		}
		close(s.ended)
	}()
	return <-started
}

func (s *server) pid() int { return s.command.Process.Pid }

// dial connects to the server as soon as it listens.
func (s *server) dial(address string) (*client, error) {
	for deadline := time.Now().Add(patience); ; {
		c, err := dial(address)
		if err == nil || time.Now().After(deadline) {
			return c, err
		}
		select {
		case <-s.ended:
			return nil, errors.New("the process ended at its start")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// stop ends the process and waits for it.
func (s *server) stop() {
	if s.command == nil || s.command.Process == nil {
		return
	}
	_ = s.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.ended:
	case <-time.After(15 * time.Second):
		_ = s.command.Process.Kill()
		<-s.ended
	}
}

// complain stops the server, and adds the end of its output to an error.
func (s *server) complain(err error) error {
	s.stop()
	output := s.output.Bytes()
	if len(output) > 4<<10 {
		output = output[len(output)-4<<10:]
	}
	return fmt.Errorf("%s: %w\n%s", s.name, err, output)
}

// settle waits until the process has finished the work after its answers, such as writing
// records: it must use less than 2 % of a processor for two windows.
func (s *server) settle() error {
	deadline := time.Now().Add(time.Minute)
	was, err := processorTime(s.pid())
	if err != nil {
		return err
	}
	for quiet := 0; quiet < 2; {
		time.Sleep(s.window)
		now, err := processorTime(s.pid())
		if err != nil {
			return err
		}
		quiet++
		if now-was > s.window/50 {
			quiet = 0
		}
		was = now
		if time.Now().After(deadline) {
			return errors.New("the process does not come to rest within a minute of the last answer")
		}
	}
	return nil
}

// profile writes a profile of the server's CPU time under load.
func (s *server) profile(path string, d time.Duration) error {
	seconds := max(1, int(d/time.Second))
	response, err := http.Get(fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", s.admin, seconds))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("profile of %s: status %d", s.name, response.StatusCode)
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if _, err := io.Copy(file, response.Body); err != nil {
		return errors.Join(err, file.Close())
	}
	return file.Close()
}
