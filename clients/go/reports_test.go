package cadenza

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var taken = says(200, `{"ok":true}`)

// bodies returns what was asked for, each with its key.
func bodies(requests []asked) (all []string) {
	for _, r := range requests {
		all = append(all, r.header.Get("Idempotency-Key")+" "+r.body)
	}
	return all
}

// flush returns how many reports are left, and what Flush says.
func flush(ctx context.Context, c *Client) (left int, err error) {
	err = c.Flush(ctx)
	c.spooling.Lock()
	defer c.spooling.Unlock()
	return len(c.queue), err
}

func TestReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{answer: taken}
		c := connect(t, f, Config{})
		for score := range 3 {
			if err := c.Report("t1", Object{"score": score}); err != nil {
				t.Error(err)
			}
		}
		if err := c.Report("", Object{"decision_id": "d1"}); err != nil {
			t.Error(err)
		}
		if c.Report("t1", Object{"score": func() {}}) == nil {
			t.Error("a report that is no JSON is no error")
		}
		if requests := f.take(); requests != nil {
			t.Errorf("at once: %v", requests)
		}
		time.Sleep(collect)
		synctest.Wait()
		keys := make(map[string]bool)
		requests := f.take()
		for i, want := range []string{`{"score":0,"trace_id":"t1"}`, `{"score":1,"trace_id":"t1"}`, `{"score":2,"trace_id":"t1"}`, `{"decision_id":"d1"}`} {
			if r := requests[i]; r.path != "/v1/metrics" || r.body != want {
				t.Errorf("%+v", r)
			}
			keys[requests[i].header.Get("Idempotency-Key")] = true
		}
		if left, err := flush(t.Context(), c); len(requests) != 4 || len(keys) != 4 || f.errors() != nil || left != 0 || err != nil {
			t.Errorf("%d requests, %d keys", len(requests), len(keys))
		}
	})
}

func TestReportWhileOthersAreSent(t *testing.T) {
	for _, answer := range []func(http.ResponseWriter, *http.Request){taken, says(503, "")} {
		f := new(fake)
		spool := filepath.Join(t.TempDir(), "spool")
		c := connect(t, f, Config{Spool: spool})
		f.set(func(w http.ResponseWriter, r *http.Request) {
			if err := c.Report("t1", Object{"score": 2}); err != nil {
				t.Error(err)
			}
			answer(w, r)
		})
		if err := c.Report("t1", Object{"score": 1}); err != nil {
			t.Error(err)
		}
		left, err := flush(t.Context(), c)
		f.set(answer)
		if want := map[bool]int{true: 1, false: 2}[err == nil]; left != want {
			t.Errorf("%d are left, want %d: %v", left, want, err)
		}
		if text, err := os.ReadFile(spool); err != nil || strings.Count(string(text), "score") != left {
			t.Errorf("the spool: %q, %v", text, err)
		}
	}
}

func TestReportsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := []func(http.ResponseWriter, *http.Request){
			says(500, ""), says(401, ""), says(404, `{"error":{"code":"not_found"}}`), says(200, "<html>"),
			func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "100")
				w.WriteHeader(429)
			}, taken,
		}
		var at []time.Duration
		began := time.Now()
		f := new(fake)
		f.answer = func(w http.ResponseWriter, r *http.Request) {
			at = append(at, time.Since(began))
			answers[len(at)-1](w, r)
		}
		c := connect(t, f, Config{})
		if err := c.Report("t1", Object{"score": 1}); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(at) != 6 || at[0] != collect || at[5]-at[4] != 100*time.Second+collect {
			t.Fatal(at)
		}
		for i := 1; i < 5; i++ {
			if wait := at[i] - at[i-1]; wait < patience/2+collect || wait > patience+collect {
				t.Errorf("wait %d is %v", i, wait)
			}
		}
		all := bodies(f.take())
		for _, body := range all {
			if body != all[0] {
				t.Errorf("another request: %s", body)
			}
		}
		if errs := f.errors(); len(errs) != 5 || errors.Is(errors.Join(errs...), ErrLost) {
			t.Error(errs)
		}
		// What comes next does not wait.
		answers = append(answers, taken)
		if err := c.Report("t1", Object{"score": 2}); err != nil {
			t.Error(err)
		}
		time.Sleep(collect)
		synctest.Wait()
		if len(at) != 7 {
			t.Error(at)
		}
	})
}

func TestPoisonBlocksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := new(fake)
		f.answer = func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			switch string(body) {
			case `{"score":0,"trace_id":"t1"}`:
				says(400, `{"error":{"code":"invalid_request"}}`)(w, r)
			case `{"score":1,"trace_id":"t1"}`:
				says(404, `{"error":{"code":"unknown_trace"}}`)(w, r)
			case `{"score":2,"trace_id":"t1"}`:
				says(413, "<html>")(w, r)
			case `{"score":3,"trace_id":"t1"}`:
				says(500, "")(w, r)
			default:
				taken(w, r)
			}
		}
		c := connect(t, f, Config{})
		for score := range 10 {
			if err := c.Report("t1", Object{"score": score}); err != nil {
				t.Error(err)
			}
		}
		left, err := flush(t.Context(), c)
		if left != 7 || err == nil {
			t.Errorf("%d are left when one fails: %v", left, err)
		}
		for score := range 3 {
			if lost := fmt.Sprintf(`{"score":%d,"trace_id":"t1"}`, score); !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), lost) {
				t.Errorf("%s is not told of: %v", lost, err)
			}
		}
		if left, err := flush(t.Context(), c); left != 1 || err == nil || errors.Is(err, ErrLost) || len(c.queue) != 1 {
			t.Errorf("%d are left beside it: %v", left, err)
		}
		f.set(taken)
		if left, err := flush(t.Context(), c); left != 0 || err != nil || c.size != 0 {
			t.Errorf("%d are left: %v", left, err)
		}
	})
}

// TestErrorsMayFlush has an app call the client when it hears of an error.
func TestErrorsMayFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := new(fake)
		c := connect(t, f, Config{})
		var told atomic.Int64
		c.OnError = func(error) {
			if told.Add(1) > 100 {
				return // else it would never end
			}
			Evaluate(t.Context(), c, "a", "", nil)
			if c.Flush(t.Context()) == nil {
				t.Error("it flushes")
			}
			if told.Load() > 3 {
				_ = c.Close(t.Context())
			}
		}
		if err := c.Report("t1", Object{"score": 1}); err != nil {
			t.Error(err)
		}
		time.Sleep(collect)
		synctest.Wait()
		if found := told.Load(); found != 2 { // of the report, and of the value
			t.Errorf("it hears of %d errors", found)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if c.closing.Err() == nil || len(c.queue) != 1 || told.Load() > 10 {
			t.Errorf("it has heard of %d errors", told.Load())
		}
	})
}

// TestReportsSurvive has a process report and be killed, which then has half a line.
func TestReportsSurvive(t *testing.T) {
	spool := os.Getenv("CADENZA_TEST_SPOOL")
	if spool != "" {
		c := connect(t, new(fake), Config{Spool: spool})
		for score := range 50 {
			if err := c.Report("t1", Object{"score": score}); err != nil {
				t.Error(err)
			}
		}
		fmt.Println("reported")
		select {}
	}
	spool = filepath.Join(t.TempDir(), "spool")
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), program, "-test.run=^TestReportsSurvive$")
	child.Env = append(os.Environ(), "CADENZA_TEST_SPOOL="+spool)
	output, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := io.ReadAll(io.LimitReader(output, int64(len("reported\n")))); string(line) != "reported\n" {
		t.Fatalf("%q, %v", line, err)
	}
	_ = child.Process.Kill()
	_ = child.Wait()
	file, err := os.OpenFile(spool, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(file, "\nhalf {\"score\":"); err != nil {
		t.Fatal(err)
	}
	_ = file.Close()
	if err := os.WriteFile(spool+".new", []byte(strings.Repeat("left of a crash", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}

	synctest.Test(t, func(t *testing.T) {
		f := new(fake)
		calls := 0
		f.answer = func(w http.ResponseWriter, r *http.Request) {
			if calls++; calls <= 10 {
				taken(w, r)
			} else {
				says(503, "")(w, r)
			}
		}
		c := connect(t, f, Config{Spool: spool})
		if text, err := os.ReadFile(spool); err != nil || strings.Contains(string(text), "crash") || strings.Contains(string(text), "half") {
			t.Errorf("the spool: %q, %v", text, err)
		}
		if err := c.Report("t1", Object{"score": 50}); err != nil {
			t.Error(err)
		}
		time.Sleep(collect) // it sends by itself
		synctest.Wait()
		first := bodies(f.take())
		if err := c.Close(t.Context()); err == nil || len(c.queue) != 41 || len(first) != 11 {
			t.Errorf("%d are left after %d: %v", len(c.queue), len(first), err)
		}
		if err := c.Report("t1", Object{"score": 51}); !errors.Is(err, ErrLost) {
			t.Errorf("after the end: %v", err)
		}
		f.take()
		f.errors()
		f.set(taken)
		next := connect(t, f, Config{Spool: spool})
		if err := next.Close(t.Context()); err != nil {
			t.Error(err)
		}
		// Those that were taken may come again, as the same.
		seen := make(map[string]bool)
		for _, body := range append(first, bodies(f.take())...) {
			seen[body] = true
		}
		if len(seen) != 51 {
			t.Errorf("%d reports", len(seen))
		}
		if text, err := os.ReadFile(spool); err != nil || len(text) != 0 || f.errors() != nil {
			t.Errorf("the spool: %q, %v", text, err)
		}
	})
}

func TestSpoolIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spool := filepath.Join(t.TempDir(), "spool")
		f := &fake{answer: says(503, "")}
		c := connect(t, f, Config{Spool: spool, SpoolSize: 1240})
		lost := 0
		for range 20 {
			if err := c.Report("t1", Object{"metadata": strings.Repeat("x", 65)}); errors.Is(err, ErrLost) {
				lost++
			} else if err != nil {
				t.Error(err)
			}
		}
		if lost != 10 {
			t.Errorf("%d are lost", lost)
		}
		if info, err := os.Stat(spool); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v %v", info, err)
		}
		// One out, one in: the queue is never empty, and the file does not grow for ever.
		for i := range 100 {
			n := 0
			f.set(func(w http.ResponseWriter, r *http.Request) {
				if n++; n == 1 {
					taken(w, r)
				} else {
					says(503, "")(w, r)
				}
			})
			if left, _ := flush(t.Context(), c); left != 9 {
				t.Fatalf("%d are left", left)
			}
			if err := c.Report("t1", Object{"metadata": fmt.Sprintf("%065d", i)}); err != nil {
				t.Fatal(err)
			}
		}
		if info, err := os.Stat(spool); err != nil || info.Size() > 4000 {
			t.Errorf("%d bytes, %v", info.Size(), err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := c.Close(ctx); err == nil || len(c.queue) != 10 {
			t.Errorf("%d are left: %v", len(c.queue), err)
		}
		f.take()
		f.set(taken)
		if err := connect(t, f, Config{Spool: spool}).Close(t.Context()); err != nil {
			t.Error(err)
		}
		if all := bodies(f.take()); !strings.Contains(all[len(all)-1], "99") && !strings.Contains(all[0], "99") {
			t.Errorf("the last one is not there: %v", all)
		}
	})
}
