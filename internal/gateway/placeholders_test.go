package gateway

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/trace"
)

// TestPlaceholdersInDocs checks that the manual's tables list all placeholders, which are
// the members of the object that contains all.
func TestPlaceholdersInDocs(t *testing.T) {
	manual, err := os.ReadFile("../../docs/observability.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(manual), "\n## Placeholders")
	section, _, _ = strings.Cut(section, "\n## ")
	info := &requestInfo{owner: new(Workspace)}
	var listed []string
	for _, row := range regexp.MustCompile(`(?m)^\| (.*?) \|`).FindAllStringSubmatch(section, -1) {
		for _, name := range regexp.MustCompile("`{(.*?)}`").FindAllStringSubmatch(row[1], -1) {
			if _, known := info.placeholder(name[1]); !known {
				t.Errorf("there is no placeholder {%s}", name[1])
			}
			listed = append(listed, name[1])
		}
	}
	full := requestInfo{
		workspace: "w", key: "k", owner: new(Workspace), route: "r", code: "c", traceID: [1]string{"t"}, decisionID: [1]string{"d"}, revision: [1]string{"v"}, cache: "hit",
		endpoint: &definition.Endpoint{Prompt: &definition.Prompt{}},
		call: &callInfo{
			variant: "v", arm: "a", row: "r", endpointVariant: "e", endpointRow: "e", provider: "p", model: "m", finish: "f", code: "c",
			attempts: 1, prompt: 10, completion: 5, estimated: true, cost: 0.5,
			UsageDetails: trace.UsageDetails{CachedTokens: 1, CacheWriteTokens: 2, ReasoningTokens: 3},
		},
	}
	full.endpoint.Key = "key"
	var object map[string]any
	if err := json.Unmarshal([]byte(full.String()), &object); err != nil {
		t.Fatal(err)
	}
	check := func(prefix string, members map[string]any) {
		for member, value := range members {
			name := prefix + member
			if name == "cadenza.api_key" {
				name = "http.auth.user.id"
			}
			if _, nested := value.(map[string]any); nested {
				continue
			}
			if !slices.Contains(listed, name) {
				t.Errorf("docs/observability.md does not list {%s}", name)
			}
			if single, known := full.placeholder(name); !known || fmt.Sprint(single) != fmt.Sprint(value) {
				t.Errorf("{%s} is %v, and %v in the object", name, single, value)
			}
		}
	}
	check("cadenza.", object)
	tokens := object["tokens"].(map[string]any)
	check("cadenza.tokens.", tokens)
	if members := len(object) - 1 + len(tokens); members != len(listed) {
		t.Errorf("%d members, %d placeholders are listed", members, len(listed))
	}
	for _, name := range []string{"cadenza.", "cadenza.nothing", "cadenzas", "http.auth.user"} {
		if value, known := info.placeholder(name); known {
			t.Errorf("{%s} is %v", name, value)
		}
	}
}

// TestManyKeysInAPlaceholder checks that a placeholder lists the first of many keys, and
// counts the others.
func TestManyKeysInAPlaceholder(t *testing.T) {
	info := new(requestInfo)
	for n := range 23 {
		info.several = append(info.several, picked{definition: &definition.Definition{Key: fmt.Sprint("k", n)}})
	}
	value, _ := info.placeholder("cadenza.key")
	if text := value.(string); !strings.HasPrefix(text, "k0,k1,") || !strings.HasSuffix(text, ",k19,+3") {
		t.Error(text)
	}
}

func TestCostsAreToldWithoutNoise(t *testing.T) {
	tenth, fifth := 0.1, 0.2
	for sum, want := range map[float64]float64{tenth + fifth: 0.3, 0.00009900000000000001: 0.000099, 3e-9: 3e-9, 1234.5: 1234.5, 0: 0} {
		if got := dollars(sum); got != want {
			t.Errorf("%v is told as %v, want %v", sum, got, want)
		}
	}
}
