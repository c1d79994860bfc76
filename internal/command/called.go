package command

import "github.com/spf13/cobra"

// own is the command `caddy cadenza`. It is nil in a program that is not Caddy's command
// line.
var own *cobra.Command

// Called reports whether this process runs Caddy's command with the name, such as "run".
// A program that embeds Caddy and loads configurations itself runs no command.
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
