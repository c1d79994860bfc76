package postgres

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/cadenza-gateway/cadenza/internal/postgrestest"
)

// TestCommitThatRolledBack commits a transaction in which a statement failed. The
// server takes the COMMIT, rolls back, and says so in nothing but the tag of its
// answer: what was delivered would be lost.
func TestCommitThatRolledBack(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	conn, err := pgx.Connect(t.Context(), server.NewDatabase("Commit"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	for statement, want := range map[string]error{"SELECT 1": nil, "SELECT 1/0": pgx.ErrTxCommitRollback} {
		s := &Sink{conn: conn}
		tx, err := s.begin(t.Context(), begin)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), statement); (err != nil) != (want != nil) {
			t.Fatalf("%s: %v", statement, err)
		}
		if err := tx.commit(t.Context()); !errors.Is(err, want) {
			t.Errorf("the commit after %s: %v, want %v", statement, err, want)
		}
	}
}
