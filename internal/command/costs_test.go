package command

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
	"github.com/cadenza-gateway/cadenza/trace"
)

// TestCostsOfAStore reads the file of a store, without a gateway, while its gateway has
// it open. It has calls of two workspaces.
func TestCostsOfAStore(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "cadenza.db")
	store, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	defer store.Close()
	authority, err := trace.NewAuthority(make([]byte, 32), "default")
	must(t, err)
	call := func(at time.Time, workspace, model string, prompt, cached, completion int64) *trace.Record {
		return &trace.Record{
			ID: authority.New(trace.KindEndpoint, at), Time: at, Workspace: workspace, Kind: trace.KindEndpoint, Key: "chat",
			Attempts: []trace.Attempt{{
				Provider: "openai", Model: model, PromptTokens: prompt, CompletionTokens: completion, UsageDetails: trace.UsageDetails{CachedTokens: cached}, Cost: 0.25,
			}},
		}
	}
	first := time.Date(2026, 11, 1, 9, 0, 0, 0, time.UTC)
	if err := store.Commit(t.Context(), &recorder.Batch{Records: []*trace.Record{
		call(first, "default", "gpt-4o-mini", 600_000, 400_000, 60_000),
		call(first, "other", "gpt-4o-mini", 400_000, 0, 40_000),
		call(first, "other", "o3", 5000, 0, 500),
		call(first.Add(24*time.Hour), "default", "gpt-4o-mini", 1000, 0, 100),
	}}); err != nil {
		t.Fatal(err)
	}
	run := func(arguments ...string) (string, error) {
		var out bytes.Buffer
		err := gatewayCommand(context.Background(), &out, io.Discard, append(arguments, "--store", path)...)
		return out.String(), err
	}
	out, err := run("costs", "--by", "workspace,model", "--since", "2026-11-01")
	if rows := strings.Count(out, "\n"); err != nil || rows != 5 || !strings.Contains(out, "$1.00") {
		t.Errorf("%v:\n%s", err, out)
	}
	if out, err := run("costs", "-w", "other"); err != nil || !strings.Contains(out, "405000") {
		t.Errorf("%v:\n%s", err, out)
	}
	if _, err := run("costs", "-w", "nobody's"); err == nil || !strings.Contains(err.Error(), "default, other") {
		t.Error(err)
	}
	if _, err := run("costs", "--by", "colour"); err == nil {
		t.Error("it takes any --by")
	}
	// A report that nobody got is no report.
	broken, err := os.OpenFile(path, os.O_RDONLY, 0)
	must(t, err)
	defer broken.Close()
	if err := gatewayCommand(t.Context(), broken, io.Discard, "costs", "--store", path); err == nil {
		t.Error("no error where the output can't be written")
	}
}

// TestDollars is about amounts for people, which no one should have to read in powers of
// ten.
func TestDollars(t *testing.T) {
	t.Parallel()
	for amount, want := range map[float64]string{0: "", 0.000096: "$0.000096", 0.00012345: "$0.000123", 0.0125: "$0.0125", 0.3: "$0.3", 12_345.678: "$12345.68"} {
		if got := dollars(amount); got != want {
			t.Errorf("%v: %s, want %s", amount, got, want)
		}
	}
}
