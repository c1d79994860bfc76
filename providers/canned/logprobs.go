package canned

import (
	"encoding/json"
	"math"
)

// likely is the probability that canned claims for its words. Each alternative has a
// twentieth of the one before.
const likely = 0.9

// logprob is a token's log probability in OpenAI's shape.
type logprob struct {
	Token   string    `json:"token"`
	Logprob float64   `json:"logprob"`
	Bytes   []int     `json:"bytes"`
	Top     []logprob `json:"top_logprobs,omitzero"`
}

// logprobs makes the list of the log probabilities of words, each with so many
// alternatives: the first of them is the word itself.
func logprobs(words []string, alternatives int64) json.RawMessage {
	list := make([]logprob, len(words))
	for i, word := range words {
		list[i] = newLogprob(word, likely)
		list[i].Top = []logprob{}
		for n := range alternatives {
			token := word
			if n > 0 {
				token = string(rune('a'+(n-1)%26)) + " "
			}
			list[i].Top = append(list[i].Top, newLogprob(token, likely*math.Pow(0.05, float64(n))))
		}
	}
	text, _ := json.Marshal(list)
	return text
}

func newLogprob(token string, p float64) logprob {
	l := logprob{Token: token, Logprob: math.Round(math.Log(p)*1e6) / 1e6, Bytes: make([]int, len(token))}
	for i := range len(token) {
		l.Bytes[i] = int(token[i])
	}
	return l
}
