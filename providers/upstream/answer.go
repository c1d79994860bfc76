package upstream

import (
	"bytes"
	"errors"
	"io"
	"time"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/providers"
)

// Answer is the half that the streams of all wire formats share. A stream
// embeds it, or EventAnswer, and has three methods of its own: Result, Step, and
// Next, which returns Lookahead.Next of the stream.
type Answer struct {
	Call
	Lookahead Lookahead
	Body      Body

	linger *time.Timer
}

// NewAnswer makes the answer to a call, whose body it closes.
func NewAnswer(k Call, body io.ReadCloser) Answer {
	return Answer{Call: k, Body: NewBody(body)}
}

// Linger ends the reading of the body after a time, for an answer of which only
// something that may be missing is to come. Another call puts the end off.
func (a *Answer) Linger(d time.Duration) {
	if a.linger == nil {
		a.linger = time.AfterFunc(d, a.Body.Interrupt)
	} else {
		a.linger.Reset(d)
	}
}

// StopLinger resumes the reading.
func (a *Answer) StopLinger() {
	if a.linger != nil {
		a.linger.Stop()
	}
}

// Close ends the call. The connection of a whole answer is used again.
func (a *Answer) Close() error {
	if !a.Lookahead.Close() {
		return nil
	}
	if errors.Is(a.Lookahead.Err(), io.EOF) {
		a.Body.Drain()
	}
	a.StopLinger()
	return a.Body.Close()
}

// EventAnswer is an Answer that comes as server-sent events, or as one JSON
// value: whichever was asked for, the body decides.
type EventAnswer struct {
	Answer
	events *EventReader
	what   string
	begun  bool // the format is known
}

// NewEventAnswer makes the answer to a call, whose body it closes. In errors an
// answer is called what: "a completion".
func NewEventAnswer(k Call, body io.ReadCloser, what string) EventAnswer {
	return EventAnswer{Answer: NewAnswer(k, body), events: NewEventReader(body, MaxEvent), what: what}
}

// Ready reports whether the next event can be had without waiting.
func (a *EventAnswer) Ready() bool { return a.events.Buffered() }

// Event returns the next event or, if the body is one JSON value, all of it
// as an event that is Whole. After that there is none: a stream ends with
// Lookahead.Last. The error is that of reading, or a *providers.Error; Cut makes
// one of both.
func (a *EventAnswer) Event() (Event, error) {
	if !a.begun {
		if event, err := a.first(); event.Whole || err != nil {
			return event, err
		}
	}
	if a.events.start == a.events.end {
		a.Body.Rest()
	}
	if err := a.events.next(); err != nil {
		a.Body.ended = err == io.EOF
		return Event{}, err
	}
	return Event{Name: a.events.name, Data: a.events.data}, nil
}

// Close ends the call, see Answer.Close.
func (a *EventAnswer) Close() error {
	err := a.Answer.Close()
	a.events.release()
	return err
}

// first finds out the format, and reads an answer that is one JSON value.
func (a *EventAnswer) first() (Event, error) {
	a.begun = true
	format, head, err := a.events.Format()
	if err != nil {
		return Event{}, err
	}
	switch format {
	case FormatJSON:
		body, err := a.Body.Whole(head)
		return Event{Data: body, Whole: true}, err
	case FormatHTML:
		return Event{}, a.Invalid("a page of HTML, not "+a.what, a.Excerpt(head))
	}
	return Event{}, nil
}

// Parse parses an event's data; blank data gives nil. The value is valid until
// the next call of Event, or Close. The error is a *providers.Error if the data is
// not JSON, or providers.ErrNoRoom if there is no memory for its values.
func (a *EventAnswer) Parse(event Event) (*fastjson.Value, error) {
	v, err := a.Body.Parse(event.Data)
	if err == nil {
		return v, nil
	}
	switch {
	case errors.Is(err, providers.ErrNoRoom):
		return nil, err
	case len(bytes.TrimSpace(event.Data)) == 0:
		return nil, nil
	case event.Whole:
		return nil, a.Invalid("not JSON", a.Excerpt(event.Data))
	case string(event.Name) == "error":
		e := a.Error(providers.Reported)
		e.Message = a.Excerpt(event.Data)
		return nil, e
	}
	return nil, a.Invalid("an event that is not JSON", a.Excerpt(event.Data))
}
