//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	works, logs []string
	rounds      int
	round       time.Duration
	binary      string
	profile     string
	page        string
	json        bool
	quick       bool
}

// plain is the name of the target that is the base of all ratios; direct is the
// name of the mock itself.
const (
	plain  = "plain"
	direct = "direct"
)

// withSink is the gateway at log metadata with a sink to PostgreSQL.
const withSink = "postgres"

// logs are the gateway's configurations.
var logs = []string{"none", "metadata", "content", withSink}

func main() {
	if os.Getenv(mockVariable) != "" {
		serveMock()
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

// run measures the works selected by the arguments, and prints the report.
func run(ctx context.Context, args []string, output, progress io.Writer) (err error) {
	o, err := parse(args, progress)
	if err != nil {
		return err
	}
	b, err := newBench(ctx, o, progress)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	r, err := b.measure()
	if err != nil {
		return err
	}
	if o.page != "" {
		if err := putInto(o.page, r.markdown()); err != nil {
			return err
		}
	}
	if o.json {
		encoder := json.NewEncoder(output)
		encoder.SetIndent("", "\t")
		return encoder.Encode(r)
	}
	_, err = io.WriteString(output, r.markdown())
	return err
}

func parse(args []string, output io.Writer) (o options, err error) {
	var names []string
	for _, w := range works() {
		names = append(names, w.name)
	}
	names = append(names, growth, held, overload, readers)
	flags := flag.NewFlagSet("load", flag.ContinueOnError)
	flags.SetOutput(output)
	chosen := flags.String("works", strings.Join(names, ","), "what to measure, `names` with commas")
	levels := flags.String("logs", strings.Join(logs, ","), "which gateways, `names` with commas")
	flags.IntVar(&o.rounds, "rounds", 5, "rounds of each target; medians count")
	flags.DurationVar(&o.round, "time", 2*time.Second, "length of a round")
	flags.StringVar(&o.binary, "binary", "", "the gateway's binary, a `file` (default: it is built)")
	flags.StringVar(&o.profile, "profile", "", "write a profile of each target into a `directory`, from a further round")
	flags.StringVar(&o.page, "page", "", "put the tables between the marks of a page, a `file`, too")
	flags.BoolVar(&o.json, "json", false, "print JSON")
	flags.BoolVar(&o.quick, "quick", false, "one short round of each: a test of the command, no measurement")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("the argument %q is none: all of it is said by flags", flags.Arg(0))
	}
	if o.works, err = choose("work", *chosen, names); err != nil {
		return o, err
	}
	if o.logs, err = choose("log", *levels, logs); err != nil {
		return o, err
	}
	if o.quick {
		o.rounds, o.round = 1, 200*time.Millisecond
	}
	if o.rounds < 1 || o.round <= 0 {
		return o, errors.New("a measurement takes at least one round of more than no time")
	}
	return o, nil
}

// choose returns the names of a list in the order of all.
func choose(kind, list string, all []string) (names []string, err error) {
	chosen := strings.Split(list, ",")
	for _, name := range chosen {
		if !slices.Contains(all, name) {
			return nil, fmt.Errorf("there is no %s %q, but %s", kind, name, strings.Join(all, ", "))
		}
	}
	for _, name := range all {
		if slices.Contains(chosen, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// bench is one run of the command.
type bench struct {
	ctx      context.Context
	o        options
	progress io.Writer
	dir      string
	cpu      int // the processor of the servers
	mock     *mock
	gateways []*server
	postgres *postgres // nil: no sink is measured
	plain    *server
}

func newBench(ctx context.Context, o options, progress io.Writer) (*bench, error) {
	allowed, err := cpus()
	if err != nil {
		return nil, err
	}
	b := &bench{ctx: ctx, o: o, progress: progress, cpu: allowed[0]}
	if len(allowed) < 2 {
		fmt.Fprintln(progress, "load: this process may run on one processor alone, which servers and generator share")
	}
	if b.dir, err = os.MkdirTemp("", "cadenza-load"); err != nil {
		return nil, err
	}
	if o.binary == "" {
		// Before the process is bound to one processor.
		if b.o.binary, err = build(ctx, b.dir); err != nil {
			return nil, errors.Join(err, b.close())
		}
	}
	if err := pinSelf(allowed[len(allowed)-1]); err != nil {
		return nil, errors.Join(err, b.close())
	}
	if b.mock, err = startMock(); err != nil {
		return nil, errors.Join(err, b.close())
	}
	if err := writeDefinitions(filepath.Join(b.dir, "definitions")); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

// build builds the binary from the module in the parent directory.
func build(ctx context.Context, dir string) (string, error) {
	const module = "github.com/cadenza-gateway/cadenza"
	where, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("go list -m %s: %w (run it in bench/, or give -binary)", module, err)
	}
	binary := filepath.Join(dir, "caddy")
	command := exec.CommandContext(ctx, "go", "build", "-buildvcs=auto", "-o", binary, "./cmd/caddy")
	command.Dir = strings.TrimSpace(string(where))
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./cmd/caddy in %s: %w\n%s", command.Dir, err, output)
	}
	return binary, nil
}

// rest stops the servers that are measured in turns.
func (b *bench) rest() {
	for _, s := range b.gateways {
		s.stop()
	}
	if b.plain != nil {
		b.plain.stop()
	}
}

func (b *bench) close() error {
	b.rest()
	if b.mock != nil {
		b.mock.listener.Close()
	}
	err := os.RemoveAll(b.dir)
	if b.postgres != nil {
		err = errors.Join(err, b.postgres.stop())
	}
	return err
}

func (b *bench) chosen() (list []work) {
	for _, w := range works() {
		if slices.Contains(b.o.works, w.name) {
			list = append(list, w)
		}
	}
	return list
}

// addresses gives a server its name, directory and free addresses.
func (b *bench) addresses(name, prefix string) (s *server, err error) {
	s = &server{name: name, dir: filepath.Join(b.dir, prefix+name), window: 100 * time.Millisecond}
	if b.o.quick {
		s.window = 20 * time.Millisecond
	}
	if s.admin, err = freeAddress(); err != nil {
		return nil, err
	}
	s.listen, err = freeAddress()
	return s, err
}

// startGateway starts the gateway at a log level. It uses the upstream and the
// calls of the configuration.
func (b *bench) startGateway(level, prefix string, c gatewayConfig, environment ...string) (*server, error) {
	s, err := b.addresses(level, prefix)
	if err != nil {
		return nil, err
	}
	c.admin, c.listen, c.level, c.dir = s.admin, s.listen, level, s.dir
	c.definitions = filepath.Join(b.dir, "definitions")
	if level == withSink {
		c.level, c.sink = "metadata", true
		environment = append(environment, "LOAD_TRACE_KEY=c2b1f0e7a85d4396b1407e2fd39c6a58", "LOAD_POSTGRES="+b.postgres.dsn())
	}
	return s, s.start(b.o.binary, c.caddyfile(), b.cpu, environment...)
}

// startPlain starts plain Caddy as a proxy. It also serves sites that answer with
// bodies of these sizes, and returns their addresses.
func (b *bench) startPlain(upstream string, sizes map[string]int, prefix string, environment ...string) (*server, map[string]string, error) {
	s, err := b.addresses(plain, prefix)
	if err != nil {
		return nil, nil, err
	}
	sites, bodies := map[string]string{}, map[string]int{}
	for name, size := range sizes {
		if sites[name], err = freeAddress(); err != nil {
			return nil, nil, err
		}
		bodies[sites[name]] = size
	}
	return s, sites, s.start(b.o.binary, plainConfig(s.admin, s.listen, upstream, bodies), b.cpu, environment...)
}

// measure starts the servers, and measures each work on them.
func (b *bench) measure() (*report, error) {
	r, err := newReport(b.o)
	if err != nil {
		return nil, err
	}
	if slices.Contains(b.o.logs, withSink) {
		if bin := postgresPrograms(); bin == "" {
			fmt.Fprintf(b.progress, "%s is left out: PostgreSQL's programs are neither in the PATH nor in /usr/lib/postgresql\n", withSink)
			b.o.logs = slices.DeleteFunc(b.o.logs, func(level string) bool { return level == withSink })
		} else if b.postgres, err = startPostgres(bin); err != nil {
			return nil, err
		}
	}
	chosen := b.chosen()
	exchanges := map[string]map[string]exchange{} // by work and target
	sizes := map[string]int{}
	for _, level := range b.o.logs {
		s, err := b.startGateway(level, "", gatewayConfig{upstream: b.mock.url()})
		if err != nil {
			return nil, err
		}
		b.gateways = append(b.gateways, s)
		for _, w := range chosen {
			asks, err := [][]byte{request(w.path, w.body)}, error(nil)
			if w.name == reports {
				asks, err = s.reportsOn(w.body)
			}
			var x exchange
			if err == nil {
				x, err = s.try(s.listen, asks[0], w.content, w.stream())
			}
			if err != nil {
				return nil, s.complain(fmt.Errorf("%s: %w", w.name, err))
			}
			x.requests = asks
			if exchanges[w.name] == nil {
				exchanges[w.name] = map[string]exchange{}
			}
			exchanges[w.name][level] = x
			switch {
			case w.name == reports:
				sizes[w.name] = 0
			case w.upstream == "":
				sizes[w.name] = x.length
			}
		}
	}
	var sites map[string]string
	if b.plain, sites, err = b.startPlain(b.mock.url(), sizes, ""); err != nil {
		return nil, err
	}
	for _, w := range chosen {
		address, ask, content := sites[w.name], request(w.path, w.body), ""
		switch {
		case w.name == reports:
			ask = request(w.path, "")
		case w.upstream != "":
			address, ask, content = b.plain.listen, request("/v1/chat/completions", w.upstream), words(1)
			if w.name == vectors {
				content = `0.0078125]`
			}
		}
		x, err := b.plain.try(address, ask, content, w.stream())
		if err != nil {
			return nil, b.plain.complain(fmt.Errorf("%s: %w", w.name, err))
		}
		exchanges[w.name][plain] = x
		if w.name == latency {
			x.address = b.mock.address()
			exchanges[w.name][direct] = x
		}
	}
	for _, w := range chosen {
		measured, err := b.rounds(r, w, exchanges[w.name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", w.name, err)
		}
		r.Works = append(r.Works, measured)
	}
	b.rest()
	if slices.Contains(b.o.works, growth) {
		if r.Memory, err = b.memory(); err != nil {
			return nil, fmt.Errorf("%s: %w", growth, err)
		}
	}
	if slices.Contains(b.o.works, held) {
		if r.Streams, err = b.heldStreams(); err != nil {
			return nil, fmt.Errorf("%s: %w", held, err)
		}
	}
	if slices.Contains(b.o.works, overload) {
		if r.Overload, err = b.overload(); err != nil {
			return nil, fmt.Errorf("%s: %w", overload, err)
		}
	}
	if slices.Contains(b.o.works, readers) {
		if r.Readers, err = b.readers(); err != nil {
			return nil, fmt.Errorf("%s: %w", readers, err)
		}
	}
	return r, nil
}

// rounds measures one work on all targets in turns. So a server's background work,
// such as garbage collection, affects all rounds equally.
func (b *bench) rounds(r *report, w work, exchanges map[string]exchange) (*measured, error) {
	targets := append([]*server{b.plain}, b.gateways...)
	m := newMeasured(w)
	for round := -1; round < b.o.rounds; round++ { // the first one warms up
		d := b.o.round
		if round < 0 {
			d = min(d, 500*time.Millisecond)
		}
		fmt.Fprintf(b.progress, "%s: round %d of %d\n", w.name, round+1, b.o.rounds)
		if x, ok := exchanges[direct]; ok {
			got, err := drive(x, w.shape, d, 0)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", direct, err)
			}
			if round >= 0 {
				m.add(direct, got, 0, d)
			}
		}
		for i := range targets {
			if err := b.ctx.Err(); err != nil {
				return nil, err
			}
			s := targets[(i+max(round, 0))%len(targets)]
			got, used, err := s.cost(exchanges[s.name], w.shape, d)
			if err != nil {
				return nil, s.complain(err)
			}
			if round >= 0 {
				m.add(s.name, got, used, d)
				r.Between = max(r.Between, s.between)
			}
		}
	}
	m.compare()
	if b.o.profile == "" {
		return m, nil
	}
	if err := os.MkdirAll(b.o.profile, 0o700); err != nil {
		return nil, err
	}
	for _, s := range targets {
		done := make(chan error, 1)
		go func() {
			done <- s.profile(filepath.Join(b.o.profile, w.name+"-"+s.name+".pprof"), b.o.round)
		}()
		// A little longer than the profile.
		_, err := drive(exchanges[s.name], w.shape, max(b.o.round, time.Second)+500*time.Millisecond, 0)
		if err := errors.Join(err, <-done); err != nil {
			return nil, s.complain(err)
		}
	}
	return m, nil
}

// cost sends load to the server and returns the CPU time that it used until it was idle again.
func (s *server) cost(x exchange, load shape, d time.Duration) (result, time.Duration, error) {
	before, err := processorTime(s.pid())
	if err != nil {
		return result{}, 0, err
	}
	if !s.rested.IsZero() {
		s.between = float64(before-s.used) / float64(time.Since(s.rested))
	}
	got, err := drive(x, load, d, 0)
	if err != nil {
		return got, 0, err
	}
	if err := s.settle(); err != nil {
		return got, 0, err
	}
	s.used, err = processorTime(s.pid())
	s.rested = time.Now()
	return got, s.used - before, err
}
