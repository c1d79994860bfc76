package command

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
)

// filterFlags are the flags that choose traces by a text. They are parameters of
// the admin API, with hyphens: --api-key is api_key.
var filterFlags = [...]struct{ name, usage string }{
	{"kind", "prompt, endpoint or remoteconfig"},
	{"key", "Of the definition with this key"},
	{"api-key", "Asked for with the API key of this name"},
	{"status", "ok, error, or an HTTP status"},
	{"provider", "Answered by this provider"},
	{"model", "Answered by this model"},
	{"code", "Failed with this error code"},
	{"finish-reason", "stop, tool_calls, length or content_filter"},
	{"state", "started, ended or interrupted"},
	{"version", "Answered by this version of a definition or of an endpoint's prompt"},
	{"revision", "Answered by this revision of the workspace"},
	{"variant", "Answered by this variant of a prompt"},
	{"arm", "Answered by this arm: a prompt's variant, or a part of a configuration's split"},
	{"decision", "Of this decision: its id, or the beginning of it"},
	{"slower", "That took at least as long, such as 2s"},
	{"attempts", "With at least as many attempts at providers"},
	{"score", "Of which the score reported last is in this range, such as ..20, 80.. or 20..40"},
	{"chain-id", "With metrics of this chain"},
	{"conversation-id", "With metrics of this conversation"},
}

// addFilterFlags adds --since, --until, and the named filter flags or, without a
// name, all of them and --metadata.
func addFilterFlags(cmd *cobra.Command, names ...string) {
	flags := cmd.Flags()
	flags.String("since", "", "From when on: a time (RFC 3339), a date, or how long ago, such as 2h or 7d")
	flags.String("until", "", "Until when, as --since")
	for _, f := range filterFlags {
		if len(names) == 0 || slices.Contains(names, f.name) {
			flags.String(f.name, "", f.usage)
		}
	}
	if len(names) == 0 {
		flags.Bool("fallback", false, "That went beyond their first target: it failed or was left out")
		flags.StringArray("metadata", nil, "With this member of the metadata, as NAME=VALUE; repeatable")
	}
}

// filterValues returns the filter flags as parameters of the admin API. A time
// such as 2h ago is fixed here, so that all pages of a list count from one
// instant.
func filterValues(cmd *cobra.Command, now time.Time) (url.Values, error) {
	values := url.Values{}
	for _, f := range filterFlags {
		if flag := cmd.Flags().Lookup(f.name); flag != nil {
			setGiven(values, strings.ReplaceAll(f.name, "-", "_"), flag.Value.String())
		}
	}
	if fallback, _ := cmd.Flags().GetBool("fallback"); fallback { // false for a command without the flag
		values.Set("fallback", "true")
	}
	var times [2]time.Time
	for i, name := range [...]string{"since", "until"} {
		at, err := adminapi.ParsePast("--"+name, cmd.Flags().Lookup(name).Value.String(), now)
		if err != nil {
			return nil, err
		}
		if times[i] = at; !at.IsZero() {
			values.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	if !times[0].IsZero() && !times[1].IsZero() && !times[0].Before(times[1]) {
		return nil, errors.New("--since must be before --until")
	}
	members, _ := cmd.Flags().GetStringArray("metadata") // none of a command without the flag
	for _, member := range members {
		name, value, err := splitMember(member)
		if err != nil {
			return nil, err
		}
		values.Add(adminapi.MetadataParameter+name, value)
	}
	return values, nil
}

// splitMember splits the value of --metadata, NAME=VALUE.
func splitMember(member string) (name, value string, err error) {
	name, value, ok := strings.Cut(member, "=")
	if !ok || name == "" {
		return "", "", fmt.Errorf("--metadata takes NAME=VALUE, this is %q", member)
	}
	if value == "" {
		value = `""` // the empty text, as JSON: an empty parameter asks for nothing
	}
	return name, value, nil
}
