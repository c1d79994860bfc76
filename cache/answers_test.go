package cache

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func newAnswers(t *testing.T) *Answers {
	t.Helper()
	a, err := NewAnswers(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

func answerOf(text string) *Answer {
	now := time.Now()
	return &Answer{Pieces: []string{text}, Provider: "p", Model: "m", Given: now, Expires: now.Add(time.Hour)}
}

func TestAnswerIsRemembered(t *testing.T) {
	a := newAnswers(t)
	ctx := context.Background()
	answer, lead, err := a.Ask(ctx, Question{1})
	if answer != nil || lead == nil || err != nil {
		t.Fatalf("an empty memory: %v %v %v", answer, lead, err)
	}
	lead.Answer(answerOf("one"))
	lead.Abandon() // too late to matter
	answer, lead, err = a.Ask(ctx, Question{1})
	if err != nil || lead != nil || answer == nil || answer.Pieces[0] != "one" {
		t.Errorf("the same question: %v %v %v", answer, lead, err)
	}
	if _, lead, _ := a.Ask(ctx, Question{2}); lead == nil {
		t.Error("another question has an answer")
	} else {
		lead.Abandon()
	}
}

// TestAnswerIsThereAtOnce asks each question again as soon as it was answered:
// the second request must not get the lead.
func TestAnswerIsThereAtOnce(t *testing.T) {
	a := newAnswers(t)
	for n := range 500 {
		question := Question{byte(n), byte(n >> 8), 1}
		_, lead, _ := a.Ask(t.Context(), question)
		lead.Answer(answerOf("answer"))
		if _, again, _ := a.Ask(t.Context(), question); again != nil {
			again.Abandon()
			t.Fatalf("question %d is asked again", n)
		}
	}
}

// TestAnswerExpires lets an answer expire.
func TestAnswerExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, err := NewAnswers(1 << 20)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		_, lead, _ := a.Ask(t.Context(), Question{1})
		lead.Answer(answerOf("one")) // for an hour
		time.Sleep(time.Hour - time.Minute)
		if answer, lead, _ := a.Ask(t.Context(), Question{1}); answer == nil {
			lead.Abandon()
			t.Error("the answer is forgotten before its time")
		}
		time.Sleep(2 * time.Minute)
		if answer, lead, _ := a.Ask(t.Context(), Question{1}); lead == nil {
			t.Errorf("an answer is given a minute after it expired: %v", answer)
		} else {
			lead.Abandon()
		}
	})
}

func TestExpiredAnswerIsAskedAgain(t *testing.T) {
	a := newAnswers(t)
	_, lead, _ := a.Ask(context.Background(), Question{1})
	expired := answerOf("old")
	expired.Expires = time.Now().Add(-time.Second)
	lead.Answer(expired)
	a.entries.Wait()
	if answer, lead, _ := a.Ask(context.Background(), Question{1}); lead == nil {
		t.Errorf("an expired answer is given: %v", answer)
	} else {
		lead.Abandon()
	}
}

func TestOneAsksForAll(t *testing.T) {
	a := newAnswers(t)
	var asked atomic.Int64
	var wait sync.WaitGroup
	for range 64 {
		wait.Go(func() {
			answer, lead, err := a.Ask(context.Background(), Question{3})
			if err != nil {
				t.Error(err)
				return
			}
			if lead != nil {
				n := asked.Add(1)
				time.Sleep(20 * time.Millisecond)
				if n == 1 {
					lead.Abandon() // the first one fails
					return
				}
				lead.Answer(answerOf(fmt.Sprint("answer ", n)))
				return
			}
			if answer.Pieces[0] != "answer 2" {
				t.Errorf("got %q", answer.Pieces[0])
			}
		})
	}
	wait.Wait()
	if n := asked.Load(); n != 2 {
		t.Errorf("%d asked, want the first, who failed, and one more", n)
	}
}

// TestWaitersGoOnWithoutAStalledLeader has the leader's caller stall, in one write
// or in many: a request that waits leads in its place. It goes on waiting for a
// model that is slow.
func TestWaitersGoOnWithoutAStalledLeader(t *testing.T) {
	for _, test := range []struct {
		name   string
		lead   func(*Lead)
		letGo  bool
		within time.Duration
	}{
		{"a write that stalls", func(l *Lead) { time.Sleep(time.Minute); l.Writing(); time.Sleep(time.Hour); l.Written() }, true, time.Minute + 2*maxHeld},
		{"writes that take a while each", func(l *Lead) {
			for range 100 {
				l.Writing()
				time.Sleep(maxHeld / 4)
				l.Written()
				time.Sleep(maxHeld)
			}
		}, true, 7 * maxHeld},
		{"writes that don't", func(l *Lead) {
			for range 1000 {
				l.Writing()
				time.Sleep(time.Microsecond)
				l.Written()
				time.Sleep(time.Second)
			}
		}, false, 0},
		{"a slow model", func(*Lead) { time.Sleep(time.Hour) }, false, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, err := NewAnswers(1 << 20)
				if err != nil {
					t.Fatal(err)
				}
				defer a.Close()
				began := time.Now()
				_, first, _ := a.Ask(t.Context(), Question{1})
				var wait sync.WaitGroup
				defer wait.Wait()
				wait.Go(func() {
					test.lead(first)
					expired := answerOf("of the first")
					expired.Expires = time.Now()
					first.Answer(expired)
				})
				answer, second, _ := a.Ask(t.Context(), Question{1})
				if test.letGo != (second != nil) || test.letGo != (answer == nil) {
					t.Fatalf("after %s: %v, %v", time.Since(began), answer, second)
				}
				if !test.letGo {
					return
				}
				if took := time.Since(began); took > test.within {
					t.Errorf("let go after %s", took)
				}
				// Later requests wait for the second leader, also after the first has
				// ended.
				for range 2 {
					wait.Go(func() {
						if answer, _, err := a.Ask(t.Context(), Question{1}); err != nil || answer == nil || answer.Pieces[0] != "of the second" {
							t.Errorf("got %v, %v", answer, err)
						}
					})
					time.Sleep(2 * time.Hour)
				}
				second.Answer(answerOf("of the second"))
			})
		})
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	a := newAnswers(t)
	_, lead, _ := a.Ask(context.Background(), Question{4})
	defer lead.Abandon()
	cause := errors.New("left")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	if answer, second, err := a.Ask(ctx, Question{4}); answer != nil || second != nil || !errors.Is(err, cause) {
		t.Errorf("%v %v %v", answer, second, err)
	}
}
