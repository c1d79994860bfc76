package sqlite

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// crashChild names, in the environment of a child of the tests, the file that
// it writes to until it is killed.
const crashChild = "CADENZA_TEST_CRASH_FILE"

func TestMain(m *testing.M) {
	if path := os.Getenv(crashChild); path != "" {
		if err := writeUntilKilled(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	if path := os.Getenv(rolloutChild); path != "" {
		fmt.Fprintln(os.Stderr, addUntilKilled(path))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// crashTurns is the number of turns of the conversation that the child records.
const crashTurns = 12

// writeUntilKilled records without end and prints what it acknowledged: "m ID" for stored
// metrics, "s ID" for an upstream call whose start is stored.
func writeUntilKilled(path string) error {
	r := recorder.New(recorder.Options{Open: opener(Config{Path: path}), Calls: path})
	r.Open()
	ctx := context.Background()
	key, err := r.TraceKey(ctx)
	if err != nil {
		return err
	}
	authority, err := trace.NewAuthority(key, "default")
	if err != nil {
		return err
	}
	var output sync.Mutex
	acknowledge := func(kind string, id trace.ID) {
		output.Lock()
		defer output.Unlock()
		fmt.Printf("%s %s\n", kind, id)
	}
	for range 8 {
		go func() {
			for {
				id := authority.New(trace.KindPrompt, time.Now())
				record := trace.AcquireRecord()
				record.ID, record.Time, record.Workspace, record.Kind, record.Key = id, time.Now(), "default", trace.KindPrompt, "k"
				r.Evaluation(record)
				if r.Metrics(ctx, metricsOf(id)) == nil {
					acknowledge("m", id)
				}
			}
		}()
	}
	turns := turnsOf("crash", crashTurns, 6<<10)
	for n := 0; ; n = (n + 1) % crashTurns {
		id := authority.New(trace.KindEndpoint, time.Now())
		call := trace.AcquireRecord()
		call.ID, call.Time, call.Workspace, call.Kind, call.Key = id, time.Now(), "default", trace.KindEndpoint, "e"
		call.Row, call.Messages = strconv.Itoa(n), append(call.Messages[:0], turns[n]...)
		if r.Start(ctx, call) {
			acknowledge("s", id)
		}
		time.Sleep(time.Millisecond)
		r.End(call)
	}
}

// TestKillLosesNothingAcknowledged kills a writing process again and again. The file must
// be whole and have the rows that the process acknowledged, and show its running upstream
// calls.
func TestKillLosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	rounds := 25
	if testing.Short() {
		rounds = 5
	}
	path := filepath.Join(t.TempDir(), "a.db")
	var metrics, calls []trace.ID
	for range rounds {
		m, s := killedRound(t, path)
		metrics, calls = append(metrics, m...), append(calls, s...)
	}
	if len(metrics) < rounds || len(calls) < rounds/2 {
		t.Fatalf("only %d metrics and %d starts were acknowledged in %d rounds", len(metrics), len(calls), rounds)
	}

	last := openRecorder(t, Config{Path: path}) // finds the calls of the last round
	if err := last.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	store := mustOpen(t, Config{Path: path})
	if err := store.Check(t.Context()); err != nil {
		t.Error(err)
	}
	lost := 0
	for _, id := range metrics {
		stored, err := store.MetricsFor(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if len(stored) != 1 {
			lost++
		}
	}
	if lost > 0 {
		t.Errorf("%d of %d acknowledged metrics are lost", lost, len(metrics))
	}
	states := map[trace.State]int{}
	for _, id := range calls {
		record, err := store.Trace(t.Context(), id)
		if err != nil {
			t.Fatalf("the upstream call %s: %v", id, err)
		}
		states[record.State]++
	}
	if states[trace.StateStarted] > 0 || states[trace.StateInterrupted] == 0 {
		t.Errorf("upstream calls by state: %v; want some interrupted and none started", states)
	}
	// Each call has the messages of its turn, and no text is left without a trace.
	turns, stored := turnsOf("crash", crashTurns, 6<<10), make(map[trace.ID]*trace.Record)
	if err := store.Export(t.Context(), trace.Filter{Workspace: "default", Kind: trace.KindEndpoint}, func(r *trace.Record, _ []trace.Metrics) error {
		n, err := strconv.Atoi(r.Row)
		if err == nil && !bytes.Equal(r.Messages, turns[n]) {
			t.Errorf("the call %s of turn %d has other messages", r.ID, n)
		}
		stored[r.ID] = r
		return err
	}); err != nil {
		t.Fatal(err)
	}
	wantTexts(t, store, stored)
	t.Logf("%d rounds, %d metrics acknowledged, upstream calls: %v", rounds, len(metrics), states)
}

// killedRound runs a child for a moment, kills it and returns the rows that it had
// acknowledged.
func killedRound(t *testing.T, path string) (metrics, calls []trace.ID) {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^$")
	child.Env = append(os.Environ(), crashChild+"="+path)
	var failure strings.Builder
	child.Stderr = &failure
	output, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var kill *time.Timer
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		if kill == nil { // from the first acknowledgement on, at any moment
			kill = time.AfterFunc(rand.N(120*time.Millisecond), func() { _ = child.Process.Kill() })
		}
		kind, text, _ := strings.Cut(lines.Text(), " ")
		id, ok := trace.ParseID(text)
		if !ok {
			continue // the line that was being written
		}
		switch kind {
		case "m":
			metrics = append(metrics, id)
		case "s":
			calls = append(calls, id)
		}
	}
	_ = child.Wait()
	if kill == nil || failure.Len() > 0 {
		t.Fatalf("the child failed: %s", failure.String())
	}
	return metrics, calls
}
