package gateway

import (
	"maps"
	"slices"
	"sync"

	"github.com/cadenza-gateway/cadenza/internal/rollout"
)

// rolloutRows are the rows of a workspace's rollouts that the process knows. They are a part
// of its memory, so that a reload serves them also where the disk fails.
type rolloutRows struct {
	mu sync.Mutex
	by map[string][]rollout.Row // by rollout: all from number 1 on
}

// of returns a rollout's rows. They are never changed.
func (r *rolloutRows) of(name string) []rollout.Row {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.by[name]
}

// all returns the rows of all rollouts.
func (r *rolloutRows) all() map[string][]rollout.Row {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.by)
}

// last returns the number of each rollout's last row.
func (r *rolloutRows) last() map[string]int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := make(map[string]int64, len(r.by))
	for name, rows := range r.by {
		known[name] = int64(len(rows))
	}
	return known
}

// add adds the row that follows the last one of its rollout, and reports whether row is that.
func (r *rolloutRows) add(row *rollout.Row) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	rows := r.by[row.Rollout]
	if row.Number != int64(len(rows))+1 {
		return false
	}
	if r.by == nil {
		r.by = make(map[string][]rollout.Row)
	}
	r.by[row.Rollout] = append(rows[:len(rows):len(rows)], *row)
	return true
}

// replace puts rows in the place of all of a rollout.
func (r *rolloutRows) replace(name string, rows []rollout.Row) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by == nil {
		r.by = make(map[string][]rollout.Row)
	}
	r.by[name] = rows
}

// continues reports whether own has all rows of theirs, and more.
func continues(own, theirs []rollout.Row) bool {
	return len(own) > len(theirs) && slices.EqualFunc(own[:len(theirs)], theirs, func(a, b rollout.Row) bool {
		return a.Kind == b.Kind && a.Share == b.Share && a.Edition == b.Edition && a.Time.Equal(b.Time)
	})
}
