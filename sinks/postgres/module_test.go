package postgres_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/cadenza-gateway/cadenza/sinks/postgres"
)

func TestCaddyfile(t *testing.T) {
	for _, c := range []struct{ name, text, want, failure string }{
		{"short", `postgres {env.DSN}`, `{"dsn":"{env.DSN}"}`, ""},
		{"whole", "postgres {file./run/dsn} {\n schema traces\n limits local\n}", `{"dsn":"{file./run/dsn}","schema":"traces","limits":"local"}`, ""},
		{"shared", "postgres {env.DSN} {\n limits shared\n}", `{"dsn":"{env.DSN}","limits":"shared"}`, ""},
		{"limits of nobody", "postgres {env.DSN} {\n limits none\n}", "", "limits takes one word, shared or local"},
		{"empty limits", "postgres {env.DSN} {\n limits \"\"\n}", "", "limits takes one word"},
		{"limits twice", "postgres {env.DSN} {\n limits local\n limits local\n}", "", "given twice"},
		{"nothing", `postgres`, "", "needs its connection string"},
		{"a literal", `postgres postgres://u:secret@h/d`, "", "must be a reference"},
		{"too much", `postgres {env.DSN} {env.DSN}`, "", "takes one argument"},
		{"twice", "postgres {env.DSN} {\n schema a\n schema b\n}", "", "given twice"},
		{"empty", "postgres {env.DSN} {\n schema \"\"\n}", "", "schema is empty"},
		{"unknown", "postgres {env.DSN} {\n table a\n}", "", `unrecognized postgres sink option "table", known: limits, schema`},
		{"misspelt", "postgres {env.DSN} {\n shema a\n}", "", `did you mean "schema"?`},
		{"too much in an option", "postgres {env.DSN} {\n schema a b\n}", "", "schema takes one name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var m postgres.Module
			err := m.UnmarshalCaddyfile(caddyfile.NewTestDispenser(c.text))
			if c.failure != "" {
				if err == nil || !strings.Contains(err.Error(), c.failure) || strings.Contains(err.Error(), "secret@") {
					t.Errorf("the error is %v, want one with %q", err, c.failure)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := json.Marshal(m); string(got) != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestProvision(t *testing.T) {
	t.Setenv("CADENZA_TEST_DSN", "postgres://u:"+password+"x%40y@h/d")
	t.Setenv("CADENZA_TEST_GOOD_DSN", "postgres://u:p@h/d")
	t.Setenv("CADENZA_TEST_EMPTY", "")
	for _, c := range []struct{ name, text, failure string }{
		{"good", `{"dsn":"{env.CADENZA_TEST_GOOD_DSN}"}`, ""},
		{"limits of its own", `{"dsn":"{env.CADENZA_TEST_GOOD_DSN}","limits":"local"}`, ""},
		{"no reference", `{}`, "must be a reference"},
		{"a literal", `{"dsn":"postgres://u:secret@h/d"}`, "must be a reference"},
		{"empty", `{"dsn":"{env.CADENZA_TEST_EMPTY}"}`, "{env.CADENZA_TEST_EMPTY} is empty"},
		{"no connection string", `{"dsn":"{env.CADENZA_TEST_DSN}"}`, "{env.CADENZA_TEST_DSN}: the connection string can't be read"},
		{"a bad schema", `{"dsn":"{env.CADENZA_TEST_GOOD_DSN}","schema":"pg_x"}`, `schema "pg_x"`},
		{"bad limits", `{"dsn":"{env.CADENZA_TEST_GOOD_DSN}","limits":"none"}`, `limits "none" must be shared or local`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var m postgres.Module
			if err := json.Unmarshal([]byte(c.text), &m); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
			defer cancel()
			err := m.Provision(ctx)
			if c.failure == "" {
				if err != nil {
					t.Fatal(err)
				}
				if !m.Shared() {
					t.Error("a database is not shared")
				}
				if local := m.Ledger("w") == nil; local != (m.Limits == "local") {
					t.Errorf("limits %q are local: %t", m.Limits, local)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.failure) {
				t.Fatalf("the error is %v, want one with %q", err, c.failure)
			}
			wantNoPassword(t, err)
		})
	}
}
