package command

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/trace"
)

// helpFooter ends the help of each command. Caddy's own leads to a page that knows
// nothing of Cadenza.
const helpFooter = `
Full documentation is available at:
https://github.com/cadenza-gateway/cadenza/blob/main/docs/tools.md{{if not .HasSubCommands}}#{{.Name}}{{end}}
`

// flagsInUse matches the flags in a line of use, such as [-w | --diff].
var flagsInUse = regexp.MustCompile(`\[-[^]]*\]`)

// argumentsOf returns the names of a command's arguments by its line of use.
func argumentsOf(cmd *cobra.Command) []string {
	return strings.Fields(flagsInUse.ReplaceAllString(cmd.Use, ""))[1:]
}

// checkArguments refuses arguments that are missing or too many for the command's
// line of use, in which [NAME] may be left out and NAME... repeated.
func checkArguments(cmd *cobra.Command, args []string) error {
	names := argumentsOf(cmd)
	least, most := 0, len(names)
	for _, name := range names {
		if !strings.HasPrefix(name, "[") {
			least++
		}
		if strings.Contains(name, "...") {
			most = math.MaxInt
		}
	}
	usage := strings.TrimSuffix(cmd.UseLine(), " [flags]")
	switch {
	case len(args) < least:
		missing := strings.TrimSuffix(strings.Join(names[len(args):least], " and "), "...")
		verb := "is"
		if least-len(args) > 1 {
			verb = "are"
		}
		return fmt.Errorf("%s %s missing: %s (--help says more)", missing, verb, usage)
	case len(args) > most:
		return fmt.Errorf("%q is one argument too many: %s (--help says more)", args[most], usage)
	}
	return nil
}

// flagValues are the values of flags that are known, by the name of the flag.
var flagValues = map[string][]string{
	"kind":          {trace.KindPrompt.String(), trace.KindEndpoint.String(), trace.KindRemoteConfig.String()},
	"status":        {"ok", "error"},
	"state":         {trace.StateStarted.String(), trace.StateEnded.String(), trace.StateInterrupted.String()},
	"finish-reason": trace.FinishReasons,
	"interval":      {"hour", "day", "all"},
	"by":            {"variant", "arm", "version"},
	"sort":          {"time", "latency", "score"},
}

// addCompletions has shells complete the arguments and the flags of a command.
func addCompletions(cmd *cobra.Command) {
	cmd.ValidArgsFunction = completeArgument
	for name, values := range flagValues {
		addCompletion(cmd, name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
	addCompletion(cmd, "workspace", completeServed(func(name string, _ servedWorkspace) []string { return []string{name} }))
	addCompletion(cmd, "key", completeServed(func(_ string, w servedWorkspace) (keys []string) {
		for _, d := range w.Definitions {
			keys = append(keys, d.Key)
		}
		return keys
	}))
}

// addCompletion has shells complete a flag, if the command has it and does not
// complete it itself.
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

// keysOf returns the keys of a workspace that loads, of --kind if that is given.
func keysOf(cmd *cobra.Command, dir string) (keys []string) {
	s, err := definition.Load(dir)
	if err != nil {
		return nil
	}
	kind := ""
	if f := cmd.Flags().Lookup("kind"); f != nil {
		kind = f.Value.String()
	}
	for d := range s.All() {
		if kind == "" || d.Kind.String() == kind {
			keys = append(keys, d.Key)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// servedWorkspace is the part of GET /cadenza/definitions that completion uses.
type servedWorkspace struct {
	Definitions []struct {
		Key string `json:"key"`
	} `json:"definitions"`
}

// completeServed completes what a running gateway serves. Without one, there is
// nothing to complete.
func completeServed(of func(name string, w servedWorkspace) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) (words []string, _ cobra.ShellCompDirective) {
		text := func(name string) string { return cmd.Flags().Lookup(name).Value.String() }
		client := gatewayClient{address: text("address"), config: text("config"), adapter: text("adapter")}
		var answer struct {
			Workspaces map[string]servedWorkspace `json:"workspaces"`
		}
		if client.resolve() != nil || client.get("/cadenza/definitions", nil, &answer) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		for _, name := range slices.Sorted(maps.Keys(answer.Workspaces)) {
			if only := text("workspace"); only == "" || only == name {
				words = append(words, of(name, answer.Workspaces[name])...)
			}
		}
		slices.Sort(words)
		return slices.Compact(words), cobra.ShellCompDirectiveNoFileComp
	}
}
