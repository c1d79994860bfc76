package rules

import (
	"time"

	"github.com/valyala/fastjson"
)

const (
	// maxExamples is how many contexts are tried for one finding.
	maxExamples = 200
	// exampleCost is what trying one takes, in steps.
	exampleCost = 30
)

// examples makes contexts of the classes to keep, until use is satisfied.
func (z *analyser) examples(keep func(*class) bool, use func(context string, at time.Time, b *Binding) bool) {
	choices := make([][]*class, len(z.axes))
	for i := range z.axes {
		x := &z.axes[i]
		var guess *class
		for j := range x.classes {
			c := &x.classes[j]
			if !keep(c) {
				continue
			}
			if c.known {
				choices[i] = append(choices[i], c)
			} else {
				guess = c
			}
		}
		if len(choices[i]) == 0 {
			if guess == nil {
				return
			}
			// What the class follows from (segments, expressions) may come out
			// right by the other fields; the caller checks.
			choices[i] = append(choices[i], guess)
		}
	}
	var b Binding
	tuple := make([]*class, len(z.axes))
	at := make([]int, len(choices))
	for range maxExamples {
		if z.left -= exampleCost; z.left < 0 {
			return
		}
		for i := range choices {
			tuple[i] = choices[i][at[i]]
		}
		context, now := z.context(tuple)
		v, err := fastjson.Parse(context)
		if err == nil && z.t.model.Bind(&b, v, now) == nil && b.hasContext && use(context, now, &b) {
			return
		}
		i := 0
		for ; i < len(at); i++ {
			if at[i]++; at[i] < len(choices[i]) {
				break
			}
			at[i] = 0
		}
		if i == len(at) {
			return
		}
	}
}

// context is a context with a value of each class, and the instant for it.
func (z *analyser) context(tuple []*class) (string, time.Time) {
	m := z.t.model
	now := z.a.Now
	values := make([]string, m.declared)
	for i, c := range tuple {
		switch slot := z.axes[i].slot; {
		case slot == m.nowSlot():
			if t, err := time.Parse(time.RFC3339Nano, c.witness); err == nil {
				now = t
			}
		case c.known && c.witness != "":
			values[slot] = c.witness
		}
	}
	return m.ContextJSON(values), now
}
