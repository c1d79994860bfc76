package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	// auditLifetime is how long the store keeps entries of the audit: over a year, so that
	// an auditor finds all of one. The retention of traces is another.
	auditLifetime = 400 * 24 * time.Hour

	// maxAudit bounds the entries of all workspaces, the newest.
	maxAudit = 500_000

	// maxAuditRefused bounds those of refused sign-ins, which anybody can cause: so they
	// displace no other entry.
	maxAuditRefused = 10_000

	// maxAuditText bounds each text of an entry, in bytes.
	maxAuditText = 4 << 10

	// MaxAudit is the most entries of an answer.
	MaxAudit = 1000
)

// AuditRefused is the action of a sign-in that was refused.
const AuditRefused = "sign_in_refused"

// AuditEntry is something that a visitor did.
type AuditEntry struct {
	Seq       int64     `json:"seq"`
	Time      time.Time `json:"time"`
	Workspace string    `json:"workspace"`
	By        string    `json:"by,omitempty"` // name of the API key, or sso:USER; empty: none
	Role      string    `json:"role,omitempty"`
	From      string    `json:"from,omitempty"` // address of the client
	Action    string    `json:"action"`
	Subject   string    `json:"subject,omitempty"`
	Before    string    `json:"before,omitempty"`
	After     string    `json:"after,omitempty"`
}

// KeepAudit stores an entry in the file of a store, and returns when it is on the disk. It
// works on a connection of its own, also while a Store writes to the file.
func KeepAudit(ctx context.Context, path string, e *AuditEntry) error {
	return writeBeside(ctx, path, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO audit (time_ms, workspace, visitor, role, address, action, subject, before, after) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
			e.Time.UnixMilli(), e.Workspace, cutAudit(e.By), e.Role, e.From, e.Action, cutAudit(e.Subject), cutAudit(e.Before), cutAudit(e.After))
		return err
	})
}

// cutAudit returns a text that fits an entry.
func cutAudit(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxAuditText)], "\ufffd")
}

// writeBeside runs work in a durable transaction of its own connection.
func writeBeside(ctx context.Context, path string, work func(*sql.Tx) error) (err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("trace store %s: %w", path, classify(err))
		}
	}()
	file, err := os.Stat(path)
	if err != nil {
		return err
	}
	db, err := openDatabase(secondWriterDSN(path, "synchronous(FULL)"), 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := checkFormat(ctx, db); err != nil {
		return err
	}
	if err := transactInTurn(ctx, db, turnOf(path), work); err != nil {
		return err
	}
	return sameFile(path, file)
}

// deleteAudit deletes entries that are too old or too many, and uses of keys that are long
// gone.
func deleteAudit(ctx context.Context, conn *sql.Conn, now time.Time) error {
	before := now.Add(-auditLifetime)
	for _, q := range []struct {
		query string
		bound int64
	}{
		{"DELETE FROM audit WHERE seq IN (SELECT seq FROM audit WHERE time_ms < ? ORDER BY time_ms LIMIT " + fmt.Sprint(deleteRows) + ")", before.UnixMilli()},
		{"DELETE FROM audit WHERE seq <= (SELECT max(seq) FROM audit) - ?", maxAudit},
		{"DELETE FROM audit WHERE action = '" + AuditRefused + "' AND seq <= (SELECT seq FROM audit WHERE action = '" + AuditRefused + "' ORDER BY seq DESC LIMIT 1 OFFSET ?)", maxAuditRefused},
		{"DELETE FROM key_uses WHERE minute < ?", before.Unix()},
	} {
		if _, err := conn.ExecContext(ctx, q.query, q.bound); err != nil {
			return err
		}
	}
	return nil
}

// AuditFilter chooses entries of a workspace. An empty field chooses all.
type AuditFilter struct {
	Workspace    string
	Since, Until time.Time
	By, Action   string
	Before       int64 // a seq: those before it
}

// Audit returns the newest entries that pass a filter, at most limit.
func (r *Reader) Audit(ctx context.Context, f *AuditFilter, limit int) ([]AuditEntry, error) {
	const all = int64(1<<63 - 1)
	since, until, before := int64(0), all, all
	if !f.Since.IsZero() {
		since = f.Since.UnixMilli()
	}
	if !f.Until.IsZero() {
		until = f.Until.UnixMilli()
	}
	if f.Before > 0 {
		before = f.Before
	}
	return collect(ctx, r.db, func(scan func(...any) error) (e AuditEntry, err error) {
		err = scan(&e.Seq, into{&e.Time}, &e.Workspace, &e.By, &e.Role, &e.From, &e.Action, &e.Subject, &e.Before, &e.After)
		e.Time = e.Time.UTC()
		return e, err
	}, `
SELECT seq, time_ms, workspace, visitor, role, address, action, subject, before, after FROM audit
WHERE seq < ?1 AND workspace = ?2 AND time_ms >= ?3 AND time_ms < ?4 AND (?5 = '' OR visitor = ?5) AND (?6 = '' OR action = ?6)
ORDER BY seq DESC LIMIT ?7`, before, f.Workspace, since, until, f.By, f.Action, limit)
}

// KeepKeyUses stores the minutes in which keys of a workspace were used last, by name.
func KeepKeyUses(ctx context.Context, path, workspace string, uses map[string]time.Time) error {
	return writeBeside(ctx, path, func(tx *sql.Tx) error {
		for name, at := range uses {
			if _, err := tx.ExecContext(ctx, "INSERT INTO key_uses VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET minute = max(minute, excluded.minute)", workspace, name, at.Unix()); err != nil {
				return err
			}
		}
		return nil
	})
}

// KeyUses returns the minutes in which keys of a workspace were used last, by name.
func (r *Reader) KeyUses(ctx context.Context, workspace string) (map[string]time.Time, error) {
	uses := make(map[string]time.Time)
	_, err := collect(ctx, r.db, func(scan func(...any) error) (_ struct{}, err error) {
		var name string
		var minute int64
		err = scan(&name, &minute)
		uses[name] = time.Unix(minute, 0).UTC()
		return struct{}{}, err
	}, "SELECT api_key, minute FROM key_uses WHERE workspace = ?", workspace)
	return uses, err
}
