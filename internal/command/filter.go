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
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
)

// addFilterFlags adds --since, --until and the named filter flags. Without a name it adds
// all of them and --metadata.
func addFilterFlags(cmd *cobra.Command, names ...string) {
	flags := cmd.Flags()
	flags.String("since", "", "From when on: a time (RFC 3339), a date, or how long ago, such as 2h or 7d")
	flags.String("until", "", "Until when, as --since")
	for i := range sqlite.FilterFields {
		f := &sqlite.FilterFields[i]
		switch name := flagOf(f); {
		case f.Usage == "", len(names) > 0 && !slices.Contains(names, name):
		case f.Bool:
			flags.Bool(name, false, f.Usage)
		default:
			flags.String(name, "", f.Usage)
		}
	}
	if len(names) == 0 {
		flags.StringArray("metadata", nil, "With this member of the metadata, as NAME=VALUE; repeatable")
		flags.StringArray("field", nil, "Decided by this value of a field of the data model, as NAME=VALUE; repeatable")
	}
}

// flagOf returns the flag of a parameter of the admin API: --api-key is api_key.
func flagOf(f *sqlite.FilterField) string { return strings.ReplaceAll(f.Name, "_", "-") }

// filterValues returns the filter flags as parameters of the admin API. It fixes a time
// such as 2h ago, so that all pages of a list count from one instant. more are other flags
// whose parameters have their names.
func filterValues(cmd *cobra.Command, now time.Time, more ...string) (url.Values, error) {
	values := url.Values{}
	for _, name := range more {
		setGiven(values, name, cmd.Flags().Lookup(name).Value.String())
	}
	for i := range sqlite.FilterFields {
		f := &sqlite.FilterFields[i]
		if flag := cmd.Flags().Lookup(flagOf(f)); f.Usage != "" && flag != nil && !(f.Bool && flag.Value.String() == "false") {
			setGiven(values, f.Name, flag.Value.String())
		}
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
	for flag, parameter := range map[string]string{"metadata": adminapi.MetadataParameter, "field": adminapi.InputParameter} {
		members, _ := cmd.Flags().GetStringArray(flag) // none if the command lacks the flag
		for _, member := range members {
			name, value, err := splitMember(flag, member)
			if err != nil {
				return nil, err
			}
			values.Add(parameter+name, value)
		}
	}
	return values, nil
}

// splitMember splits the value of a flag, NAME=VALUE.
func splitMember(flag, member string) (name, value string, err error) {
	name, value, ok := strings.Cut(member, "=")
	if !ok || name == "" {
		return "", "", fmt.Errorf("--%s takes NAME=VALUE, this is %q", flag, member)
	}
	if value == "" {
		value = `""` // the empty text, as JSON: an empty parameter asks for nothing
	}
	return name, value, nil
}
