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
		if c.Report("t1", Object{"score": func() {}}) == nil || len(f.errors()) != 1 {
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
		if len(requests) != 4 || len(keys) != 4 || f.errors() != nil || c.Flush(t.Context()) != 0 {
			t.Errorf("%d requests, %d keys", len(requests), len(keys))
		}
	})
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
		if len(at) != 6 || at[0] != collect || at[5]-at[4] != 100*time.Second {
			t.Fatal(at)
		}
		for i := 1; i < 5; i++ {
			if wait, most := at[i]-at[i-1], time.Second<<(i-1); wait < most/2 || wait > most {
				t.Errorf("wait %d is %v", i, wait)
			}
		}
		all := bodies(f.take())
		for _, body := range all {
			if body != all[0] {
				t.Errorf("another request: %s", body)
			}
		}
		if errs := f.errors(); len(errs) != 5 || c.Lost() != 0 {
			t.Error(errs)
		}
		// The next failure is a first one again.
		answers = append(answers, says(500, ""), taken)
		if err := c.Report("t1", Object{"score": 2}); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(at) != 8 || at[7]-at[6] > time.Second {
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
			case `{"score":4,"trace_id":"t1"}`:
				says(200, `{"ok":true,"ignored":["latency"]}`)(w, r)
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
		if left := c.Flush(t.Context()); left != 7 {
			t.Errorf("%d are left when one fails", left)
		}
		time.Sleep(time.Second) // the wait after it
		synctest.Wait()
		if left := c.Flush(t.Context()); left != 1 || len(c.queue) != 1 {
			t.Errorf("%d are left beside it", left)
		}
		errs := f.errors()
		if len(errs) != 6 || c.Lost() != 3 || !errors.Is(errs[0], ErrLost) || !strings.Contains(errs[4].Error(), "latency") {
			t.Error(errs)
		}
		f.set(taken)
		time.Sleep(time.Minute)
		if left := c.Flush(t.Context()); left != 0 || c.size != 0 {
			t.Errorf("%d are left", left)
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
			c.Flush(t.Context())
			if told.Load() > 3 {
				c.Close(t.Context())
			}
		}
		report := func(left int, errors int64) {
			t.Helper()
			if err := c.Report("t1", Object{"score": 1}); err != nil {
				t.Error(err)
			}
			if found := c.Flush(t.Context()); found != left || told.Load() != errors {
				t.Errorf("%d are left, it hears of %d errors", found, told.Load())
			}
		}
		f.set(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/metrics" {
				says(400, "")(w, r)
			} else {
				flagged("x")(w, r)
			}
		})
		report(0, 1)
		f.set(nil)
		report(1, 3) // of the report, and of the value
		time.Sleep(time.Hour)
		if left := c.Flush(t.Context()); left != 1 || c.closing.Err() == nil || told.Load() > 10 {
			t.Errorf("%d are left, it has heard of %d errors", left, told.Load())
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
		if errs := f.errors(); len(errs) != 1 || !strings.Contains(errs[0].Error(), "half") {
			t.Error(errs)
		}
		if err := c.Report("t1", Object{"score": 50}); err != nil {
			t.Error(err)
		}
		time.Sleep(collect) // it sends by itself
		synctest.Wait()
		first := bodies(f.take())
		if left := c.Close(t.Context()); left != 41 || len(first) != 11 {
			t.Errorf("%d are left after %d", left, len(first))
		}
		if err := c.Report("t1", Object{"score": 51}); !errors.Is(err, ErrLost) || c.Lost() != 1 {
			t.Errorf("after the end: %v", err)
		}
		f.take()
		f.errors()
		f.set(taken)
		next := connect(t, f, Config{Spool: spool})
		if left := next.Close(t.Context()); left != 0 {
			t.Errorf("%d are left", left)
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
		if lost != 10 || c.Lost() != 10 {
			t.Errorf("%d are lost, %d counted", lost, c.Lost())
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
			time.Sleep(2 * time.Minute) // longer than any wait
			synctest.Wait()
			if left := c.Flush(t.Context()); left != 9 {
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
		if left := c.Close(ctx); left != 10 {
			t.Errorf("%d are left", left)
		}
		f.take()
		f.set(taken)
		if left := connect(t, f, Config{Spool: spool}).Close(t.Context()); left != 0 {
			t.Errorf("%d are left", left)
		}
		if all := bodies(f.take()); !strings.Contains(all[len(all)-1], "99") && !strings.Contains(all[0], "99") {
			t.Errorf("the last one is not there: %v", all)
		}
	})
}
