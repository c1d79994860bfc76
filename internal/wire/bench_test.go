package wire

import (
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/buffers"
)

// small is a body of 87 bytes, large one of 761.
const small = `{"keys":["new_checkout"],"context":{"environment":"production","seats":12,"beta":true}}`

var large = `{"keys":["support_reply","text_to_bulletpoints"],"context":{"environment":"production","locale":"nl-BE",` +
	`"plan":"enterprise","seats":250,"beta":false,"app_version":"2.14.1","tags":["employee","pilot"],"customer_id":"c_8812739"},` +
	`"metadata":{"request":"f81d4fae-7dec-11d0-a765-00a0c91e6bf6","page":"/account/billing"},"variables":{"company":"Acme",` +
	`"question":"` + strings.Repeat("How do I change the card? ", 14) + `","text":""}}`

func BenchmarkParse(b *testing.B) {
	chat := `{"keys":["a"],"variables":{"a":"` + strings.Repeat(`It said: \"the parcel is on its way.\"\nNobody knows where the parcel is now, or when it will be here.\n`, 10_000) + `"}}`
	body := large + strings.Repeat(" ", 761-len(large))
	for name, body := range map[string]string{"87B": small, "761B": body, "1MiB": chat} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				r := AcquireRequest()
				r.body = append(r.body, body...)
				if _, err := r.Prompts(); err != nil {
					b.Fatal(err)
				}
				r.Release()
			}
		})
	}
}

// BenchmarkConversation reads a conversation of 200 messages and 1 MiB. Nothing foretells
// where its next escape is.
func BenchmarkConversation(b *testing.B) {
	draw := rand.New(rand.NewPCG(1, 2))
	var text strings.Builder
	for range 200 {
		text.WriteString(`{"role":"user","content":"`)
		for range 128 {
			text.WriteString(strings.Repeat("w", int(38*draw.ExpFloat64())))
			text.WriteString([]string{`\n`, `\"`, `\\`, `\t`}[draw.IntN(4)])
		}
		text.WriteString(`"},`)
	}
	body := `{"messages":[` + strings.TrimSuffix(text.String(), ",") + "]}"
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		r := AcquireRequest()
		r.body = append(buffers.Get(len(body)), body...)
		if _, err := r.Conversation(); err != nil {
			b.Fatal(err)
		}
		r.Release()
	}
}

func BenchmarkParseMetrics(b *testing.B) {
	const body = `{"trace_id":"0193c1a0-7b00-8223-a456-0123456789ab","score":85,"latency":1200,"metadata":{"user":"u1"},"economics":{"prompt_tokens":10,"total_tokens":30}}`
	b.ReportAllocs()
	for b.Loop() {
		r := AcquireRequest()
		r.body = append(r.body, body...)
		if _, err := r.Metrics(); err != nil {
			b.Fatal(err)
		}
		r.Release()
	}
}

func BenchmarkAnswers(b *testing.B) {
	value := []byte(`{"rpm":6000,"burst":600}`)
	id := parsedID()
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst = AppendAnswersStart(dst[:0])
		dst = append(AppendAnswerStart(dst, "model_limits"), value...)
		dst = AppendAnswerEnd(dst, "object", id)
		dst = AppendAnswersEnd(dst)
	}
}

func BenchmarkBearerToken(b *testing.B) {
	h := http.Header{"Authorization": {"Bearer cadenza-demo-key-0001"}}
	b.ReportAllocs()
	for b.Loop() {
		if _, _, ok := BearerToken(h); !ok {
			b.Fatal("refused")
		}
	}
}
