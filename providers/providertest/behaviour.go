package providertest

import (
	"strconv"
	"time"

	"github.com/cadenza-gateway/cadenza/providers"
)

// Reason returns b.Finish in a service's words: stop if it is empty, and b.Finish
// itself if the service has no word for it.
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

// Rejection returns a failure before the answer, with a body in JSON and the
// header Retry-After.
func (b Behaviour) Rejection(body string) Reply {
	r := JSON(b.Status, body)
	r.Header["Retry-After"] = strconv.Itoa(int(b.RetryAfter / time.Second))
	return r
}

// Whole returns a whole answer with the end that b specifies. reported is the
// answer in which the service reports an error.
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

// Streamed returns a stream with the pace and the end that b specifies. reported is the piece
// that reports an error in a stream; end has the pieces that complete the stream.
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
