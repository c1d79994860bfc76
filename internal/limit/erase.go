package limit

import (
	"context"
	"errors"
	"strings"
)

// erasedMark begins the name that replaces an erased subject. A keyed hash of the subject
// follows.
const erasedMark = "erased:"

// errNotErased is why an erasure is not complete.
var errNotErased = errors.New("the file of the limits still has the subject: it is being read, or can't be written")

// SetHash sets the keyed hash, in visible characters, that replaces erased subjects of a
// workspace. The hash of a subject must be the same after a restart.
func (l *Limiter) SetHash(workspace string, hash func(subject string) string) {
	l.hashes.Store(workspace, hash)
}

// Erase removes a subject from all output and from the file, for the limits of a workspace
// for which in returns true. The subject's counters continue under a keyed hash until
// their windows end: calls of the subject count there, also after a restart. A counter
// that gateways share keeps its subject, because they share it by this name. An error
// means that the file may still contain the subject.
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
			a.erased = true
			b.erased.Add(1)
		}
		l.locks[shard].Unlock()
		b.ranked.Lock()
		b.ranking = ranking{}
		b.ranked.Unlock()
	}
	// Rewrite even if no account was found: an earlier erasure may have failed here.
	return l.file.rewrite(ctx)
}

// shown returns the subject of an account as output and the file have it.
func (l *Limiter) shown(a *account) string {
	if !a.erased {
		return a.subject
	}
	return l.erased(a.book.workspace, a.subject)
}

// erased returns the name that replaces an erased subject.
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

// counted returns the subject that a call counts under: its own, or its hash if the file
// has had the hash since an erasure.
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
