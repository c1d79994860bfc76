package bedrock

import (
	"strings"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// cachePlaces are where a model takes marks for the cache. Other models refuse requests
// with one.
type cachePlaces uint8

const (
	cachesNone     cachePlaces = iota
	cachesMessages             // not on tools, which are cached unasked
	cachesAll
)

// caches returns where a model takes marks for the cache: Claude from 3.7 on, and Haiku
// 3.5, and Nova
// (https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html).
func caches(model string) cachePlaces {
	switch {
	case strings.Contains(model, "anthropic.claude"):
		if c := upstream.ClaudeOf(model); c.Adaptive || c.Budget || strings.Contains(model, "claude-3-5-haiku") {
			return cachesAll
		}
	case strings.Contains(model, "amazon.nova"):
		return cachesMessages
	}
	return cachesNone
}

// marksOf returns the marks that a model takes: for an hour Claude from 4.5 on alone. For
// others an hour is the time that they have.
func marksOf(model string) (marks [providers.CacheHour + 1]string) {
	marks = format.Marks
	if strings.Contains(model, "-4-5-") || strings.HasSuffix(model, "-4-5") || upstream.ClaudeOf(model).Adaptive {
		return marks
	}
	marks[providers.CacheHour] = marks[providers.CacheShort]
	return marks
}
