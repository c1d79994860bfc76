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

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

const victimPath = "CADENZA_TEST_LIMITS"

func TestMain(m *testing.M) {
	if path := os.Getenv(victimPath); path != "" {
		victim(path)
	}
	goleak.VerifyTestMain(m)
}

var victims = limitOf("l", Ceiling{Tokens, 1 << 40, Month})

// victim makes calls until it is killed. It prints each step before and after it, to the
// standard output, which is not buffered.
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
				subject, taken := random.IntN(50), random.Int64N(1000)
				used := random.Int64N(taken + 1)
				fmt.Println("reserves", id, subject, taken)
				r, refusal := l.Reserve("w", time.Now(), []Ask{{victims, fmt.Sprint("s", subject)}}, Amounts{1, taken, 0})
				if refusal != nil {
					fmt.Println("failed", refusal)
					return
				}
				if l.Err() == nil { // the reservation is in the file
					fmt.Println("reserved", id, subject, taken)
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

// A process that is killed under load has counted each of its calls: the actual use if
// the call had ended, the whole amount set aside if it had not.
func TestKilledProcess(t *testing.T) {
	random := gatewaytest.Random(t)
	path := filepath.Join(t.TempDir(), "limits")
	var minimum, maximum [50]int64 // the use of each subject
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
		// The output is read to its end: the process may have printed more than it counted.
		type call struct {
			subject            int
			taken, used        int64
			reserved, settling bool
		}
		calls := make(map[string]*call)
		lines := bufio.NewScanner(output)
		kill := 2000 + random.IntN(8000)
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
		last := make(map[string]int) // the last printed call of each worker
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
			case i < last[fmt.Sprint(worker)]-1: // it ended, and later calls have been written
				minimum[c.subject] += c.used
				maximum[c.subject] += c.used
			case c.settling: // its end may be on the disk
				minimum[c.subject] += c.used
				maximum[c.subject] += c.taken
			case c.reserved:
				minimum[c.subject] += c.taken
				maximum[c.subject] += c.taken
			default:
				maximum[c.subject] += c.taken
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
		for subject := range minimum {
			s := l.AppendStandings(nil, "w", time.Now(), Ask{victims, fmt.Sprint("s", subject)})[0]
			if s.Used < minimum[subject] || s.Used > maximum[subject] || s.Reserved != 0 {
				t.Errorf("round %d: s%d has used %d and set %d aside, want %d to %d", round, subject, s.Used, s.Reserved, minimum[subject], maximum[subject])
			}
			minimum[subject], maximum[subject] = s.Used, s.Used
		}
		mustClose(t, l)
	}
	if crashed == 0 {
		t.Error("no call was cut off")
	}
}
