package providertest

import (
	"strconv"
	"time"

	"github.com/cadenza-gateway/cadenza/providers"
)

// Reason is b.Finish in a service's words: stop where b has none, and as it is
// where the service has no word for it.
func (b Behaviour) Reason(stop, length, filter string) string {
	switch b.Finish {
	case "", providers.FinishStop:
		return stop
	case providers.FinishLength:
		return length
	case providers.FinishContentFilter:
		return filter
	}
	return string(b.Finish)
}

// Rejection is a failure before the answer, with a body in JSON. Retry-After
// is in its header.
func (b Behaviour) Rejection(body string) Reply {
	r := JSON(b.Status, body)
	r.Header["Retry-After"] = strconv.Itoa(int(b.RetryAfter / time.Second))
	return r
}

// Whole gives a whole answer the end that b asks for. Reported is the answer in
// which the service reports an error.
func (b Behaviour) Whole(answer, reported Reply) Reply {
	if b.Fail == Reported {
		return reported
	}
	text := answer.Text()
	switch b.Fail {
	case Stops:
		answer.Body, answer.End = []string{text[:len(text)/2]}, Cut
	case Stalls:
		answer.Body, answer.End = []string{text[:len(text)/2]}, Hang
	}
	return answer
}

// Streamed gives a stream the pace and the end that b asks for. Reported is how
// the service reports an error within a stream, end are the pieces that make
// the stream whole.
func (b Behaviour) Streamed(stream Reply, reported string, end ...string) Reply {
	stream.Delay = b.Pace
	switch b.Fail {
	case None:
		stream.Body = append(stream.Body, end...)
	case Stops:
		stream.End = Cut
	case Stalls:
		stream.End = Hang
	case Reported:
		stream.Body = append(stream.Body, reported)
	}
	return stream
}
