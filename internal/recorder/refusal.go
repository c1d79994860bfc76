package recorder

import (
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	// MaxRefusalExamples is how many examples a refusal has, the newest.
	MaxRefusalExamples = 3

	// maxRefusals is how many refusals wait with subjects of their own. Others share
	// OtherSubjects.
	maxRefusals = 1000

	// refusalExampleEvery is the time after an example until the next one is kept: a
	// flood of refusals is counted, not shown.
	refusalExampleEvery = time.Second

	// Bounds of a subject and of an example's message, in bytes.
	maxRefusalSubject = 128
	maxRefusalMessage = 256
)

// OtherSubjects is the subject of refusals beyond the bounds of how many are counted
// apart.
const OtherSubjects = "*"

// RefusalID is the key by which the refusals of an hour are counted.
type RefusalID struct {
	Workspace string
	APIKey    string // its name
	Route     string
	Status    int
	Code      string
	Limit     string // empty: no limit refused
	Subject   string // of the limit
	Key       string // of the definition that was asked for; empty: of none that there is
}

// Refusal counts the requests of one kind that were refused before a call, in
// an hour.
type Refusal struct {
	RefusalID
	Hour     time.Time // its start
	Count    int64
	Last     time.Time
	Examples []RefusalExample // the newest first, MaxRefusalExamples at most
}

// RefusalExample is the error of one refused request, redacted and cut.
type RefusalExample struct {
	Time    time.Time `json:"time"`
	Message string    `json:"message"`
	Param   string    `json:"param,omitempty"`
}

// refusals holds the refusals that wait for the writer. They are apart from the queue,
// so that counting them delays no record.
type refusals struct {
	mu  sync.Mutex
	all map[refusalKey]*Refusal
}

type refusalKey struct {
	RefusalID
	hour int64 // Unix hours
}

// Refused counts a request that was refused before a call. Its subject and its message
// are redacted before they are kept. What waits for the store is bounded: beyond
// maxRefusals, new subjects are counted as OtherSubjects.
func (r *Recorder) Refused(id RefusalID, now time.Time, message, param string, redact func(string) string) {
	if r.queue.refusals.count(id, now, message, param, redact) {
		r.signal()
	}
}

// count reports whether the refusal is the first of its kind that waits.
func (q *refusals) count(id RefusalID, now time.Time, message, param string, redact func(string) string) (first bool) {
	subject := id.Subject
	id.Subject = cutText(subject, maxRefusalSubject)
	key := refusalKey{id, now.Unix() / 3600}
	q.mu.Lock()
	defer q.mu.Unlock()
	refusal := q.all[key]
	if refusal == nil && len(q.all) >= maxRefusals && id.Subject != "" {
		subject, key.Subject = OtherSubjects, OtherSubjects
		refusal = q.all[key]
	}
	if refusal == nil {
		if q.all == nil {
			q.all = make(map[refusalKey]*Refusal)
		}
		key.Subject = strings.Clone(key.Subject) // not all of a long one, nor a buffer that is used again
		refusal = &Refusal{RefusalID: key.RefusalID, Hour: time.Unix(key.hour*3600, 0)}
		refusal.Subject = strings.Clone(cutText(redact(subject), maxRefusalSubject))
		q.all[key] = refusal
		first = len(q.all) == 1
	}
	refusal.Count++
	refusal.Last = now
	if len(refusal.Examples) > 0 && now.Sub(refusal.Examples[0].Time) < refusalExampleEvery {
		return first
	}
	refusal.Examples = slices.Insert(refusal.Examples, 0, RefusalExample{
		Time: now, Message: strings.Clone(cutText(redact(message), maxRefusalMessage)), Param: strings.Clone(cutText(redact(param), maxRefusalMessage)),
	})
	refusal.Examples = refusal.Examples[:min(len(refusal.Examples), MaxRefusalExamples)]
	return first
}

// waiting returns how many refusals wait for the writer.
func (q *refusals) waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.all)
}

// take appends all that wait.
func (q *refusals) take(to []*Refusal) []*Refusal {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, refusal := range q.all {
		to = append(to, refusal)
	}
	clear(q.all)
	return to
}

// cutText returns the beginning of a text, at most so many bytes.
func cutText(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}
