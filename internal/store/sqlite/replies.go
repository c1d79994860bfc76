package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/trace"
)

var replyColumns = []string{
	"workspace", "route", "key", "digest", "time_ms", "trace_id", "status", "code", "body", "api_key", "decision_id", "size",
}

var (
	// keepReplySQL does not change a reply that has not expired.
	keepReplySQL = insertSQL("INSERT", "replies", replyColumns, 1) + fmt.Sprintf(`
ON CONFLICT (workspace, route, key) DO UPDATE SET
	digest = excluded.digest, time_ms = excluded.time_ms, trace_id = excluded.trace_id,
	status = excluded.status, code = excluded.code, body = excluded.body,
	api_key = excluded.api_key, decision_id = excluded.decision_id, size = excluded.size
WHERE time_ms <= excluded.time_ms - %d`, trace.ReplyLifetime.Milliseconds())

	selectReply = fmt.Sprintf("SELECT %s FROM replies WHERE workspace = ? AND route = ? AND key = ?",
		strings.Join(replyColumns[3:len(replyColumns)-1], ", "))
)

// keepReply stores r, or finds the reply that is stored under its key.
func (s *statements) keepReply(r *trace.Reply) error {
	err := s.keep.run(textValue(r.Workspace), textValue(r.Route), textValue(r.Key), blobValue(r.Digest[:]), integerValue(r.Time.UnixMilli()),
		idValue(&r.TraceID), integerValue(int64(r.Status)), unlessEmpty(r.Code), textValue(string(r.Body)), textValue(r.APIKey), idValue(&r.Decision),
		integerValue(replySize(r)))
	if err != nil {
		return err
	}
	r.Earlier = nil // it may be of a file which this one replaced
	if s.keep.changed() > 0 {
		return nil
	}
	r.Earlier, err = s.keptReply(r.ReplyKey)
	return err
}

// keptReply reads the reply under a key, also one that this batch stored.
func (s *statements) keptReply(key trace.ReplyKey) (*trace.Reply, error) {
	defer s.kept.reset()
	if err := s.kept.bindAll(textValue(key.Workspace), textValue(key.Route), textValue(key.Key)); err != nil {
		return nil, err
	}
	if found, err := s.kept.step(); err != nil || !found {
		return nil, errors.Join(err, ErrNotFound)
	}
	r := trace.Reply{ReplyKey: key}
	copy(r.Digest[:], s.kept.bytes(0))
	r.Time = time.UnixMilli(s.kept.integer(1))
	copy(r.TraceID[:], s.kept.bytes(2))
	r.Status, r.Code = int(s.kept.integer(3)), string(s.kept.bytes(4))
	r.Body, r.APIKey = s.kept.bytes(5), string(s.kept.bytes(6))
	copy(r.Decision[:], s.kept.bytes(7))
	return &r, nil
}

func idValue(id *trace.ID) value {
	if id.IsZero() {
		return value{}
	}
	return blobValue(id[:])
}

// idOrNull returns an id as an argument of database/sql, nil if it is zero.
func idOrNull(id *trace.ID) any {
	if id.IsZero() {
		return nil
	}
	return id[:]
}

func scanReply(row *sql.Row, key trace.ReplyKey) (*trace.Reply, error) {
	r := trace.Reply{ReplyKey: key}
	var digest []byte
	err := row.Scan(&digest, into{&r.Time}, into{&r.TraceID}, &r.Status, into{&r.Code}, &r.Body, &r.APIKey, into{&r.Decision})
	if err != nil {
		return nil, err
	}
	copy(r.Digest[:], digest)
	return &r, nil
}

// Reply returns the reply under a key, expired or not, or ErrNotFound.
func (r *Reader) Reply(ctx context.Context, key trace.ReplyKey) (*trace.Reply, error) {
	reply, err := scanReply(r.db.QueryRowContext(ctx, selectReply, key.Workspace, key.Route, key.Key), key)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, ErrNotFound
	}
	return reply, err
}

// Reply implements [recorder.Store].
func (s *Store) Reply(ctx context.Context, key trace.ReplyKey, now time.Time) (*trace.Reply, error) {
	reply, err := s.Reader.Reply(ctx, key)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, classify(err)
	case reply.Expired(now):
		return nil, nil
	}
	return reply, nil
}
