package openai

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cadenza-gateway/cadenza/providers"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
)

// TestAConnectionThatStaysOpen holds how long an answer that is all there waits
// for late chunks, if neither an end marker nor the end of the
// connection comes.
func TestAConnectionThatStaysOpen(t *testing.T) {
	word, finish, sum := pt.ContentChunk("a"), pt.FinishChunk("stop"), pt.UsageChunk(9, 2)
	last := strings.Replace(word, `"finish_reason":null`, `"finish_reason":"stop"`, 1)
	for _, test := range []struct {
		name   string
		pieces []string
		pace   time.Duration
		want   time.Duration
		usage  bool
	}{
		{"nothing after the finish", []string{word, finish}, 0, lingerUsage, false},
		{"usage after the finish", []string{word, finish, sum}, 0, lingerMarker, true},
		{"usage that is late", []string{word, finish, sum}, lingerUsage - 1, 2*(lingerUsage-1) + lingerMarker, true},
		{"usage with the finish", []string{word, strings.Replace(finish, `"usage":null`, `"usage":{"prompt_tokens":9,"completion_tokens":2}`, 1)}, 0, lingerMarker, true},
		{"the finish with the last word", []string{word, last}, 0, lingerContent, false},
		{"a finish with each word", []string{last, last, last, finish}, lingerContent - 1, 3*(lingerContent-1) + lingerUsage, false},
		{"the end marker", []string{word, finish, sum, pt.Done}, 0, 0, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			body, upstream := io.Pipe()
			go func() {
				for i, piece := range test.pieces {
					if i > 0 {
						time.Sleep(test.pace)
					}
					if _, err := io.WriteString(upstream, piece); err != nil {
						return
					}
				}
			}()
			s := subject.Open(body)
			began := time.Now()
			var err error
			for err == nil {
				_, err = s.Next()
			}
			took := time.Since(began)
			s.Close()
			r := s.Result()
			if err != io.EOF || r.FinishReason != providers.FinishStop || (r.Usage.TotalTokens > 0) != test.usage {
				t.Errorf("%s: %v, %+v", test.name, err, r)
			}
			if took != test.want {
				t.Errorf("%s: it took %s, want %s", test.name, took, test.want)
			}
		})
	}
}
