package cadenza_test

import (
	"go/ast"
	"go/build"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// limitName is how what bounds a resource is called in the code.
var limitName = regexp.MustCompile(`^[Mm]ax([A-Z]|$)|(Limit|Timeout|Budget)$`)

// noLimits are constants that are called as limits are and which nobody meets.
var noLimits = map[string]string{
	"inspect.maxBlockers":                "how answers of the analysis are looked for",
	"inspect.maxListPairs":               "how answers of the analysis are looked for",
	"inspect.maxMatched":                 "how answers of the analysis are looked for",
	"inspect.maxPairs":                   "how answers of the analysis are looked for",
	"inspect.maxSteps":                   "how answers of the analysis are looked for",
	"inspect.maxUnits":                   "how answers of the analysis are looked for",
	"inspect.pairBudget":                 "how answers of the analysis are looked for",
	"rules.maxBlockers":                  "how answers of the analysis are looked for",
	"rules.maxExampleSize":               "how answers of the analysis are looked for",
	"rules.maxExamples":                  "how answers of the analysis are looked for",
	"rules.maxGroups":                    "how answers of the analysis are looked for",
	"rules.maxNegated":                   "how answers of the analysis are looked for",
	"rules.maxQuestion":                  "how answers of the analysis are looked for",
	"rules.maxTextStates":                "how answers of the analysis are looked for",
	"rules.maxWays":                      "how answers of the analysis are looked for",
	"rules.columnBudget":                 "how a table is laid out",
	"rules.maxColumns":                   "how a table is laid out",
	"rules.maxElements":                  "how a table is laid out",
	"rules.maxEnd":                       "how a table is laid out",
	"rules.maxKey":                       "how a table is laid out",
	"rules.maxScanned":                   "how a table is laid out",
	"rules.maxTableCost":                 "how a table is laid out",
	"document.maxPrinted":                "what a message quotes",
	"rules.maxCellText":                  "what a message quotes",
	"sinks/postgres.maxStrippedText":     "what a message quotes",
	"redact.maxAuthority":                "shapes of secrets",
	"redact.maxDecisive":                 "shapes of secrets",
	"redact.maxDomain":                   "shapes of secrets",
	"redact.maxGroups":                   "shapes of secrets",
	"redact.maxHeader":                   "shapes of secrets",
	"redact.maxLabel":                    "shapes of secrets",
	"redact.maxLocal":                    "shapes of secrets",
	"redact.maxPEMType":                  "shapes of secrets",
	"redact.maxRounds":                   "shapes of secrets",
	"redact.maxRun":                      "shapes of secrets",
	"redact.maxToken":                    "shapes of secrets",
	"providers/upstream.maxPooledParser": "what a pool keeps",
	"sinks/jsonlines.maxKeptBuffer":      "what a pool keeps",
	"trace.maxKeptBuffer":                "what a pool keeps",
	"caddymodule.maxFollowed":            "how the store looks for rows",
	"store/sqlite.maxBucket":             "how the store looks for rows",
	"store/sqlite.maxInterrupted":        "how the store looks for rows",
	"store/sqlite.maxPosted":             "how the store looks for rows",
	"store/sqlite.maxStatsRead":          "how the store looks for rows",
	"store/sqlite.maxStatsTail":          "how the store looks for rows",
	"store/sqlite.maxUnposted":           "how the store looks for rows",
	"store/sqlite.maxWindow":             "how the store looks for rows",
	"sinks.advanceTimeout":               "how a sink is dealt with",
	"sinks.cancelTimeout":                "how a sink is dealt with",
	"sinks/postgres.closeTimeout":        "how a sink is dealt with",
	"invoke.MaxAttempts":                 "the same as another",
	"invoke.MaxWeight":                   "the same as another",
	"providers/gemini.maxRetryDelay":     "the same as another",
	"store/sqlite.MaxPage":               "the same as another",
	"providers/upstream.maxTokens":       "of an id's or a number's form",
	"trace.maxMillis":                    "of an id's or a number's form",
	"invoke.coolRateLimit":               "no ceiling",
}

// clock stands for package time, of whose constants those of others are made.
var clock = func() *types.Package {
	p := types.NewPackage("time", "time")
	duration := types.NewNamed(types.NewTypeName(token.NoPos, p, "Duration", nil), types.Typ[types.Int64], nil)
	p.Scope().Insert(duration.Obj())
	for name, value := range map[string]time.Duration{
		"Nanosecond": time.Nanosecond, "Microsecond": time.Microsecond, "Millisecond": time.Millisecond,
		"Second": time.Second, "Minute": time.Minute, "Hour": time.Hour,
	} {
		p.Scope().Insert(types.NewConst(token.NoPos, p, name, duration, constant.MakeInt64(int64(value))))
	}
	p.MarkComplete()
	return p
}()

type importer struct{}

func (importer) Import(path string) (*types.Package, error) {
	if path == "time" {
		return clock, nil
	}
	if path == "math" {
		p := types.NewPackage("math", "math")
		p.Scope().Insert(types.NewConst(token.NoPos, p, "MaxInt64", types.Typ[types.UntypedInt], constant.MakeInt64(math.MaxInt64)))
		p.MarkComplete()
		return p, nil
	}
	return nil, os.ErrNotExist
}

// numbers returns the constant numbers of the module's packages, and the
// variables that begin as one, by package and name. A duration is in
// nanoseconds.
func numbers(t *testing.T) map[string]float64 {
	t.Helper()
	found := make(map[string]float64)
	err := filepath.WalkDir(".", func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if name := entry.Name(); path != "." && (strings.HasPrefix(name, ".") || slices.Contains([]string{"testdata", "bench", "mutation", "docs", "examples"}, name)) {
			return filepath.SkipDir
		}
		entries, err := os.ReadDir(path)
		if err != nil {
			return err
		}
		set := token.NewFileSet()
		var files []*ast.File
		for _, e := range entries {
			if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
				continue
			}
			if match, err := build.Default.MatchFile(path, e.Name()); err != nil || !match {
				continue
			}
			file, err := parser.ParseFile(set, filepath.Join(path, e.Name()), nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			files = append(files, file)
		}
		if len(files) == 0 {
			return nil
		}
		info := &types.Info{Types: make(map[ast.Expr]types.TypeAndValue), Defs: make(map[*ast.Ident]types.Object)}
		// What it imports is not there, which is no matter for numbers.
		config := types.Config{Importer: importer{}, IgnoreFuncBodies: true, Error: func(error) {}}
		p, _ := config.Check(path, set, files, info)
		keep := func(name string, value constant.Value) {
			if value.Kind() == constant.Int || value.Kind() == constant.Float {
				f, _ := constant.Float64Val(constant.ToFloat(value))
				found[filepath.ToSlash(path)+"."+name] = f
			}
		}
		for _, name := range p.Scope().Names() {
			if c, ok := p.Scope().Lookup(name).(*types.Const); ok && c.Val() != nil {
				keep(name, c.Val())
			}
		}
		for _, file := range files {
			for _, declaration := range file.Decls {
				variables, ok := declaration.(*ast.GenDecl)
				if !ok || variables.Tok != token.VAR {
					continue
				}
				for _, spec := range variables.Specs {
					spec := spec.(*ast.ValueSpec)
					for i, name := range spec.Names {
						if i < len(spec.Values) && info.Types[spec.Values[i]].Value != nil {
							keep(name.Name, info.Types[spec.Values[i]].Value)
						}
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// units are what numbers in the page are of.
var units = map[string]float64{
	"": 1, "%": 1,
	"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30,
	"ms": float64(time.Millisecond), "s": float64(time.Second), "min": float64(time.Minute),
	"hours": float64(time.Hour), "days": 24 * float64(time.Hour),
}

// A number of the page, with the constant that it is.
var documented = regexp.MustCompile(`([0-9][0-9,.]*)(?: ([A-Za-z%]+))?<!-- ([a-z0-9/]+\.[A-Za-z0-9]+) -->`)

// The page of limits states what the code holds, and leaves no ceiling out.
func TestLimitsPage(t *testing.T) {
	text, err := os.ReadFile("docs/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	have, page := numbers(t), make(map[string]bool)
	for _, match := range documented.FindAllStringSubmatch(string(text), -1) {
		name := match[3]
		page[name] = true
		value, err := strconv.ParseFloat(strings.ReplaceAll(match[1], ",", ""), 64)
		unit, known := units[match[2]]
		if err != nil || !known {
			t.Errorf("%s: %q is no number", name, match[0])
			continue
		}
		number, ok := have[name]
		switch {
		case !ok:
			t.Errorf("the page names %s, which is no number of the code", name)
		case math.Abs(number-value*unit) > number/1000:
			t.Errorf("%s is %g, and the page says %s %s", name, number, match[1], match[2])
		}
	}
	if comments := strings.Count(string(text), "<!-- ") - strings.Count(string(text), "<!-- memory: "); comments != len(documented.FindAllString(string(text), -1)) {
		t.Errorf("%d comments of the page, and not all stand behind a number", comments)
	}
	for name := range have {
		_, bare, _ := strings.Cut(name, ".")
		if !limitName.MatchString(bare) {
			continue
		}
		if reason := noLimits[name]; reason == "" && !page[name] {
			t.Errorf("%s is a limit by its name, and the page doesn't have it", name)
		} else if reason != "" && page[name] {
			t.Errorf("%s is on the page, and in the test's list of what isn't: %s", name, reason)
		}
	}
	for name := range noLimits {
		if _, ok := have[name]; !ok {
			t.Errorf("there is no %s any more", name)
		}
	}
}
