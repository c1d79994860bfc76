package recorder

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/cadenza-gateway/cadenza/trace"
)

// memStore is a store in memory that fails on demand.
type memStore struct {
	mu        sync.Mutex
	fail      func(*Batch) error  // decides each commit; nil: all succeed
	seen      func(*trace.Record) // called with each record, unless nil
	delay     time.Duration       // of each commit
	maintain  func() (bool, error)
	openError error
	opening   time.Duration // how long each opening takes
	broken    chan struct{}
	cancelled int // commits whose context was done at their end

	opened, closed, maintained int
	commits                    []committed
	records                    map[trace.ID]trace.State
	metrics                    []trace.ID
	replies                    map[trace.ReplyKey]*trace.Reply
	read                       func() error // decides each Reply; nil: all succeed
	versions                   []string
	revisions, experiments     []string // with an asterisk if the batch was durable
	counts                     map[Count]int
	early                      []Count // on traces that are not stored
}

// committed is a commit that succeeded.
type committed struct {
	at                                      time.Time
	interrupted, records, metrics, versions int
}

func newMemStore() *memStore {
	return &memStore{records: make(map[trace.ID]trace.State), counts: make(map[Count]int), replies: make(map[trace.ReplyKey]*trace.Reply)}
}

func (s *memStore) open(context.Context) (Store, error) {
	time.Sleep(s.opening)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.openError != nil {
		return nil, s.openError
	}
	s.opened++
	return s, nil
}

func (s *memStore) Commit(ctx context.Context, b *Batch) error {
	s.mu.Lock()
	fail, delay := s.fail, s.delay
	s.mu.Unlock()
	time.Sleep(delay)
	if fail != nil {
		if err := fail(b); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		s.cancelled++
	}
	for _, r := range slices.Concat(b.Interrupted, b.Records) {
		if s.seen != nil {
			s.seen(r)
		}
	}
	for _, r := range b.Interrupted {
		if _, known := s.records[r.ID]; !known {
			s.records[r.ID] = r.State
		}
	}
	for _, r := range b.Records {
		s.records[r.ID] = r.State
	}
	for _, m := range b.Metrics {
		if m.Reply == nil || s.keep(m.Reply) {
			s.metrics = append(s.metrics, m.TraceID)
		}
	}
	for _, r := range b.Replies {
		s.keep(r)
	}
	for _, v := range b.Versions {
		s.versions = append(s.versions, v.Version)
	}
	for _, v := range b.Revisions {
		name := v.Workspace + v.Directory + " " + v.Revision
		if b.Durable() {
			name += "*"
		}
		s.revisions = append(s.revisions, name)
	}
	for _, e := range b.Experiments {
		name := e.Workspace
		for _, p := range e.Plans {
			name += " " + p.Name
		}
		if b.Durable() {
			name += "*"
		}
		s.experiments = append(s.experiments, name)
	}
	for _, c := range b.Counts {
		if _, known := s.records[c.Trace]; !known {
			s.early = append(s.early, c)
		}
		answers := c.Answers
		c.Answers = 0
		s.counts[c] += int(answers)
	}
	s.commits = append(s.commits, committed{time.Now(), len(b.Interrupted), len(b.Records), len(b.Metrics), len(b.Versions)})
	return nil
}

// keep keeps a reply, unless another stands under its key.
func (s *memStore) keep(r *trace.Reply) bool {
	if kept := s.replies[r.ReplyKey]; kept != nil && !kept.Expired(r.Time) {
		r.Earlier = kept
		return false
	}
	s.replies[r.ReplyKey] = cloneReply(r)
	return true
}

func (s *memStore) Reply(_ context.Context, key trace.ReplyKey, now time.Time) (*trace.Reply, error) {
	s.mu.Lock()
	read := s.read
	s.mu.Unlock()
	if read != nil {
		if err := read(); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.replies[key]; r != nil && !r.Expired(now) {
		return r, nil
	}
	return nil, nil
}

func (s *memStore) Maintain(context.Context, time.Time) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.maintained++
	if s.maintain == nil {
		return false, nil
	}
	return s.maintain()
}

func (s *memStore) TraceKey(context.Context) ([]byte, error) {
	return []byte("a key of the memory"), nil
}

func (s *memStore) Broken() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken
}

func (s *memStore) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed++
	return nil
}

// set changes the store under its lock.
func (s *memStore) set(change func(*memStore)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *memStore) has(id trace.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.records[id]
	return known || slices.Contains(s.metrics, id)
}

func (s *memStore) log() []committed {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.commits)
}
