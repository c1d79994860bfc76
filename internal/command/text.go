package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/visible"
)

// millis returns a duration for people, or "" for nil.
func millis(ms *float64) string {
	switch {
	case ms == nil:
		return ""
	case *ms < 10:
		return strconv.FormatFloat(*ms, 'f', 2, 64) + " ms"
	case *ms < 10_000:
		return strconv.FormatFloat(*ms, 'f', 0, 64) + " ms"
	}
	return strconv.FormatFloat(*ms/1000, 'f', 1, 64) + " s"
}

// elapsed returns a duration for people, or "" for 0.
func elapsed(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return millis(new(float64(d) / float64(time.Millisecond)))
}

// timeText returns a time in the form of the gateway, or "" for the zero time.
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// dollars returns an amount for people, or "" for 0. Below a dollar it has three
// significant digits.
func dollars(amount float64) string {
	if amount == 0 {
		return ""
	}
	if amount < 1 {
		rounded, _ := strconv.ParseFloat(strconv.FormatFloat(amount, 'g', 3, 64), 64) // FormatFloat's text
		return "$" + strconv.FormatFloat(rounded, 'f', -1, 64)
	}
	return "$" + strconv.FormatFloat(amount, 'f', 2, 64)
}

// share returns a number with its share of all in percent, or "" for 0.
func share(n, all int64) string {
	if n == 0 || all == 0 {
		return ""
	}
	percent := 100 * float64(n) / float64(all)
	if percent >= 10 {
		return fmt.Sprintf("%d (%.0f %%)", n, percent)
	}
	return fmt.Sprintf("%d (%.2g %%)", n, percent)
}

// writeBlock writes a text below its title, and nothing for an empty text.
func writeBlock(b *bytes.Buffer, st styles, title, text string) {
	if text == "" {
		return
	}
	fmt.Fprintf(b, "\n%s%s%s\n", st.bold, title, st.reset)
	writeIndented(b, "  ", text)
}

// writeIndented writes a text with an indent before each line.
func writeIndented(b *bytes.Buffer, indent, text string) {
	for line := range strings.SplitSeq(strings.TrimRight(visible.Lines(text), "\n"), "\n") {
		b.WriteString(indent + line + "\n")
	}
}

// layoutContent lays a JSON object or list over several lines if it is longer
// than 100 bytes. It returns other text as it is.
func layoutContent(text []byte) string {
	const short = 100
	var b bytes.Buffer
	if len(text) <= short || text[0] != '{' && text[0] != '[' || json.Indent(&b, text, "", "  ") != nil {
		return string(text)
	}
	return b.String()
}
