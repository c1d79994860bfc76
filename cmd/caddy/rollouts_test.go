package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
	"github.com/cadenza-gateway/cadenza/internal/postgrestest"
	"github.com/cadenza-gateway/cadenza/internal/rollout"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
)

// guardedButton is a configuration that is rolled out to half of the customers at first.
const guardedButton = `type: string
default: plain
rules:
  - id: colours
    split: { by: customer, guard: { new: green, control: blue, steps: [50%, 100%], every: 1h, need: 300 units, stop: [ { value: broken, as: rate, ratio: 1.2 } ] } }
`

// rolloutCaddyfile writes the button, and a Caddyfile that serves it.
func rolloutCaddyfile(t *testing.T, with ...string) (caddyfile string) {
	t.Helper()
	dir := t.TempDir()
	caddyfile = filepath.Join(dir, "Caddyfile")
	with = append(with, "{$CADENZA_ROOT}/examples/definitions", filepath.ToSlash(dir)+"/definitions")
	for name, text := range map[string]string{
		"Caddyfile":                             strings.NewReplacer(with...).Replace(fleetCaddyfile),
		"definitions/context.yaml":              "fields: { customer: { type: string } }\n",
		"definitions/remoteconfigs/button.yaml": guardedButton,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return caddyfile
}

// rolloutClient makes a connection for each request: a reload closes those of before.
var rolloutClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: gatewaytest.Patience}

// button asks for a customer's button. It fails while the gateway does not answer.
func (p *process) button(customer int) (colour, trace string, err error) {
	status, _, text, err := post(context.Background(), rolloutClient, p.url+"/v1/remoteconfigs", fmt.Sprintf(`{"keys":["button"],"context":{"customer":"c-%d"}}`, customer))
	if err != nil {
		return "", "", err
	}
	var answer map[string]struct {
		Value   string
		TraceID string `json:"trace_id"`
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil || status != http.StatusOK {
		return "", "", fmt.Errorf("%d %s", status, text)
	}
	return answer["button"].Value, answer["button"].TraceID, nil
}

const (
	buttonRollout = "remoteconfigs/button/colours"
	buttonPath    = "/cadenza/rollouts/remoteconfigs%2Fbutton%2Fcolours"
)

// buttonStanding returns how the button's rollout stands.
func (p *process) buttonStanding() (s struct {
	Row      int64
	State    rollout.State
	Share    int
	Says     string
	Evidence *rollout.Evidence
}) {
	p.t.Helper()
	response, err := http.Get("http://" + p.admin + buttonPath)
	if err != nil {
		p.t.Fatalf("%v\n%s", err, p.output)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(&s); err != nil {
		p.t.Fatal(err)
	}
	return s
}

// serves waits until the gateway answers by a row, and returns how long that took.
func (p *process) serves(row int64) time.Duration {
	p.t.Helper()
	began := time.Now()
	p.eventually(fmt.Sprintf("it answers by row %d", row), func() bool { return p.buttonStanding().Row == row })
	return time.Since(began)
}

// newCustomer waits until somebody has the new button, and returns who that is.
func (p *process) newCustomer() (customer int) {
	p.t.Helper()
	p.eventually("the rollout begins", func() bool {
		customer = (customer + 1) % 10
		colour, _, err := p.button(customer)
		if err != nil {
			p.t.Fatalf("%v\n%s", err, p.output)
		}
		return colour == "green"
	})
	return customer
}

// askRollout does what a person asks of the button's rollout, and returns the row's number.
func (p *process) askRollout(kind rollout.Kind) (row int, err error) {
	response, err := http.Post("http://"+p.admin+buttonPath, "application/json", strings.NewReader(fmt.Sprintf(`{"do":%q,"by":"ada"}`, kind)))
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err
	}
	var answer struct{ Row int }
	if err := json.Unmarshal(text, &answer); err != nil || response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%d %s", response.StatusCode, text)
	}
	return answer.Row, nil
}

func (p *process) mustAskRollout(kind rollout.Kind) {
	p.t.Helper()
	if _, err := p.askRollout(kind); err != nil {
		p.t.Fatalf("%s: %v\n%s", kind, err, p.output)
	}
}

// reload gives the running gateway its Caddyfile again.
func (p *process) reload(caddyfile string) {
	p.t.Helper()
	again := *p
	again.run("reload", "--force", "--config", caddyfile, "--adapter", "caddyfile", "--address", p.admin)
	<-again.exited
	if code := again.command.ProcessState.ExitCode(); code != 0 {
		p.t.Errorf("reload: %d %s", code, again.output)
	}
}

// goroutines counts the goroutines of the process.
func (p *process) goroutines() int {
	p.t.Helper()
	response, err := http.Get("http://" + p.admin + "/debug/pprof/goroutine?debug=1")
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	found := regexp.MustCompile(`total (\d+)`).FindSubmatch(text)
	if err != nil || found == nil {
		p.t.Fatalf("%v %s", err, text)
	}
	n, _ := strconv.Atoi(string(found[1]))
	return n
}

// onlooker has the colours that customers saw at a gateway, in order.
type onlooker struct {
	mu     sync.Mutex
	saw    []sighting
	failed []string
}

type sighting struct {
	customer int
	colour   string
	at       time.Time
}

// watch asks for customers' buttons until ctx is done. Of a gateway that is killed some
// requests fail.
func (w *onlooker) watch(ctx context.Context, p *process, customers []int) {
	for i := 0; ctx.Err() == nil; i++ {
		customer := customers[i%len(customers)]
		colour, _, err := p.button(customer)
		w.mu.Lock()
		if err == nil {
			w.saw = append(w.saw, sighting{customer, colour, time.Now()})
		} else {
			w.failed = append(w.failed, err.Error())
		}
		w.mu.Unlock()
		time.Sleep(10 * time.Millisecond)
	}
}

// so returns how many answers there were, and which requests failed.
func (w *onlooker) so() (answers int, failed []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.saw), w.failed
}

// more waits for more answers.
func (w *onlooker) more(p *process, n int) {
	p.t.Helper()
	before, _ := w.so()
	p.eventually("it goes on answering", func() bool {
		now, _ := w.so()
		return now >= before+n
	})
}

// colourBy returns the colour of a customer of the new or of the control's half by a row.
func colourBy(share int, half string) string {
	switch share {
	case 0:
		return "blue"
	case rollout.Whole:
		return "green"
	}
	return half
}

// explained reports an answer that the rows don't explain: those of a gateway are by rows that
// were there, and never by an earlier one again, whatever happened to it.
func (w *onlooker) explained(rows []rollout.Row, halves map[int]string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	by := 0 // the index of the row
	for i, saw := range w.saw {
		for by < len(rows) && colourBy(rows[by].Share, halves[saw.customer]) != saw.colour {
			by++
		}
		if by == len(rows) || rows[by].Time.After(saw.at) {
			return fmt.Errorf("answer %d of %d, to customer %d of the half %s at %s, is %s, and no row from then says so", i+1, len(w.saw), saw.customer, halves[saw.customer], saw.at.UTC().Format(time.RFC3339Nano), saw.colour)
		}
	}
	return nil
}

// mustRows returns the rows that a gateway's disk has, which are numbered without gaps.
func mustRows(t *testing.T, data string) []rollout.Row {
	t.Helper()
	rows, err := sqlite.StoredRollouts(t.Context(), filepath.Join(data, "cadenza.db"), "default")
	if err != nil {
		t.Fatal(err)
	}
	for i, row := range rows {
		if row.Number != int64(i)+1 || row.Rollout != buttonRollout || i > 0 && !row.Time.After(rows[i-1].Time) {
			t.Fatalf("row %d is %+v", i+1, row)
		}
	}
	return rows
}

// TestFleetRollsOut has two gateways that share a rollout through PostgreSQL, while customers
// ask both. Harm stops both. They are killed and reloaded, and the database goes away and comes
// back: no step is lost, repeated or skipped, and what customers see is what the rows say.
func TestFleetRollsOut(t *testing.T) {
	t.Parallel()
	server, caddyfile := postgrestest.Start(t), rolloutCaddyfile(t)
	data := []string{t.TempDir(), t.TempDir()}
	var nodes [2]*process
	for i := range nodes {
		nodes[i] = newProcess(t, data[i], "CADENZA_TRACE_KEY=a-key-that-all-of-the-fleet-has", "CADENZA_TEST_DATABASE="+server.DSN())
		nodes[i].startWith(caddyfile)
	}
	a, b := nodes[0], nodes[1]
	const customers = 400
	for _, node := range nodes {
		node.newCustomer()
	}
	halves, count := make(map[int]string), make(map[string]int)
	for customer := range customers {
		node := nodes[customer%2]
		colour, trace, err := node.button(customer)
		if err != nil {
			t.Fatal(err)
		}
		halves[customer] = colour
		count[colour]++
		if other, _, err := nodes[1-customer%2].button(customer); other != colour {
			t.Fatalf("customer %d sees %s and %s: %v", customer, colour, other, err)
		}
		if colour == "green" {
			if status, _, text, err := post(t.Context(), http.DefaultClient, node.url+"/v1/metrics", fmt.Sprintf(`{"trace_id":%q,"values":{"broken":1}}`, trace)); status != http.StatusOK {
				t.Fatal(status, text, err)
			}
		}
	}
	if count["green"] < customers/3 || count["blue"] < customers/3 {
		t.Fatal(count)
	}
	began := time.Now()
	a.serves(2)
	b.serves(2)
	took := time.Since(began)
	t.Logf("harm stopped both after %v", took)
	if took > 15*time.Second { // 5 s where the machine is not busy
		t.Errorf("harm stopped both after %v", took)
	}
	for _, node := range nodes {
		if s := node.buttonStanding(); s.State != rollout.Held || s.Share != rollout.Half {
			t.Errorf("%+v", s)
		}
	}

	ctx, stop := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	var saw [2]onlooker
	watched := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
	for i := range nodes {
		watching.Go(func() { saw[i].watch(ctx, nodes[i], watched) })
	}
	defer watching.Wait()
	defer stop()
	crash := func(i int) { // its first answers are among those of which explained asks
		nodes[i].kill()
		nodes[i].startWith(caddyfile)
		saw[i].more(nodes[i], 2*len(watched))
	}
	reload := func(i int) {
		_, before := saw[i].so()
		nodes[i].reload(caddyfile)
		saw[i].more(nodes[i], 2*len(watched))
		_, failed := saw[i].so()
		for _, text := range failed[len(before):] {
			if !strings.HasPrefix(text, "Post ") { // Caddy may close a connection that it has just accepted
				t.Errorf("during a reload: %s\n%s", text, nodes[i].output)
			}
		}
	}
	saw[0].more(a, len(watched))
	saw[1].more(b, len(watched))

	a.mustAskRollout(rollout.Back)
	b.serves(3)
	crash(1)
	b.mustAskRollout(rollout.Resume)
	t.Logf("the other gateway resumed after %v", a.serves(4))
	connections := func() (n int) {
		db, err := pgx.Connect(t.Context(), server.DSN())
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close(context.Background())
		if err := db.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE datname = 'postgres' AND pid <> pg_backend_pid()").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	reload(0)
	connected, running := connections(), a.goroutines()
	for range 3 {
		reload(0)
	}
	a.eventually("what was before the reloads has ended", func() bool { return connections() <= connected && a.goroutines() <= running+10 })

	server.Stop()
	a.eventually("it says that its rows are away", func() bool { return strings.Contains(a.buttonStanding().Says, "out of reach") })
	if row, err := a.askRollout(rollout.Finish); err == nil {
		t.Errorf("row %d was added without the database", row)
	}
	crash(0)
	reload(1)
	for _, node := range nodes {
		if s := node.buttonStanding(); s.Row != 4 || s.State != rollout.Running {
			t.Errorf("without the database: %+v", s)
		}
	}
	server.Restart()
	a.eventually("a person can ask again", func() bool {
		_, err := a.askRollout(rollout.Finish)
		return err == nil
	})
	t.Logf("the other gateway finished after %v", b.serves(5))
	crash(1)
	stop()
	watching.Wait()

	rows := mustRows(t, data[0])
	var kinds []rollout.Kind
	for _, row := range rows {
		kinds = append(kinds, row.Kind)
	}
	if want := []rollout.Kind{rollout.Start, rollout.Hold, rollout.Back, rollout.Resume, rollout.Finish}; !slices.Equal(kinds, want) {
		t.Fatalf("the rows are %v, want %v", kinds, want)
	}
	if e := rows[1].Evidence; e == nil || !e.Harm() || e.Units > int64(count["green"]) || e.Control > int64(count["blue"]) {
		t.Errorf("the hold is by %+v", e)
	}
	if other := mustRows(t, data[1]); len(other) != len(rows) {
		t.Errorf("the other disk has %d rows", len(other))
	}
	for i := range nodes {
		answers, failed := saw[i].so()
		t.Logf("%d answers, %d requests failed", answers, len(failed))
		if err := saw[i].explained(rows, halves); err != nil {
			t.Errorf("gateway %d: %v", i, err)
		}
	}
}

// TestCrashKeepsRollouts kills a gateway while a person takes a rollout back and resumes it
// again and again. No row that was answered is lost, none is there twice, and the first answer
// after the crash is by the last of them.
func TestCrashKeepsRollouts(t *testing.T) {
	t.Parallel()
	data, caddyfile := t.TempDir(), rolloutCaddyfile(t, "		sink postgres {env.CADENZA_TEST_DATABASE}\n", "")
	p := newProcess(t, data, "CADENZA_TRACE_KEY=a-key-that-all-of-the-fleet-has")
	p.startWith(caddyfile)
	customer := p.newCustomer()
	rounds, random, asked := max(crashRounds(t)/4, 1), gatewaytest.Random(t), 1
	for round := range rounds {
		done := make(chan int)
		go func() {
			last := 0
			for _, kind := range slices.Repeat([]rollout.Kind{rollout.Back, rollout.Resume}, 1000) {
				row, err := p.askRollout(kind)
				switch {
				case err == nil:
					last = row
				case strings.HasPrefix(err.Error(), "409"): // it is so since before the crash
				default:
					done <- last
					return
				}
			}
			done <- last
		}()
		time.Sleep(time.Duration(random.Int64N(int64(300 * time.Millisecond))))
		p.kill()
		asked = max(asked, <-done)
		rows := mustRows(t, data)
		if len(rows) < asked {
			t.Fatalf("round %d: %d rows are left, %d were answered", round+1, len(rows), asked)
		}
		want := colourBy(rows[len(rows)-1].Share, "green")
		p.run("run", "--config", caddyfile, "--adapter", "caddyfile")
		first := ""
		p.eventually("the gateway answers", func() (answered bool) {
			colour, _, err := p.button(customer)
			first = colour
			return err == nil
		})
		if first != want {
			t.Errorf("round %d: the first answer is %s, by row %d of %d it is %s", round+1, first, len(rows), len(rows), want)
		}
		p.eventually("its admin API answers", func() bool { return !p.beginning() })
	}
	t.Logf("%d rounds, %d rows", rounds, len(mustRows(t, data)))
	if asked < 2 {
		t.Error("no row was answered")
	}
}
