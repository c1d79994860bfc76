package limit

import (
	"context"
	"errors"
	"strings"
	"time"
)

// erasedMark begins the subject that an account has after its own was erased. A keyed hash
// of that follows.
const erasedMark = "erased:"

// errNotErased is why an erasure is not complete.
var errNotErased = errors.New("the file of the limits still has the subject: it is being read, or can't be written")

// SetHash sets the keyed hash, in visible characters, that stands for erased subjects of a
// workspace. The same subject must have the same hash after a restart.
func (l *Limiter) SetHash(workspace string, hash func(subject string) string) {
	l.hashes.Store(workspace, hash)
}

// Erase takes a subject out of all that is shown, and out of the file, of those limits of
// a workspace that in chooses. Its counters go on under a keyed hash until their windows
// end: calls of the subject count there, also after a restart. A counter that gateways
// share keeps its subject, which is the name that they share it by. An error means that
// the file may still have the subject.
//
// Ada has used 4.80 of a budget by the day:
//
//	7 "w" "budget" "ada": 4.80 used                        is erased:
//	7 "w" "budget" "erased:kZ3m0…": 4.80 used              until midnight
func (l *Limiter) Erase(ctx context.Context, workspace, subject string, in func(limit string) bool) error {
	if !l.file.isLoaded(ctx) {
		return errNotErased
	}
	subject = short(subject)
	for name, b := range *l.books.Load() {
		if name.workspace != workspace || b.fleet.Load() != nil || !in(name.limit) {
			continue
		}
		shard := l.shard(b, subject)
		l.locks[shard].Lock()
		if a := b.accounts[shard][subject]; a != nil && !a.erased {
			a.erased, a.named = true, false
			b.erased.Add(1)
		}
		l.locks[shard].Unlock()
		b.ranked.Lock()
		b.ranking = ranking{}
		b.ranked.Unlock()
	}
	// Also where nothing was found: an erasure before this one may not have come so far.
	return l.file.rewrite(ctx)
}

// shown returns the subject of an account as others see it.
func (l *Limiter) shown(a *account) string {
	if !a.erased {
		return a.subject
	}
	return l.erased(a.book.workspace, a.subject)
}

// erased returns what stands for a subject that was erased.
func (l *Limiter) erased(workspace, subject string) string {
	if strings.HasPrefix(subject, erasedMark) {
		return subject
	}
	hash, ok := l.hashes.Load(workspace)
	if !ok {
		return erasedMark
	}
	return erasedMark + hash.(func(string) string)(subject)
}

// counted returns the subject that a call counts under: its own, or what the file has in
// its place since it was erased.
func (l *Limiter) counted(b *book, subject string) string {
	subject = short(subject)
	if b.erased.Load() == 0 {
		return subject
	}
	erased := l.erased(b.workspace, subject)
	shard := l.shard(b, erased)
	l.locks[shard].Lock()
	defer l.locks[shard].Unlock()
	if b.accounts[shard][erased] == nil {
		return subject
	}
	return erased
}

// rewrite has all accounts written anew, and waits until no file has what was there
// before.
func (f *file) rewrite(ctx context.Context) error {
	if f == nil {
		return nil
	}
	done := make(chan struct{})
	f.mu.Lock()
	f.rewrites = append(f.rewrites, done)
	f.mu.Unlock()
	f.poke()
	timer := time.NewTimer(closeWait)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	case <-f.done:
	case <-timer.C:
	}
	return errNotErased
}

// mustRewrite reports whether somebody waits for a rewrite that has not begun.
func (f *file) mustRewrite() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.rewrites) > f.begun
}

// rewritten tells those whose rewrite had begun that it is done.
func (f *file) rewritten() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, done := range f.rewrites[:f.begun] {
		close(done)
	}
	f.rewrites, f.begun = f.rewrites[f.begun:], 0
}
