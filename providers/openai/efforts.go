package openai

import (
	"regexp"
	"slices"
)

// modelEfforts are the efforts that some models take, from the least on. The first row that
// fits a model is its own.
type modelEfforts []struct {
	model   *regexp.Regexp
	efforts []string
}

// officialEfforts are those of OpenAI's own models. Its guide to reasoning and the pages
// of its models are the source (https://platform.openai.com/docs/guides/reasoning). Later
// models take all.
var officialEfforts = modelEfforts{
	{regexp.MustCompile(`^(?:ft:)?o\d`), []string{"low", "medium", "high"}},
	{regexp.MustCompile(`^gpt-5-pro`), []string{"high"}},
	{regexp.MustCompile(`^gpt-5(?:\.1)?-codex(?:-mini)?(?:-\d.*)?$`), []string{"low", "medium", "high"}},
	{regexp.MustCompile(`^(?:ft:)?gpt-5(?:-|$)`), []string{"minimal", "low", "medium", "high"}},
	{regexp.MustCompile(`^gpt-5\.\d-codex`), []string{"low", "medium", "high", "xhigh"}},
	{regexp.MustCompile(`^gpt-5\.1(?:-|$)`), []string{"none", "low", "medium", "high"}},
	{regexp.MustCompile(`^gpt-5\.[2-5]-pro`), []string{"medium", "high", "xhigh"}},
	{regexp.MustCompile(`^gpt-5\.[2-5](?:-|$)`), []string{"none", "low", "medium", "high", "xhigh"}},
}

// ascending are all efforts, from the least on.
var ascending = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}

// of returns the effort that a model takes in place of another: that one if it has it, or
// else the most below it, or else the least. Only none is none, as the model thinks
// otherwise.
//
//	max     of low, medium, high:        high
//	minimal of none, low, medium, high:  low
//	none    of low, medium, high:        low
func (m modelEfforts) of(model, effort string) string {
	for i := range m {
		if !m[i].model.MatchString(model) {
			continue
		}
		efforts := m[i].efforts
		if slices.Contains(efforts, effort) {
			return effort
		}
		if efforts[0] == "none" {
			efforts = efforts[1:]
		}
		best, asked := efforts[0], slices.Index(ascending, effort)
		for _, word := range efforts {
			if slices.Index(ascending, word) <= asked {
				best = word
			}
		}
		return best
	}
	return effort
}
