package command

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/kind"
	"github.com/cadenza-gateway/cadenza/trace"
)

// helpFooter ends the help of each command. Caddy's own footer links to a page without
// Cadenza's commands.
const helpFooter = `
Full documentation is available at:
https://github.com/cadenza-gateway/cadenza/blob/main/docs/tools.md{{if not .HasSubCommands}}#{{if eq .Parent.Name "bundle"}}bundle{{else}}{{.Name}}{{end}}{{end}}
`

// flagsInUse matches the flags in a line of use, such as [-w | --diff].
var flagsInUse = regexp.MustCompile(`\[-[^]]*\]`)

// argumentsOf returns the names of a command's arguments from its line of use.
func argumentsOf(cmd *cobra.Command) []string {
	return strings.Fields(flagsInUse.ReplaceAllString(cmd.Use, ""))[1:]
}

// checkArguments refuses missing and superfluous arguments by the command's line of use,
// in which [NAME] is optional and NAME... may be repeated.
func checkArguments(cmd *cobra.Command, args []string) error {
	names := argumentsOf(cmd)
	required, allowed := 0, len(names)
	for _, name := range names {
		if !strings.HasPrefix(name, "[") {
			required++
		}
		if strings.Contains(name, "...") {
			allowed = math.MaxInt
		}
	}
	usage := strings.TrimSuffix(cmd.UseLine(), " [flags]")
	switch {
	case len(args) < required:
		missing := strings.TrimSuffix(strings.Join(names[len(args):required], " and "), "...")
		verb := "is"
		if required-len(args) > 1 {
			verb = "are"
		}
		return fmt.Errorf("%s %s missing: %s (--help says more)", missing, verb, usage)
	case len(args) > allowed:
		return fmt.Errorf("%q is one argument too many: %s (--help says more)", args[allowed], usage)
	}
	return nil
}

// flagValues are the possible values of flags, by the name of the flag.
var flagValues = map[string][]string{
	"kind":          kind.Names(),
	"status":        {"ok", "error"},
	"state":         {trace.StateStarted.String(), trace.StateEnded.String(), trace.StateInterrupted.String()},
	"finish-reason": trace.FinishReasons,
	"interval":      {"hour", "day", "all"},
	"by":            {"variant", "arm", "version"},
	"sort":          {"time", "latency", "cost", "score"},
}

// addCompletions registers shell completions for the arguments and flags of a command.
func addCompletions(cmd *cobra.Command) {
	cmd.ValidArgsFunction = completeArgument
	for name, values := range flagValues {
		addCompletion(cmd, name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
	addCompletion(cmd, "workspace", completeServed(func(name string, _ adminapi.LoadedWorkspace) []string { return []string{name} }))
	addCompletion(cmd, "key", completeServed(func(_ string, w adminapi.LoadedWorkspace) (keys []string) {
		for _, d := range w.Definitions {
			keys = append(keys, d.Key)
		}
		return keys
	}))
}

// addCompletion registers a shell completion for a flag if the command has the flag
// and no completion for it.
func addCompletion(cmd *cobra.Command, flag string, complete cobra.CompletionFunc) {
	if cmd.Flags().Lookup(flag) == nil {
		return
	}
	if _, has := cmd.GetFlagCompletionFunc(flag); !has {
		_ = cmd.RegisterFlagCompletionFunc(flag, complete) // the flag exists and has none
	}
}

// completeArgument completes an argument: a directory, the key of a definition in
// the directory before it, or a file.
func completeArgument(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	names := argumentsOf(cmd)
	if len(names) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	switch strings.Trim(names[min(len(args), len(names)-1)], "[].") {
	case "DIR", "OLD", "NEW":
		return nil, cobra.ShellCompDirectiveFilterDirs
	case "PATH", "FILE", "DIR|FILE":
		return nil, cobra.ShellCompDirectiveDefault
	case "KEY":
		return keysOf(cmd, args[0]), cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// keysOf returns the keys of a valid workspace, only those of --kind if that is given.
func keysOf(cmd *cobra.Command, dir string) (keys []string) {
	s, err := definition.Load(dir)
	if err != nil {
		return nil
	}
	kind := ""
	if f := cmd.Flags().Lookup("kind"); f != nil {
		kind = f.Value.String()
	}
	for _, d := range s.Definitions {
		if kind == "" || d.Kind.String() == kind {
			keys = append(keys, d.Key)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// completeServed completes names that a running gateway serves, as words returns them
// for each workspace. Without a gateway it completes nothing.
func completeServed(words func(name string, w adminapi.LoadedWorkspace) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) (found []string, _ cobra.ShellCompDirective) {
		text := func(name string) string { return cmd.Flags().Lookup(name).Value.String() }
		client := gatewayClient{address: text("address"), config: text("config"), adapter: text("adapter")}
		var answer adminapi.Definitions
		if client.resolve() != nil || client.get("/cadenza/definitions", nil, &answer) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		for _, name := range slices.Sorted(maps.Keys(answer.Workspaces)) {
			if only := text("workspace"); only == "" || only == name {
				found = append(found, words(name, answer.Workspaces[name])...)
			}
		}
		slices.Sort(found)
		return slices.Compact(found), cobra.ShellCompDirectiveNoFileComp
	}
}
