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
	"inspect.maxMatched":                 "how answers of the analysis are looked for",
	"inspect.maxPairs":                   "how answers of the analysis are looked for",
	"inspect.maxUnits":                   "how answers of the analysis are looked for",
	"inspect.pairBudget":                 "how answers of the analysis are looked for",
	"rules.maxBlockers":                  "how answers of the analysis are looked for",
	"rules.maxExampleSize":               "how answers of the analysis are looked for",
	"rules.maxExamples":                  "how answers of the analysis are looked for",
	"rules.maxMatches":                   "how answers of the analysis are looked for",
	"rules.maxNegated":                   "how answers of the analysis are looked for",
	"rules.maxQuestion":                  "how answers of the analysis are looked for",
	"rules.maxTexts":                     "how answers of the analysis are looked for",
	"rules.maxWays":                      "how answers of the analysis are looked for",
	"rules.columnBudget":                 "how a table is laid out",
	"rules.maxColumns":                   "how a table is laid out",
	"rules.maxNamed":                     "how a table is laid out",
	"rules.maxElements":                  "how a table is laid out",
	"rules.maxEnd":                       "how a table is laid out",
	"rules.maxScanned":                   "how a table is laid out",
	"rules.maxTableCost":                 "how a table is laid out",
	"rules.maxFixedCost":                 "how the cost of an expression is known",
	"document.maxPrinted":                "what a message quotes",
	"rules.maxCellText":                  "what a message quotes",
	"sinks/postgres.maxStrippedText":     "what a message quotes",
	"redact.maxAuthority":                "shapes of secrets",
	"redact.maxDecisive":                 "shapes of secrets",
	"redact.maxDomain":                   "shapes of secrets",
	"redact.maxHeader":                   "shapes of secrets",
	"redact.maxLabel":                    "shapes of secrets",
	"redact.maxLocal":                    "shapes of secrets",
	"redact.maxPEMType":                  "shapes of secrets",
	"redact.maxRounds":                   "shapes of secrets",
	"redact.maxRun":                      "shapes of secrets",
	"redact.maxToken":                    "shapes of secrets",
	"redact.maxWindow":                   "shapes of secrets",
	"providers/upstream.maxPooledParser": "what a pool keeps",
	"sinks/jsonlines.maxKeptBuffer":      "what a pool keeps",
	"gateway.maxCounted":                 "what net/http counts by itself",
	"trace.maxKeptBuffer":                "what a pool keeps",
	"price.maxFound":                     "what a cache keeps",
	"adminapi.maxCandidates":             "how the store looks for rows",
	"adminapi.maxKeptTexts":              "what a cache keeps",
	"adminapi.maxFollowed":               "how the store looks for rows",
	"store/histogram.maxBucket":          "how the store looks for rows",
	"store/sqlite.maxBetween":            "how the store looks for rows",
	"store/sqlite.maxInterrupted":        "how the store looks for rows",
	"store/sqlite.maxMembers":            "how the store looks for rows",
	"store/sqlite.maxStatsRead":          "how the store looks for rows",
	"store/sqlite.maxStatsTail":          "how the store looks for rows",
	"store/sqlite.maxWindow":             "how the store looks for rows",
	"sinks.advanceTimeout":               "how a sink is dealt with",
	"sinks.cancelTimeout":                "how a sink is dealt with",
	"sinks/postgres.closeTimeout":        "how a sink is dealt with",
	"providers/gemini.maxRetryDelay":     "the same as another",
	"store/sqlite.MaxPage":               "the same as another",
	"providers/upstream.maxTokens":       "of an id's or a number's form",
	"trace.maxMillis":                    "of an id's or a number's form",
	"invoke.coolRateLimit":               "no ceiling",
	"invoke.maxPiece":                    "no ceiling",
	"invoke.longestWord":                 "no ceiling",
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

// source reads packages of this module as far as their numbers go.
type source struct {
	set      *token.FileSet
	info     *types.Info
	packages map[string]*types.Package // by import path
	files    map[string][]*ast.File
}

// Import has what numbers are made of. Nothing else is there, which is no matter
// for them.
func (s *source) Import(path string) (*types.Package, error) {
	switch folder, own := strings.CutPrefix(path, modulePath+"/"); {
	case path == "time":
		return clock, nil
	case own:
		return s.load(folder)
	}
	return nil, os.ErrNotExist
}

// load reads the package of a folder, nil where it has none.
func (s *source) load(folder string) (*types.Package, error) {
	if p, ok := s.packages[folder]; ok {
		return p, nil
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".go") || strings.HasSuffix(entry.Name(), "_test.go") {
			continue
		}
		if match, err := build.Default.MatchFile(folder, entry.Name()); err != nil || !match {
			continue
		}
		file, err := parser.ParseFile(s.set, filepath.Join(folder, entry.Name()), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		s.files[folder] = append(s.files[folder], file)
	}
	if len(s.files[folder]) == 0 {
		return nil, nil
	}
	config := types.Config{Importer: s, IgnoreFuncBodies: true, Error: func(error) {}}
	p, _ := config.Check(folder, s.set, s.files[folder], s.info)
	s.packages[folder] = p
	return p, nil
}

// numbers returns the constant numbers of the module's packages, and the
// variables that begin as one, by package, without internal/, and name. A
// duration is in nanoseconds.
func numbers(t *testing.T) map[string]float64 {
	t.Helper()
	s := &source{
		set:      token.NewFileSet(),
		info:     &types.Info{Types: make(map[ast.Expr]types.TypeAndValue)},
		packages: make(map[string]*types.Package),
		files:    make(map[string][]*ast.File),
	}
	found := make(map[string]float64)
	keep := func(folder, name string, value constant.Value) {
		if value != nil && (value.Kind() == constant.Int || value.Kind() == constant.Float) {
			found[strings.TrimPrefix(folder, "internal/")+"."+name], _ = constant.Float64Val(constant.ToFloat(value))
		}
	}
	err := filepath.WalkDir(".", func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if name := entry.Name(); path != "." && (strings.HasPrefix(name, ".") || slices.Contains([]string{"testdata", "bench", "clients", "mutation", "docs", "examples"}, name)) {
			return filepath.SkipDir
		}
		folder := filepath.ToSlash(path)
		p, err := s.load(folder)
		if err != nil || p == nil {
			return err
		}
		for _, name := range p.Scope().Names() {
			if c, ok := p.Scope().Lookup(name).(*types.Const); ok {
				keep(folder, name, c.Val())
			}
		}
		for _, file := range s.files[folder] {
			for _, declaration := range file.Decls {
				variables, ok := declaration.(*ast.GenDecl)
				if !ok || variables.Tok != token.VAR {
					continue
				}
				for _, spec := range variables.Specs {
					spec := spec.(*ast.ValueSpec)
					for i, name := range spec.Names {
						if i < len(spec.Values) {
							keep(folder, name.Name, s.info.Types[spec.Values[i]].Value)
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

// The pages of limits and ceilings state what the code holds, and leave none out.
func TestLimitsPage(t *testing.T) {
	var text []byte
	for _, name := range []string{"docs/limits.md", "docs/ceilings.md"} {
		page, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, page...)
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
