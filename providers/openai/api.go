package openai

import (
	"fmt"
	"regexp"

	"github.com/cadenza-gateway/cadenza/providers"
)

// The APIs of Config.API: chat completions, and the Responses API.
const (
	APIChat      = "chat"
	APIResponses = "responses"
)

// checkAPI returns the error of a value of Config.API.
func checkAPI(api string) error {
	switch api {
	case "", APIChat, APIResponses:
		return nil
	}
	return fmt.Errorf("api is %s or %s, not %q", APIChat, APIResponses, api)
}

// responds reports whether a request goes to the Responses API.
func (c *Client) responds(*providers.Request) bool { return c.api == APIResponses }

// reasons reports whether a model may think before it answers. The others refuse to be
// asked for their thoughts.
func reasons(model string) bool { return !older.MatchString(model) && !chatty.MatchString(model) }

// chatty matches the models of ChatGPT, which do not reason.
var chatty = regexp.MustCompile(`^(?:ft:)?gpt-5.*-chat(?:-|$)`)
