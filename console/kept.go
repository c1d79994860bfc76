package console

import (
	"maps"
	"net/url"
	"sync"
	"time"
)

// keptAnswers are answers that took long, by workspace and question.
type keptAnswers struct {
	lock    sync.Mutex
	answers map[string]keptAnswer
}

type keptAnswer struct {
	value     any
	at, until time.Time
}

const (
	// keepFrom is how long an answer must take to be kept.
	keepFrom = 100 * time.Millisecond
	// keepTimes is how many times as long as it took an answer is kept, up to keepMost: who
	// asks the same again and again uses a twentieth of a processor.
	keepTimes = 20
	keepMost  = time.Minute
)

// askSeldom asks as visit.ask, for sums that are made of every call of a month. It may return
// what another visitor was answered, and returns when that was asked.
func askSeldom[T any](v *visit, path string, query url.Values) (answer T, at time.Time, err error) {
	value, at, err := v.kept.answer(v.Visitor.Workspace+" "+path+"?"+query.Encode(), func() (any, error) {
		err := v.ask(path, query, &answer)
		return answer, err
	})
	return value.(T), at, err
}

// answer returns the answer to a question that is kept, or what ask returns, and when it was
// asked.
func (k *keptAnswers) answer(question string, ask func() (any, error)) (value any, at time.Time, err error) {
	at = time.Now()
	k.lock.Lock()
	maps.DeleteFunc(k.answers, func(_ string, a keptAnswer) bool { return at.After(a.until) })
	known, ok := k.answers[question]
	k.lock.Unlock()
	if ok {
		return known.value, known.at, nil
	}
	value, err = ask()
	if took := time.Since(at); err == nil && took >= keepFrom {
		k.lock.Lock()
		defer k.lock.Unlock()
		if k.answers == nil {
			k.answers = make(map[string]keptAnswer)
		}
		k.answers[question] = keptAnswer{value, at, at.Add(took + min(keepTimes*took, keepMost))}
	}
	return value, at, err
}

// forget has every question asked anew.
func (k *keptAnswers) forget() {
	k.lock.Lock()
	defer k.lock.Unlock()
	clear(k.answers)
}
