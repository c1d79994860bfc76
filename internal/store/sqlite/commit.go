package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"os"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
)

// traceKeyLength is the length of a key that the store makes, in bytes.
const traceKeyLength = 32

// TraceKey implements [recorder.Store]. Processes that share a file agree.
func (s *Store) TraceKey(ctx context.Context) ([]byte, error) {
	key, err := storedTraceKey(ctx, s.conn)
	if !errors.Is(err, sql.ErrNoRows) {
		return key, classify(err)
	}
	fresh := make([]byte, traceKeyLength)
	rand.Read(fresh)
	if err := keepTraceKey(ctx, s.conn, fresh); err != nil {
		return nil, classify(err)
	}
	// Another process may have been first.
	key, err = storedTraceKey(ctx, s.conn)
	return key, classify(err)
}

// Commit implements [recorder.Store].
func (s *Store) Commit(ctx context.Context, batch *recorder.Batch) error {
	if err := s.usable(); err != nil {
		return err
	}
	if err := s.copyRestOfLog(ctx); err != nil {
		return classify(err)
	}
	if err := s.setDurable(ctx, batch.Durable()); err != nil {
		return classify(err)
	}
	s.written.Store(true)
	return classify(s.transact(ctx, func() error {
		if err := s.insert.batch(ctx, batch); err != nil {
			return err
		}
		for _, r := range batch.Revisions {
			if err := keepRevision(ctx, s.conn, r); err != nil {
				return err
			}
		}
		return nil
	}))
}

// usable fails if what is written now would not be found later.
func (s *Store) usable() error {
	if err := s.shared.damaged(s.file); err != nil {
		return classify(err)
	}
	return sameFile(s.path, s.file)
}

// sameFile fails with recorder.ErrReplaced where the file at the path is not the
// one that was opened. Commits to a file that was deleted or moved succeed, and
// are lost.
func sameFile(path string, opened os.FileInfo) error {
	if info, err := os.Stat(path); err != nil || !os.SameFile(info, opened) {
		return errors.Join(fmt.Errorf("%w: %s was moved or deleted", recorder.ErrReplaced, path), err)
	}
	return nil
}

// setDurable sets whether commits are synced. SQLite takes it only outside of a
// transaction. https://www.sqlite.org/pragma.html#pragma_synchronous
func (s *Store) setDurable(ctx context.Context, durable bool) error {
	if s.durable == durable {
		return nil
	}
	level := "NORMAL"
	if durable {
		level = "FULL"
	}
	if _, err := s.conn.ExecContext(ctx, "PRAGMA synchronous = "+level); err != nil {
		return err
	}
	s.durable = durable
	return nil
}

// transact runs work in a transaction by prepared statements. One of database/sql
// would cost a goroutine and unprepared statements each time.
func (s *Store) transact(ctx context.Context, work func() error) (err error) {
	s.shared.turn.Lock()
	defer s.shared.turn.Unlock()
	if _, err := s.insert.begin.ExecContext(ctx); err != nil {
		return err
	}
	committed := false
	defer func() { // also when work panics: the lock must not stay
		if !committed {
			// SQLite may have rolled back already, as it does on a full disk.
			_, _ = s.insert.rollback.ExecContext(context.WithoutCancel(ctx))
		}
	}()
	if err := work(); err != nil {
		return err
	}
	if _, err := s.insert.commit.ExecContext(ctx); err != nil {
		return err
	}
	committed = true
	return nil
}
