package sqlite

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/internal/rollout"
)

// rolloutRow returns a row whose kind is recognizable.
func rolloutRow(name string, number int64, kind rollout.Kind) rollout.Row {
	return rollout.Row{Rollout: name, Number: number, Time: buttonStart.Add(time.Duration(number) * time.Hour), Kind: kind, Share: int(number) * 1000, Edition: "e1"}
}

func mustRollouts(t testing.TB, path, workspace string) *Rollouts {
	t.Helper()
	l := NewRollouts(path, workspace)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func mustAdd(t testing.TB, l *Rollouts, rows ...rollout.Row) {
	t.Helper()
	for i := range rows {
		if added, err := l.Add(t.Context(), &rows[i]); !added || err != nil {
			t.Fatal(rows[i], added, err)
		}
	}
}

func wantRows(t testing.TB, l *Rollouts, known map[string]int64, want ...rollout.Row) {
	t.Helper()
	got, err := l.Rows(t.Context(), known)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestRolloutRows: a row is there whole, for its workspace alone, and a number is given once.
func TestRolloutRows(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	l := mustRollouts(t, s.path, "default")
	const odd = `a.b/"c" \d$é`
	start, step, other := rolloutRow("b", 1, rollout.Start), rolloutRow("b", 2, rollout.Step), rolloutRow(odd, 1, rollout.Start)
	step.By, step.Why = "gateway", "The step's time is over."
	step.Evidence = &rollout.Evidence{Since: buttonStart, Through: buttonStart.Add(time.Minute), Units: 7, Mismatch: true,
		Guards: []rollout.Guard{{Name: "error", Ratio: 1.2, New: new(0.1), Strength: 1.0 / 3, Says: "It waits."}}}
	mustAdd(t, l, start, step, other)
	again := step
	again.Kind, again.Why = rollout.Hold, "Another was first."
	if added, err := l.Add(t.Context(), &again); added || err != nil {
		t.Error(added, err)
	}
	wantRows(t, l, nil, other, start, step)
	wantRows(t, l, map[string]int64{odd: 1, "b": 1}, step)
	wantRows(t, l, map[string]int64{odd: 1, "b": 2})
	wantRows(t, mustRollouts(t, s.path, "other"), nil)
	stored, err := StoredRollouts(t.Context(), s.path, "default")
	if diff := cmp.Diff([]rollout.Row{other, start, step}, stored); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

// TestRolloutRowsOfNoFile: before a gateway has made the file, or the table, there are no rows
// to begin with, and none can be added to no file.
func TestRolloutRowsOfNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	none := func(when string) {
		t.Helper()
		if rows, err := StoredRollouts(t.Context(), path, "default"); rows != nil || err != nil {
			t.Error(when, rows, err)
		}
	}
	none("no file")
	l, row := mustRollouts(t, path, "default"), rolloutRow("b", 1, rollout.Start)
	if added, err := l.Add(t.Context(), &row); added || err == nil {
		t.Error("a row was added to no file")
	}
	none("no file was made")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	none("an empty file")
	s := mustOpen(t, Config{Path: path})
	if _, err := s.conn.ExecContext(t.Context(), "DROP TABLE rollout_rows"); err != nil { // as an earlier version made it
		t.Fatal(err)
	}
	none("no table")
	mustAdd(t, l, row)
	wantRows(t, l, nil, row)
	if _, err := s.conn.ExecContext(t.Context(), "DROP TABLE rollout_rows"); err != nil {
		t.Fatal(err)
	}
	again := mustOpen(t, Config{Path: path})
	if n, err := queryInt(t.Context(), again.conn, "SELECT count(*) FROM rollout_rows"); n != 0 || err != nil {
		t.Error(n, err)
	}
}

// TestRolloutsAreReplaced: rows of a fleet take the place of different ones, and of those that
// came after these.
func TestRolloutsAreReplaced(t *testing.T) {
	row := rolloutRow
	back := row("b", 2, rollout.Back)
	for name, c := range map[string]struct{ local, fleet, want []rollout.Row }{
		"a new one":         {[]rollout.Row{row("b", 1, rollout.Start)}, []rollout.Row{row("b", 2, rollout.Step)}, []rollout.Row{row("b", 1, rollout.Start), row("b", 2, rollout.Step)}},
		"the same ones":     {[]rollout.Row{row("b", 1, rollout.Start), row("b", 2, rollout.Step)}, []rollout.Row{row("b", 1, rollout.Start)}, []rollout.Row{row("b", 1, rollout.Start), row("b", 2, rollout.Step)}},
		"different ones":    {[]rollout.Row{row("b", 1, rollout.Start), row("b", 2, rollout.Step), row("b", 3, rollout.Step)}, []rollout.Row{row("b", 1, rollout.Start), back}, []rollout.Row{row("b", 1, rollout.Start), back}},
		"of another, too":   {[]rollout.Row{row("a", 1, rollout.Start), row("b", 2, rollout.Step)}, []rollout.Row{back}, []rollout.Row{row("a", 1, rollout.Start), back}},
		"more than it had":  {[]rollout.Row{row("b", 1, rollout.Start), row("b", 2, rollout.Step)}, []rollout.Row{back, row("b", 3, rollout.Resume)}, []rollout.Row{row("b", 1, rollout.Start), back, row("b", 3, rollout.Resume)}},
		"none of the fleet": {[]rollout.Row{row("b", 1, rollout.Start)}, nil, []rollout.Row{row("b", 1, rollout.Start)}},
	} {
		t.Run(name, func(t *testing.T) {
			s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
			l := mustRollouts(t, s.path, "default")
			mustAdd(t, mustRollouts(t, s.path, "other"), row("b", 3, rollout.Start))
			mustAdd(t, l, c.local...)
			if err := l.Replace(t.Context(), c.fleet); err != nil {
				t.Fatal(err)
			}
			wantRows(t, l, nil, c.want...)
			wantRows(t, mustRollouts(t, s.path, "other"), nil, row("b", 3, rollout.Start))
		})
	}
}

// TestRolloutsOfADamagedFile: the file that takes the place of a damaged one has the rows that
// can be read, and they go on there.
func TestRolloutsOfADamagedFile(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	l := mustRollouts(t, s.path, "default")
	rows := []rollout.Row{rolloutRow("b", 1, rollout.Start), rolloutRow("b", 2, rollout.Step)}
	rows[1].Evidence = &rollout.Evidence{Units: 3}
	mustAdd(t, l, rows...)
	s.shared.found(s.file, errCheckFailed)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if aside, err := filepath.Glob(s.path + ".corrupt-*"); len(aside) == 0 || err != nil {
		t.Fatal("the file was not set aside", err)
	}
	wantRows(t, l, nil, rows...)
	rows = append(rows, rolloutRow("b", 3, rollout.Step))
	mustAdd(t, l, rows[2])
	wantRows(t, mustRollouts(t, s.path, "default"), nil, rows...)
}

// rolloutChild names, in the environment of a child of the tests, the file to whose rollout
// it adds rows until it is killed.
const rolloutChild = "CADENZA_TEST_ROLLOUT_FILE"

// addUntilKilled adds the next row again and again, and prints the numbers of those that it
// added.
func addUntilKilled(path string) error {
	l := NewRollouts(path, "default")
	known := map[string]int64{"b": 0}
	for {
		rows, err := l.Rows(context.Background(), known)
		if err != nil {
			return err
		}
		known["b"] += int64(len(rows))
		row := rolloutRow("b", known["b"]+1, rollout.Step)
		row.By = fmt.Sprint(os.Getpid())
		added, err := l.Add(context.Background(), &row)
		if err != nil {
			return err
		}
		if added {
			fmt.Println(row.Number)
		}
	}
}

// TestRolloutRowsOfTwoProcesses: of two processes that add the same numbers, and are killed at
// any moment, each number has the row of one, and none is lost that one was told it added.
func TestRolloutRowsOfTwoProcesses(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	added := map[string]string{} // the process, by number
	for range 4 {
		var children []*exec.Cmd
		var mu sync.Mutex
		var once sync.Once
		first := make(chan struct{})
		var reading sync.WaitGroup
		for range 2 {
			child := exec.Command(os.Args[0], "-test.run=^$")
			child.Env = append(os.Environ(), rolloutChild+"="+s.path)
			child.Stderr = os.Stderr
			output, err := child.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := child.Start(); err != nil {
				t.Fatal(err)
			}
			children = append(children, child)
			reading.Go(func() {
				for lines := bufio.NewScanner(output); lines.Scan(); {
					mu.Lock()
					if by, twice := added[lines.Text()]; twice {
						t.Errorf("row %s was added by %s, and again", lines.Text(), by)
					}
					added[lines.Text()] = fmt.Sprint(child.Process.Pid)
					mu.Unlock()
					once.Do(func() { close(first) })
				}
				once.Do(func() { close(first) }) // it failed
			})
		}
		<-first
		time.Sleep(rand.N(120 * time.Millisecond)) // at any moment
		for _, child := range children {
			_ = child.Process.Kill()
		}
		reading.Wait()
		for _, child := range children {
			_ = child.Wait()
		}
	}
	rows, err := StoredRollouts(t.Context(), s.path, "default")
	if err != nil {
		t.Fatal(err)
	}
	for i, row := range rows {
		by, told := added[fmt.Sprint(row.Number)]
		if row.Number != int64(i)+1 || told && by != row.By {
			t.Errorf("place %d has row %d of %s, which %q added", i, row.Number, row.By, by)
		}
		delete(added, fmt.Sprint(row.Number))
	}
	if len(added) > 0 || len(rows) == 0 {
		t.Errorf("%d of %d rows are lost", len(added), len(rows))
	}
	t.Logf("%d rows", len(rows))
}
