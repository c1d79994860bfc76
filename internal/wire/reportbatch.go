package wire

import (
	"bytes"
	"net/http"
	"strings"

	"github.com/valyala/fastjson"
)

// maxReports is how many reports a batch may have.
const maxReports = 1000

// LinesType is the media type of JSON by lines.
const LinesType = "application/x-ndjson"

// Batch reports whether the body is a batch of reports: an array or, as its media type
// says, a report on each line.
func (r *Request) Batch(h http.Header) (lines, batch bool) {
	media, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	if strings.EqualFold(strings.TrimSpace(media), LinesType) {
		return true, true
	}
	start := skipSpace(r.body, 0)
	return false, start < len(r.body) && r.body[start] == '['
}

// EachReport calls each for the reports of a batch, in order. A record and its unit are
// valid until each returns; the Request must not be used by it.
func (r *Request) EachReport(lines bool, each func(*MetricsRecord, *Error)) *Error {
	if lines {
		return r.eachLine(each)
	}
	root, err := r.parseValue(false)
	if err != nil {
		return err
	}
	list := root.GetArray()
	if err := checkReports(len(list)); err != nil {
		return err
	}
	for _, v := range list {
		each(r.reportOf(v))
	}
	return nil
}

// eachLine parses each line by itself: one with a mistake leaves the others as they are.
func (r *Request) eachLine(each func(*MetricsRecord, *Error)) *Error {
	whole := r.body
	defer func() { r.body = whole }()
	var lines [][]byte
	for line := range bytes.Lines(whole) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if lines = append(lines, line); len(lines) > maxReports {
			break
		}
	}
	if err := checkReports(len(lines)); err != nil {
		return err
	}
	for _, line := range lines {
		r.body = line
		if v, err := r.parseValue(false); err != nil {
			each(nil, err)
		} else {
			each(r.reportOf(v))
		}
	}
	return nil
}

func checkReports(count int) *Error {
	switch {
	case count == 0:
		return Errorf(InvalidRequest, "", "The batch has no report.")
	case count > maxReports:
		return Errorf(InvalidRequest, "", "A batch may have %d reports, this has more. Send several.", maxReports)
	}
	return nil
}

func (r *Request) reportOf(v *fastjson.Value) (*MetricsRecord, *Error) {
	body, notObject := v.Object()
	if notObject != nil {
		return nil, Errorf(InvalidRequest, "", "A report must be a JSON object, not %s.", Describe(v))
	}
	return r.anyRecord(body)
}
