package limit

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
)

const victimPath = "CADENZA_TEST_LIMITS"

func TestMain(m *testing.M) {
	if path := os.Getenv(victimPath); path != "" {
		victim(path)
	}
	goleak.VerifyTestMain(m)
}

var victims = limitOf("l", Ceiling{Tokens, 1 << 40, Month})

// victim makes calls until it is killed. It tells what it is about to do, and what it
// has done: the standard output is written at once.
func victim(path string) {
	l := Open(Options{Path: path})
	if err := l.Err(); err != nil {
		fmt.Println("failed", err)
		os.Exit(1)
	}
	for worker := range 8 {
		go func() {
			random := rand.New(rand.NewPCG(uint64(worker), uint64(time.Now().UnixNano())))
			for i := 0; ; i++ {
				id := fmt.Sprintf("%d-%d", worker, i)
				subject, most := random.IntN(50), random.Int64N(1000)
				used := random.Int64N(most + 1)
				fmt.Println("reserves", id, subject, most)
				r, refusal := l.Reserve("w", time.Now(), []Ask{{victims, fmt.Sprint("s", subject)}}, Amounts{1, most, 0})
				if refusal != nil {
					fmt.Println("failed", refusal)
					return
				}
				if l.Err() == nil { // it did not wait in vain
					fmt.Println("reserved", id, subject, most)
				}
				if random.IntN(4) == 0 {
					time.Sleep(time.Duration(random.IntN(3000)) * time.Microsecond)
				}
				fmt.Println("settles", id, subject, used)
				r.Settle(time.Now(), Amounts{1, used, 0})
			}
		}()
	}
	select {}
}

// A process that is killed under load has counted each call that it made: what it used
// where it had ended, all that it had set aside where it had not.
func TestKilledProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits")
	// What each subject has used at least and at most.
	var least, most [50]int64
	var crashed int64
	for round := range 4 {
		process := exec.CommandContext(t.Context(), os.Args[0])
		process.Env = append(os.Environ(), victimPath+"="+path)
		output, err := process.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := process.Start(); err != nil {
			t.Fatal(err)
		}
		// The output is read to its end: the process may have told more than it wrote.
		type call struct {
			subject            int
			taken, used        int64
			reserved, settling bool
		}
		calls := make(map[string]*call)
		lines := bufio.NewScanner(output)
		kill := 2000 + rand.IntN(8000)
		for n := 0; lines.Scan(); n++ {
			if n == kill {
				if err := process.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
			var word, id string
			var subject int
			var amount int64
			if _, err := fmt.Sscan(lines.Text(), &word, &id, &subject, &amount); err != nil {
				t.Fatalf("%q: %v", lines.Text(), err)
			}
			switch word {
			case "reserves":
				calls[id] = &call{subject: subject, taken: amount}
			case "reserved":
				calls[id].reserved = true
			case "settles":
				calls[id].settling, calls[id].used = true, amount
			default:
				t.Fatal(lines.Text())
			}
		}
		_ = process.Wait()           // it was killed
		last := make(map[string]int) // of each worker, the call that it told last
		for id := range calls {
			var worker, i int
			if _, err := fmt.Sscanf(id, "%d-%d", &worker, &i); err != nil {
				t.Fatal(err)
			}
			last[fmt.Sprint(worker)] = max(last[fmt.Sprint(worker)], i)
		}
		for id, c := range calls {
			var worker, i int
			_, _ = fmt.Sscanf(id, "%d-%d", &worker, &i)
			switch {
			case i < last[fmt.Sprint(worker)]-1: // it ended, and others have been written since
				least[c.subject] += c.used
				most[c.subject] += c.used
			case c.settling: // its end may be on the disk
				least[c.subject] += c.used
				most[c.subject] += c.taken
			case c.reserved:
				least[c.subject] += c.taken
				most[c.subject] += c.taken
			default:
				most[c.subject] += c.taken
			}
		}
		l := filed(t, path)
		if err := l.Err(); err != nil {
			t.Fatal(err)
		}
		s := l.Stats()
		if s.Damaged != 0 || s.Crashed > 16 {
			t.Errorf("%+v", s)
		}
		crashed += s.Crashed
		for subject := range least {
			s := l.AppendStandings(nil, "w", time.Now(), Ask{victims, fmt.Sprint("s", subject)})[0]
			if s.Used < least[subject] || s.Used > most[subject] || s.Reserved != 0 {
				t.Errorf("round %d: s%d has used %d and set %d aside, want %d to %d", round, subject, s.Used, s.Reserved, least[subject], most[subject])
			}
			least[subject], most[subject] = s.Used, s.Used
		}
		mustClose(t, l)
	}
	if crashed == 0 {
		t.Error("no call was cut off")
	}
}
