package console

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestKeptAnswers asks a question again and again, and expects the same answer for as long
// as it is kept.
func TestKeptAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		took, kept time.Duration
		err        error
	}{
		"at once":        {keepFrom - time.Millisecond, 0, nil},
		"a while":        {keepFrom, 20 * keepFrom, nil},
		"half a minute":  {30 * time.Second, time.Minute, nil},
		"long, in vain":  {30 * time.Second, 0, errors.New("away")},
		"long, an error": {keepFrom, 0, errors.New("away")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var k keptAnswers
				asked := 0
				check := func(question string, want int) time.Time {
					t.Helper()
					value, at, err := k.answer(question, func() (any, error) {
						time.Sleep(test.took)
						asked++
						return asked, test.err
					})
					if value != want || !errors.Is(err, test.err) {
						t.Errorf("the answer is %v, %v, not %d", value, err, want)
					}
					return at
				}
				began := time.Now()
				if at := check("a", 1); !at.Equal(began) {
					t.Errorf("the answer is of %v", at)
				}
				check("b", 2)
				if test.kept == 0 {
					check("a", 3)
					return
				}
				time.Sleep(test.kept - test.took) // a is as old as it gets
				if at := check("a", 1); !at.Equal(began) {
					t.Errorf("the kept answer is of %v", at)
				}
				time.Sleep(time.Nanosecond)
				check("b", 2) // is younger
				check("a", 3)
				check("a", 3)
				k.forget()
				check("a", 4)
			})
		})
	}
}
