package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
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
	pattern := flags.String("run", "", "only mutants whose line in the list matches this `regexp`")
	list := flags.Bool("list", false, "list the mutants and do nothing else")
	draw := flags.Int("draw", 20, "draw `N` of each package's generated mutants; -1: all")
	seed := flags.Uint64("seed", uint64(time.Now().Unix()/86400), "what the draw depends on: by default the day")
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "usage: go run ./internal/mutation [-run REGEXP] [-list] [-draw N] [-seed N] [PACKAGE…]")
		flags.PrintDefaults()
	}
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	matcher, err := regexp.Compile(*pattern)
	if err != nil {
		return err
	}
	mutants, err := choose(root, flags.Args(), matcher, *draw, *seed)
	if err != nil {
		return err
	}
	if *list {
		for _, m := range mutants {
			fmt.Fprintln(out, m)
		}
		return nil
	}
	fmt.Fprintf(out, "%d mutants, -seed %d\n", len(mutants), *seed)
	unkilled, err := (&runner{root: root, out: out, patience: usualPatience}).run(ctx, mutants)
	if err != nil {
		return err
	}
	return report(out, unkilled)
}

// report names the mutants that no test notices. A mutant of the data makes an
// error; some of the generated ones change nothing that a test could see.
func report(out io.Writer, unkilled []*mutant) error {
	failed := 0
	for _, m := range unkilled {
		fmt.Fprintf(out, "not killed:\t%s\n", m)
		if !m.generated() {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d mutants of %s are not killed", failed, dataFile)
	}
	return nil
}

// choose returns the mutants of the packages (by default of all that have data) that the
// matcher matches: all from the data, and draw generated ones of each package.
func choose(root string, packages []string, matcher *regexp.Regexp, draw int, seed uint64) ([]*mutant, error) {
	all, err := readAll(root)
	if err != nil {
		return nil, err
	}
	var dirs []string
	for _, p := range packages {
		dirs = append(dirs, path.Clean(filepath.ToSlash(p)))
	}
	if len(dirs) == 0 {
		for _, m := range all {
			dirs = append(dirs, m.dir)
		}
		dirs = slices.Compact(dirs)
	}
	skipped := func(m *mutant) bool { return !matcher.MatchString(m.String()) }
	random := rand.New(rand.NewPCG(seed, 0))
	var chosen []*mutant
	for _, dir := range dirs {
		code, err := load(root, dir)
		if err != nil {
			return nil, err
		}
		for _, m := range all {
			if m.dir != dir {
				continue
			}
			if err := code.find(m); err != nil {
				return nil, fmt.Errorf("%s: %w", m.at, err)
			}
			if !skipped(m) {
				chosen = append(chosen, m)
			}
		}
		generated := slices.DeleteFunc(code.generate(), skipped)
		if draw >= 0 && draw < len(generated) {
			random.Shuffle(len(generated), func(i, j int) { generated[i], generated[j] = generated[j], generated[i] })
			generated = generated[:draw]
		}
		chosen = append(chosen, generated...)
	}
	if len(chosen) == 0 {
		return nil, errors.New("no mutant matches")
	}
	return chosen, nil
}

// moduleRoot returns the directory of the module that the working directory is
// in.
func moduleRoot() (string, error) {
	file, err := exec.Command("go", "env", "GOMOD").Output()
	return filepath.Dir(strings.TrimSpace(string(file))), err
}
