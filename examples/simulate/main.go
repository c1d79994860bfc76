// Command simulate plays customers against the running example, so that its experiment
// has something to read:
//
//	CADENZA_API_KEY=cadenza-demo-key-0001 go run ./examples/simulate
//
// Each customer asks which checkout to show, as an app does. Then a billing system reports
// what became of nine in ten. More of them pay with the new checkout than with the old one.
//
// The same seed plays the same customers, whose reports are stored once.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"time"
)

// The truth that the readout should find.
const (
	heardOf  = 0.90 // are reported on
	payOld   = 0.55 // of these pay, with the old checkout
	payNew   = 0.75 // with the new one
	complain = 0.06 // with either

	mostReports = 500 // of a batch
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Getenv("CADENZA_API_KEY"), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "simulate:", err)
		os.Exit(1)
	}
}

// run plays the customers that the arguments ask for, and says what it did.
func run(ctx context.Context, arguments []string, key string, out io.Writer) error {
	flags := flag.NewFlagSet("simulate", flag.ContinueOnError)
	flags.SetOutput(out)
	address := flags.String("address", "http://localhost:8080", "of the gateway")
	customers := flags.Int("customers", 2000, "how many are played")
	seed := flags.Uint64("seed", 4, "which customers")
	switch err := flags.Parse(arguments); {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	case key == "":
		return errors.New("set CADENZA_API_KEY to the key that the gateway runs with")
	}
	g := gateway{address: strings.TrimSuffix(*address, "/"), key: key}
	var shown, heard, paid [2]int // with the old checkout, and with the new one
	for i := range *customers {
		c := newCustomer(*seed, i)
		isNew, err := g.checkout(ctx, c.id)
		if err != nil {
			return err
		}
		arm := map[bool]int{true: 1}[isNew]
		shown[arm]++
		if c.heardOf {
			heard[arm]++
			if c.pays(isNew) {
				paid[arm]++
			}
			g.reports = append(g.reports, c.report(isNew))
		}
		if len(g.reports) == mostReports || len(g.reports) > 0 && i == *customers-1 {
			if err := g.send(ctx); err != nil {
				return err
			}
		}
	}
	for arm, name := range []string{"old", "new"} {
		fmt.Fprintf(out, "%s checkout: %d customers saw it, %d were heard of, %d paid\n", name, shown[arm], heard[arm], paid[arm])
	}
	fmt.Fprintf(out, `
The readout, in some seconds:
	caddy cadenza experiment new_checkout
	%s/console/experiments/new_checkout
`, g.address)
	return nil
}

// customer is one who is played. What it does is drawn before it is known what it sees.
type customer struct {
	id        string
	heardOf   bool
	temper    float64 // pays, if this is below the checkout's part of those who pay
	amount    float64 // US dollars, if it pays
	complains bool
}

// newCustomer draws a customer by its number.
func newCustomer(seed uint64, number int) customer {
	r := rand.New(rand.NewPCG(seed, uint64(number)))
	return customer{
		id:        fmt.Sprintf("c-%d-%d", seed, number),
		heardOf:   r.Float64() < heardOf,
		temper:    r.Float64(),
		amount:    math.Round(4000*math.Exp(0.5*r.NormFloat64())) / 100,
		complains: r.Float64() < complain,
	}
}

// pays reports whether a customer who saw the old checkout, or the new one, pays.
func (c *customer) pays(isNew bool) bool {
	if isNew {
		return c.temper < payNew
	}
	return c.temper < payOld
}

// report returns what is reported on a customer.
func (c *customer) report(isNew bool) map[string]any {
	values := map[string]float64{"paid": 0, "complained": 0}
	if c.pays(isNew) {
		values["paid"], values["amount"] = 1, c.amount
	}
	if c.complains {
		values["complained"] = 1
	}
	return map[string]any{"unit": map[string]string{"customer_id": c.id}, "values": values, "event_id": "simulated-" + c.id}
}

// gateway is the example that runs.
type gateway struct {
	address, key string
	reports      []map[string]any // that are not sent yet
}

// checkout asks whether a customer sees the new checkout.
func (g *gateway) checkout(ctx context.Context, customer string) (isNew bool, err error) {
	body := fmt.Appendf(nil, `{"keys":["new_checkout"],"context":{"environment":"production","plan":"pro","seats":12,"customer_id":%q}}`, customer)
	var answer map[string]struct {
		Value bool `json:"value"`
	}
	err = g.post(ctx, "/v1/remoteconfigs", "application/json", body, &answer)
	return answer["new_checkout"].Value, err
}

// send sends the reports as JSON lines.
func (g *gateway) send(ctx context.Context) error {
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	for _, report := range g.reports {
		if err := encoder.Encode(report); err != nil {
			return err
		}
	}
	g.reports = nil
	var answer struct {
		Failed int `json:"failed"`
	}
	if err := g.post(ctx, "/v1/metrics", "application/x-ndjson", lines.Bytes(), &answer); err != nil {
		return err
	}
	if answer.Failed > 0 {
		return fmt.Errorf("the gateway refused %d reports", answer.Failed)
	}
	return nil
}

// post sends a body, and decodes the answer.
func (g *gateway) post(ctx context.Context, path, contentType string, body []byte, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, g.address+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+g.key)
	request.Header.Set("Content-Type", contentType)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("is the example running? %w", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", path, response.Status, bytes.TrimSpace(text))
	}
	return json.Unmarshal(text, answer)
}
