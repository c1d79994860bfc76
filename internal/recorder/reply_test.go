package recorder

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/trace"
)

func replyOf(key string, digest byte) *trace.Reply {
	return &trace.Reply{
		ReplyKey: trace.ReplyKey{Workspace: "default", Route: "metrics", Key: key},
		Digest:   [32]byte{digest}, Time: time.Now(), Status: 200, Body: []byte(`{"ok":true}`),
	}
}

func TestMetricsOfAKeyAreStoredOnce(t *testing.T) {
	run(t, Options{}, func(t *testing.T, r *Recorder, s *memStore) {
		s.delay = time.Millisecond
		open(t, r)
		// All of them share two commits: neither the store nor the batch has any twice.
		var group sync.WaitGroup
		var mu sync.Mutex
		first := 0
		for n := range byte(10) {
			group.Go(func() {
				m := metricsOn(1)
				m.Reply = replyOf("k", n)
				if err := r.Metrics(t.Context(), m); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				if m.Reply.Earlier == nil {
					first++
				}
			})
		}
		group.Wait()
		if first != 1 || len(s.metrics) != 1 {
			t.Errorf("%d of 10 came first by their answer, and %d are stored", first, len(s.metrics))
		}
		if err := r.Metrics(t.Context(), metricsOn(1)); err != nil || len(s.metrics) != 2 {
			t.Errorf("without a key: %v, %d stored", err, len(s.metrics))
		}
	})
}

// TestAbandonedMetricsAreStoredOnce has a reporter leave while its metrics are
// being committed, and report them again.
func TestAbandonedMetricsAreStoredOnce(t *testing.T) {
	run(t, Options{}, func(t *testing.T, r *Recorder, s *memStore) {
		s.delay = time.Minute
		open(t, r)
		report := func() (*trace.Reply, error) {
			m := metricsOn(1)
			m.Reply = replyOf("k", 1)
			return m.Reply, r.Metrics(t.Context(), m)
		}
		if _, err := report(); !errors.Is(err, ErrUnavailable) {
			t.Fatalf("a commit that takes a minute: %v", err)
		}
		s.set(func(s *memStore) { s.delay = 0 })
		settle(time.Minute)
		reply, err := report()
		if err != nil || reply.Earlier == nil || len(s.metrics) != 1 {
			t.Errorf("again: %v, earlier %v, %d stored", err, reply.Earlier, len(s.metrics))
		}
	})
}

func TestReplies(t *testing.T) {
	run(t, Options{}, func(t *testing.T, r *Recorder, s *memStore) {
		reply := replyOf("k", 1)
		look := func() *trace.Reply {
			t.Helper()
			found, err := r.Reply(t.Context(), reply.ReplyKey, time.Now())
			if err != nil {
				t.Error(err)
			}
			return found
		}
		if _, err := r.Reply(t.Context(), reply.ReplyKey, time.Now()); !errors.Is(err, ErrUnavailable) {
			t.Errorf("before the store is open: %v", err)
		}
		if err := r.Keep(t.Context(), reply); !errors.Is(err, ErrUnavailable) {
			t.Errorf("before the store is open: %v", err)
		}
		open(t, r)
		if found := look(); found != nil {
			t.Errorf("found %+v", found)
		}
		if err := r.Keep(t.Context(), reply); err != nil || reply.Earlier != nil {
			t.Fatal(err)
		}
		if found := look(); found == nil || found.Digest != reply.Digest || string(found.Body) != string(reply.Body) {
			t.Errorf("found %+v", found)
		}
		if log := s.log(); len(log) != 1 {
			t.Errorf("commits: %+v", log)
		}
		other := replyOf("k", 2)
		if err := r.Keep(t.Context(), other); err != nil || other.Earlier == nil || other.Earlier.Digest != reply.Digest {
			t.Errorf("another reply under the key: %v, earlier %+v", err, other.Earlier)
		}

		settle(trace.ReplyLifetime - time.Minute)
		if look() == nil {
			t.Error("it is gone before its time")
		}
		settle(time.Minute)
		if found := look(); found != nil {
			t.Errorf("after its time: %+v", found)
		}
		if other = replyOf("k", 2); r.Keep(t.Context(), other) != nil || other.Earlier != nil {
			t.Errorf("a key whose reply has expired: earlier %+v", other.Earlier)
		}
		if found := look(); found == nil || found.Digest != other.Digest {
			t.Errorf("found %+v", found)
		}
	})
}

func TestRepliesOfAFailingStore(t *testing.T) {
	run(t, Options{}, func(t *testing.T, r *Recorder, s *memStore) {
		open(t, r)
		kept, other := replyOf("k", 1), replyOf("other", 1)
		if err := r.Keep(t.Context(), kept); err != nil {
			t.Fatal(err)
		}
		s.set(func(s *memStore) { s.fail = func(*Batch) error { return errors.New("full disk") } })
		if err := r.Keep(t.Context(), other); !errors.Is(err, ErrUnavailable) {
			t.Errorf("a commit that fails: %v", err)
		}
		if found, err := r.Reply(t.Context(), kept.ReplyKey, time.Now()); found == nil || err != nil {
			t.Errorf("what was kept: %+v, %v", found, err)
		}
		if _, err := r.Reply(t.Context(), other.ReplyKey, time.Now()); !errors.Is(err, ErrUnavailable) {
			t.Errorf("what could not be kept: %v", err)
		}
		s.set(func(s *memStore) { s.fail = nil })
		// Replies alone must find out that the store works again.
		settle(maxRetryPause)
		if err := r.Keep(t.Context(), other); err != nil {
			t.Errorf("after the failure: %v", err)
		}

		s.set(func(s *memStore) { s.read = func() error { return errors.New("read error") } })
		if _, err := r.Reply(t.Context(), kept.ReplyKey, time.Now()); !errors.Is(err, ErrUnavailable) {
			t.Errorf("a read that fails: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := r.Reply(ctx, kept.ReplyKey, time.Now()); !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that left: %v", err)
		}
	})
}

// TestCloseWaitsForReaders closes the recorder while a reply is being read. It
// can't run in a bubble: time stands still there while a goroutine waits for a
// lock.
func TestCloseWaitsForReaders(t *testing.T) {
	s := newMemStore()
	reading := make(chan struct{})
	s.read = func() error {
		close(reading)
		time.Sleep(50 * time.Millisecond)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.closed > 0 {
			t.Error("the store was closed under its reader")
		}
		return nil
	}
	r := New(Options{Open: s.open})
	r.Open()
	if _, err := r.TraceKey(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.Keep(t.Context(), replyOf("k", 1)); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	group.Go(func() {
		if found, err := r.Reply(t.Context(), replyOf("k", 1).ReplyKey, time.Now()); found == nil || err != nil {
			t.Errorf("%v, %v", found, err)
		}
	})
	<-reading
	closeRecorder(t, r)
	group.Wait()
	if s.closed != 1 {
		t.Errorf("closed %d times", s.closed)
	}
	if _, err := r.Reply(t.Context(), trace.ReplyKey{}, time.Now()); !errors.Is(err, ErrUnavailable) {
		t.Errorf("after the end: %v", err)
	}
}
