package command

import "github.com/spf13/cobra"

// own is `caddy cadenza`; nil in a program that is not Caddy's command line.
var own *cobra.Command

// Called reports whether this process is the command of Caddy's with the name, such
// as "run". It is none of them where another program has Caddy built in and loads
// configurations itself.
func Called(name string) bool {
	if own == nil {
		return false
	}
	for _, command := range own.Root().Commands() {
		if command.Name() == name {
			return command.CalledAs() != ""
		}
	}
	return false
}
