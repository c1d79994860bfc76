package postgres_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/secret"
	"github.com/cadenza-gateway/cadenza/sinks/postgres"
)

// TestPasswordIsKnown checks that the gateway can remove the password from its
// records, and no other part of the connection string.
func TestPasswordIsKnown(t *testing.T) {
	const secretPart = "kn/own:pa@ss~1"
	dsn := "postgres://cadenza-user:" + url.QueryEscape(secretPart) + "@host.example/database-1"
	if _, err := postgres.New(postgres.Config{DSN: func() (string, error) { return dsn, nil }}); err != nil {
		t.Fatal(err)
	}
	got := secret.Known().Replace("it is "+secretPart+", in "+dsn, "-")
	if want := "it is -, in postgres://cadenza-user:-@host.example/database-1"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if strings.Contains(got, secretPart) {
		t.Error("the password is not known")
	}
}
