package anthropic

import (
	"regexp"
	"strconv"
)

// generation matches the names of Claude models since version 4, with a minor
// version of one or two digits if there is one: the next digits may also be a
// date. The 3 series put the version first and the family after it.
var generation = regexp.MustCompile(`claude-([a-z]+)-(\d{1,2})(?:-(\d{1,2}))?(?:$|[^0-9])`)

// takesSampling reports whether a model takes temperature, top_p and top_k.
// Claude models from version 4.7 on answer any value but the default with a
// 400 (Anthropic's migration guides), and a fallback takes over the parameters
// of the target before it, so without this rule such a fallback could never
// answer. Names that are not of Claude's pattern belong to other services and
// take them.
func takesSampling(model string) bool {
	m := generation.FindStringSubmatch(model)
	if m == nil {
		return model != mythos
	}
	return !since(m, 4, 7)
}

// mythos is the one model whose name has no version.
const mythos = "claude-mythos-preview"

// takesEffort reports whether a model takes output_config.effort: Opus from 4.5
// and Sonnet from 4.6 on, and the models of later generations.
func takesEffort(model string) bool {
	m := generation.FindStringSubmatch(model)
	if m == nil {
		return model == mythos
	}
	switch m[1] {
	case "opus":
		return since(m, 4, 5)
	case "sonnet":
		return since(m, 4, 6)
	}
	return since(m, 5, 0)
}

// effortOf is an effort in the API's words, as far as a model that takes it has
// that one: max came with the models of 4.6 and xhigh with 4.7.
func effortOf(model, effort string) string {
	m := generation.FindStringSubmatch(model)
	switch effort {
	case "minimal":
		return "low"
	case "xhigh":
		if m == nil || !since(m, 4, 7) {
			return "high"
		}
	case "max":
		if m != nil && !since(m, 4, 6) {
			return "high"
		}
	}
	return effort
}

// since reports whether a match of generation is of a version or a later one.
func since(m []string, major, minor int) bool {
	x, _ := strconv.Atoi(m[2])
	y, _ := strconv.Atoi(m[3])
	return x > major || x == major && y >= minor
}
