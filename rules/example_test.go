package rules_test

import (
	"fmt"
	"log"
	"time"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/rules"
)

// compile reads a data model and a table that are right.
func compile(table string) (*rules.Model, *rules.Table) {
	model, err := rules.ParseModel("context.yaml", []byte(`
fields:
  environment: { type: string, values: [production, staging] }
  plan:        { type: string, values: [free, pro, enterprise] }
  seats:       { type: number, min: 1 }
`))
	if err != nil {
		log.Fatal(err)
	}
	t, err := rules.ParseTable(model, "limits.yaml", []byte(table), rules.Options{Key: "limits"})
	if err != nil {
		log.Fatal(err)
	}
	return model, t
}

// bind binds a context that the model accepts.
func bind(model *rules.Model, context string) *rules.Binding {
	var b rules.Binding
	if err := model.Bind(&b, fastjson.MustParse(context), time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)); err != nil {
		log.Fatal(err)
	}
	return &b
}

const limits = `
columns: [environment, plan, seats, value]
matrix:
  - [production, enterprise, any,     6000]
  - [production, pro,        10..<50, 600]
  - [any,        not free,   any,     300]
`

func Example() {
	model, table := compile(limits)
	for _, context := range []string{
		`{"environment":"production","plan":"pro","seats":25}`,
		`{"environment":"production","plan":"pro","seats":"50"}`,
		`{"environment":"production"}`,
		`{}`,
	} {
		switch d := table.Evaluate(bind(model, context)); {
		case d.Row >= 0:
			fmt.Println(table.Rows()[d.Row].ID, "answers", table.Outcomes()[d.Outcome].Text)
		default:
			fmt.Println("the default answers:", d.Reason)
		}
	}
	// Output:
	// row 2 answers 600
	// row 3 answers 300
	// the default answers: default
	// the default answers: no_context
}

func ExampleTable_Explain() {
	model, table := compile(limits)
	explanation := table.Explain(bind(model, `{"environment":"production","plan":"pro","seats":50}`))
	fmt.Println(explanation)
	for _, row := range explanation.Rows {
		fmt.Println(row)
	}
	// Output:
	// row 3: match
	// row 1: plan must be enterprise, is "pro"
	// row 2: seats must be 10..<50, is 50
	// row 3: matches
}

func ExampleTable_Analyse() {
	_, table := compile(`
columns: [environment, plan, value]
matrix:
  - [any,        [pro, enterprise], 600]
  - [production, enterprise,        6000]
`)
	for _, finding := range table.Analyse(rules.Analysis{Now: time.Now()}) {
		fmt.Printf("%s: %s: %s\n", finding.Pos, finding.Kind, finding.Message)
	}
	// Output:
	// limits.yaml:5:5: unreachable: row 2 is never reached: row 1 above matches all that it matches
}

func ExampleParseTable() {
	model, _ := compile("")
	_, err := rules.ParseTable(model, "limits.yaml", []byte(`
columns: [plan, seats, value]
matrix:
  - [premium, 10..5, 1]
`), rules.Options{Key: "limits"})
	fmt.Println(err)
	// Output:
	// limits.yaml:4:6: "premium" is not one of the values of plan (known: free, pro, enterprise)
	// limits.yaml:4:15: the range 10..5 is empty: nothing lies from 10 to 5
}
