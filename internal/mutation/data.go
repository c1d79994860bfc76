package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// dataFile is the file of a package's mutants, in its directory.
const dataFile = "testdata/mutants.txt"

// readAll returns the mutants of every package below root.
func readAll(root string) (all []*mutant, err error) {
	err = filepath.WalkDir(root, func(name string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "node_modules") {
			return filepath.SkipDir
		}
		dir, found := strings.CutSuffix(filepath.ToSlash(name), "/"+dataFile)
		if !found {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		mutants, err := parse(strings.TrimPrefix(dir, filepath.ToSlash(root)+"/"), string(text))
		all = append(all, mutants...)
		return err
	})
	return all, err
}

// The lines of a data file.
var (
	whatLine   = regexp.MustCompile(`^([^\s\[\]](?:[^\[\]]*[^\s\[\]])?)(?: \[(?:([\w/ ]+): ?)?(.*)\])?$`)
	changeLine = regexp.MustCompile(`^\t(\S+): (\S.*?) =>(?: (\S.*))?$`)
)

// parse reads the text of a data file, whose format is in the package's comment.
func parse(dir, text string) (mutants []*mutant, err error) {
	var common mutant // members of the changes below a line
	complete := true
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		at := fmt.Sprintf("%s/%s:%d", dir, dataFile, i+1)
		what, change := whatLine.FindStringSubmatch(line), changeLine.FindStringSubmatch(line)
		switch {
		case line == "" || line[0] == '#':
		case change != nil && common.what != "":
			m := common
			m.at, m.in, m.old, m.text = at, change[1], change[2], change[3]
			if m.old == m.text {
				return nil, fmt.Errorf("%s: the text %q stays as it is", at, m.old)
			}
			mutants, complete = append(mutants, &m), true
		case what != nil && complete:
			common, complete = mutant{dir: dir, what: what[1], tests: strings.Fields(what[2]), pattern: what[3]}, false
			if len(common.tests) == 0 {
				common.tests = []string{dir}
			}
			if _, err := regexp.Compile(common.pattern); err != nil {
				return nil, fmt.Errorf("%s: %w", at, err)
			}
		default:
			return nil, fmt.Errorf("%s: want a line of WHAT, WHAT [PATTERN] or WHAT [DIR…: PATTERN], and below it one or more of a tab and DECLARATION: OLD => NEW", at)
		}
	}
	if !complete {
		return nil, fmt.Errorf("%s/%s: no change is below the last line", dir, dataFile)
	}
	return mutants, nil
}

// match returns a pattern for the old text of a change. A blank in it stands for any white
// space of the code, and "; " also for the end of a line. A name at either end must be a
// whole name.
func match(old string) *regexp.Regexp {
	pattern := strings.NewReplacer("; ", `[;\n]\s*`, " ", `\s+`).Replace(regexp.QuoteMeta(old))
	if regexp.MustCompile(`^\w`).MatchString(old) {
		pattern = `\b` + pattern
	}
	if regexp.MustCompile(`\w$`).MatchString(old) {
		pattern += `\b`
	}
	return regexp.MustCompile(pattern)
}
