//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// readers is the work with people who look at the console while the gateway answers.
const readers = "readers"

const (
	// manyReaders is the number of people.
	manyReaders = 5
	// looks is the time from a page to the next one. A page that is left open is read
	// again every ten seconds.
	looks = 2 * time.Second
	// leave is how long after the last page the gateway is as if nobody had looked: for ten
	// seconds it keeps the processor that it uses more for readers.
	leave = 11 * time.Second
	// manyTraces is the number of traces in the store before.
	manyTraces = 1_000_000
	// traced is the number of traces that one request leaves.
	traced = 100
)

// reading is the measurement of readers, by round.
type reading struct {
	Traces  int                  `json:"traces"` // in the store before
	Readers int                  `json:"readers"`
	Alone   []float64            `json:"alone_99"` // milliseconds to the first bytes, the 99th of a hundred
	Read    []float64            `json:"read_99"`  // the same while people read
	CPU     []float64            `json:"cpu_us"`   // of a request, while nobody reads
	ReadCPU []float64            `json:"read_cpu_us"`
	Pages   map[string][]float64 `json:"pages"` // milliseconds until a page was read whole
}

// readers measures calls at a rate with and without people who read, by turns.
func (b *bench) readers() (r *reading, err error) {
	r = &reading{Traces: manyTraces, Readers: manyReaders, Pages: map[string][]float64{}}
	pause, left := looks, leave
	if b.o.quick {
		r.Traces, pause, left = 2_000, 20*time.Millisecond, 0
	}
	if err := writeFlags(filepath.Join(b.dir, "definitions", "remoteconfigs")); err != nil {
		return nil, err
	}
	s, err := b.startGateway("metadata", "readers-", gatewayConfig{upstream: b.mock.url(), console: true})
	if err != nil {
		return nil, err
	}
	defer s.stop()
	fmt.Fprintf(b.progress, "%s: %d traces\n", readers, r.Traces)
	many, err := s.try(s.listen, request("/v1/remoteconfigs", manyKeys()), `"value":true`, false)
	if err == nil {
		_, err = drive(many, shape{connections: 4}, time.Hour, r.Traces/traced)
	}
	if err == nil {
		err = s.settle()
	}
	if err != nil {
		return nil, s.complain(err)
	}
	w := works()[1] // at a rate that the gateway bears
	x, err := s.try(s.listen, request(w.path, w.body), w.content, false)
	if err != nil {
		return nil, s.complain(err)
	}
	people := make([]*reader, manyReaders)
	for i := range people {
		if people[i], err = s.signIn(); err != nil {
			return nil, s.complain(err)
		}
	}
	for round := range b.o.rounds {
		fmt.Fprintf(b.progress, "%s: round %d of %d\n", readers, round+1, b.o.rounds)
		time.Sleep(left)
		got, used, err := s.cost(x, w.shape, b.o.round)
		if err != nil {
			return nil, s.complain(err)
		}
		r.Alone = append(r.Alone, milliseconds(got.first[len(got.first)*99/100]))
		r.CPU = append(r.CPU, float64(used)/float64(time.Microsecond)/float64(got.answers))
		before, err := processorTime(s.pid())
		if err != nil {
			return nil, s.complain(err)
		}
		pages, end := s.read(people, pause)
		got, err = drive(x, w.shape, b.o.round, 0)
		seen, fault := end()
		if err = errors.Join(err, fault, s.settle()); err != nil {
			return nil, s.complain(err)
		}
		if used, err = processorTime(s.pid()); err != nil {
			return nil, s.complain(err)
		}
		used -= before
		r.Read = append(r.Read, milliseconds(got.first[len(got.first)*99/100]))
		r.ReadCPU = append(r.ReadCPU, float64(used)/float64(time.Microsecond)/float64(got.answers))
		for _, page := range pages {
			r.Pages[page] = append(r.Pages[page], seen[page]...)
		}
	}
	if b.o.profile == "" {
		return r, nil
	}
	if err := os.MkdirAll(b.o.profile, 0o700); err != nil {
		return nil, err
	}
	_, end := s.read(people, pause)
	err = s.profile(filepath.Join(b.o.profile, readers+".pprof"), b.o.round)
	_, fault := end()
	return r, errors.Join(err, fault)
}

// writeFlags adds the definitions of manyKeys.
func writeFlags(dir string) error {
	for i := range traced {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("flag-%d.yaml", i)), []byte("type: boolean\ndefault: true\n"), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// manyKeys returns a request that leaves many traces.
func manyKeys() string {
	keys := make([]string, traced)
	for i := range keys {
		keys[i] = fmt.Sprintf("flag-%d", i)
	}
	return compact(map[string]any{"keys": keys, "context": map[string]any{"environment": "production", "plan": "pro"}})
}

// read has people read the console's pages in turn until end is called. It returns the
// pages, and end returns the times that each took, in milliseconds.
func (s *server) read(people []*reader, pause time.Duration) (pages []string, end func() (map[string][]float64, error)) {
	pages = []string{"", "traces", "definitions", "costs", "refused"}
	var (
		lock  sync.Mutex
		group sync.WaitGroup
		fault error
		ended atomic.Bool
		times = map[string][]float64{}
	)
	for i, reader := range people {
		group.Go(func() {
			time.Sleep(time.Duration(i) * pause / time.Duration(len(people))) // nobody clicks at the same time
			var err error
			for n := i; !ended.Load(); n++ {
				page := pages[n%len(pages)]
				start := time.Now()
				if err = reader.look("http://" + s.listen + "/console/" + page); err != nil {
					break
				}
				lock.Lock()
				times[page] = append(times[page], milliseconds(time.Since(start)))
				lock.Unlock()
				time.Sleep(pause)
			}
			lock.Lock()
			defer lock.Unlock()
			fault = errors.Join(fault, err)
		})
	}
	return pages, func() (map[string][]float64, error) {
		ended.Store(true)
		group.Wait()
		return times, fault
	}
}

// reader is a person who has signed in.
type reader struct{ http.Client }

func (s *server) signIn() (*reader, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	r := &reader{http.Client{Jar: jar, Timeout: patience}}
	response, err := r.PostForm("http://"+s.listen+"/console/sign-in", url.Values{"key": {readerKey}})
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK || strings.Contains(response.Request.URL.Path, "sign-in") {
		return nil, fmt.Errorf("signing in ends at %s with the status %d", response.Request.URL, response.StatusCode)
	}
	return r, nil
}

// look reads a page.
func (r *reader) look(page string) error {
	response, err := r.Get(page)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && (response.StatusCode != http.StatusOK || !bytes.Contains(text, []byte("</html>"))) {
		err = fmt.Errorf("%s: the status is %d, the text %.500q", page, response.StatusCode, text)
	}
	return err
}

// readers writes the table of readers.
func (r *report) readers(b *strings.Builder) {
	n := r.Readers
	if n == nil {
		return
	}
	fmt.Fprintf(b, "\n| calls at 500 requests/s, %d traces | p99 | CPU a request |\n|---|---:|---:|\n| nobody reads | %.2f ms | %.0f µs |\n| %d people read, a page each %v | %.2f × | %.2f × |\n",
		n.Traces, median(n.Alone), median(n.CPU), n.Readers, looks, median(ratios(n.Read, n.Alone)), median(ratios(n.ReadCPU, n.CPU)))
	b.WriteString("\nTo reach: 1.1 × at p99.\n\n| page | median | longest |\n|---|---:|---:|\n")
	for _, page := range slices.Sorted(maps.Keys(n.Pages)) {
		fmt.Fprintf(b, "| `/console/%s` | %.1f ms | %.1f ms |\n", page, median(n.Pages[page]), slices.Max(n.Pages[page]))
	}
}
