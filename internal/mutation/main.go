package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "mutation:", err)
		}
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string, out io.Writer) error {
	flags := flag.NewFlagSet("mutation", flag.ContinueOnError)
	pattern := flags.String("run", "", "only mutants whose package/id, declaration or description matches this `regexp`")
	list := flags.Bool("list", false, "list the mutants and do nothing else")
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "usage: go run ./internal/mutation [-run REGEXP] [-list] [PACKAGE…]")
		flags.PrintDefaults()
	}
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	chosen, err := choose(registry, *pattern, flags.Args())
	if err != nil {
		return err
	}
	if *list {
		for i := range chosen {
			fmt.Fprintf(out, "%s\t%s\t%s\n", chosen[i].name(), chosen[i].In, chosen[i].What)
		}
		return nil
	}
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	return (&runner{root: root, out: out}).run(ctx, chosen)
}

// choose returns the mutants of the packages (all where there are none) that
// match the pattern.
func choose(all []mutant, pattern string, packages []string) ([]mutant, error) {
	matcher, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	wanted := make(map[string]bool)
	for _, p := range packages {
		wanted[path.Clean(filepath.ToSlash(p))] = false
	}
	var chosen []mutant
	for _, m := range all {
		if len(wanted) > 0 {
			if _, ok := wanted[m.dir]; !ok {
				continue
			}
			wanted[m.dir] = true
		}
		if slices.ContainsFunc([]string{m.name(), m.In, m.What}, matcher.MatchString) {
			chosen = append(chosen, m)
		}
	}
	for p, found := range wanted {
		if !found {
			return nil, fmt.Errorf("there is no mutant of package %s", p)
		}
	}
	if len(chosen) == 0 {
		return nil, errors.New("no mutant matches")
	}
	return chosen, nil
}

// moduleRoot is the directory of the module that the working directory is in.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("there is no go.mod here or above")
		}
		dir = parent
	}
}

// runner tries mutants one after another, because their tests use all cores.
type runner struct {
	root string
	out  io.Writer

	// sound has the results of the tests on the unchanged code, by their
	// arguments.
	sound map[string]error
}

func (r *runner) run(ctx context.Context, mutants []mutant) error {
	temporary, err := os.MkdirTemp("", "mutation")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temporary) }()
	r.sound = make(map[string]error)
	var unkilled []string
	for i := range mutants {
		m := &mutants[i]
		began := time.Now()
		verdict, killed := r.try(ctx, m, temporary)
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		fmt.Fprintf(r.out, "%d/%d\t%s\t%s: %s\t%s\t(%.1fs)\n", i+1, len(mutants), m.name(), m.In, m.What, verdict, time.Since(began).Seconds())
		if !killed {
			unkilled = append(unkilled, m.name())
		}
	}
	fmt.Fprintf(r.out, "killed %d of %d\n", len(mutants)-len(unkilled), len(mutants))
	if len(unkilled) > 0 {
		return fmt.Errorf("not killed: %s", strings.Join(unkilled, ", "))
	}
	return nil
}
