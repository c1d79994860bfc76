package command

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/cadenza-gateway/cadenza/internal/visible"
)

// gatewayClient asks the admin API of a running gateway. Its flags are those of
// `caddy reload`.
type gatewayClient struct {
	address, config, adapter string
	workspace                string
}

func (g *gatewayClient) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&g.address, "address", "", "The address of the gateway's admin API, if not $CADENZA_ADMIN or the default")
	cmd.Flags().StringVar(&g.config, "config", "", "The configuration file to take the address from")
	cmd.Flags().StringVar(&g.adapter, "adapter", "", "The adapter of --config, if it is no Caddyfile")
	cmd.Flags().StringVarP(&g.workspace, "workspace", "w", "", "The workspace, where there are several")
}

// adminVariable is the environment variable that has the address of the admin API in the
// Caddyfiles that ship.
const adminVariable = "CADENZA_ADMIN"

// resolve finds the address of the admin API in the flags, the environment, or the
// Caddyfile, as `caddy reload` does. A command calls it before its requests.
func (g *gatewayClient) resolve() error {
	if set := os.Getenv(adminVariable); set != "" && g.address == "" && g.config == "" {
		g.address = set
	}
	if g.address != "" {
		address, err := plainAddress(g.address)
		g.address = address
		return err
	}
	config, file, err := g.configuration()
	if err != nil {
		return fmt.Errorf("%w; --address says where the gateway's admin API is", err)
	}
	var settings struct {
		Admin caddy.AdminConfig `json:"admin"`
	}
	if len(config) > 0 {
		if err := json.Unmarshal(config, &settings); err != nil {
			return fmt.Errorf("%s: its admin settings can't be read: %w", file, err)
		}
	}
	if settings.Admin.Disabled {
		return fmt.Errorf("%s turns the admin API off (admin off), and this command asks it: give the gateway one, or --address of another", file)
	}
	g.address = cmp.Or(settings.Admin.Listen, caddy.DefaultAdminListen)
	return nil
}

// plainAddress returns an address without the scheme and the path of a URL.
func plainAddress(address string) (string, error) {
	plain, isHTTP := strings.CutPrefix(address, "http://")
	if isHTTP {
		plain = strings.TrimSuffix(plain, "/")
	}
	if strings.Contains(plain, "://") || isHTTP && strings.Contains(plain, "/") {
		return "", fmt.Errorf("--address and %s take the admin API's HOST:PORT, or unix//PATH of its socket, this is %q", adminVariable, address)
	}
	return plain, nil
}

// configuration returns the configuration as JSON, and its file: --config or, as
// for `caddy reload`, the Caddyfile of the working directory. There may be none.
func (g *gatewayClient) configuration() (config []byte, file string, err error) {
	if g.config != "" {
		config, _, _, err = caddycmd.LoadConfig(g.config, g.adapter)
		return config, g.config, err
	}
	const adjacent = "Caddyfile"
	config, err = adaptConfig(adjacent, "caddyfile")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", nil
	}
	if err != nil {
		return nil, adjacent, fmt.Errorf("the %s of this folder can't be read: %w", adjacent, err)
	}
	return config, adjacent, nil
}

// gatewayError is the failure of a request to a gateway.
type gatewayError struct {
	status int // HTTP status of the answer; 0: no answer came
	text   string
}

func (e *gatewayError) Error() string { return e.text }

// refusal matches the error of Caddy's client for an answer that is an error:
// the status and the body are only in its text.
var refusal = regexp.MustCompile(`(?s)^caddy responded with error: HTTP (\d+): (.*)$`)

// setGiven sets a parameter to the value of a flag, unless the flag is empty.
func setGiven(values url.Values, name, flag string) {
	if flag != "" {
		values.Set(name, flag)
	}
}

// do makes one request. The error is a *gatewayError.
func (g *gatewayClient) do(method, path string, values url.Values) (*http.Response, error) {
	return g.send(method, path, values, nil, nil)
}

// send is do with headers and a body, which a request to delete has not.
func (g *gatewayClient) send(method, path string, values url.Values, header http.Header, body io.Reader) (*http.Response, error) {
	query := url.Values{}
	maps.Copy(query, values)
	setGiven(query, "workspace", g.workspace)
	switch {
	case len(query) == 0:
	case method == http.MethodDelete:
		body = strings.NewReader(query.Encode()) // a value that identifies a person, which logs must not have
	default:
		path += "?" + query.Encode()
	}
	// Caddy's client makes a pool of connections for each request, and never
	// closes them.
	all := http.Header{"Connection": {"close"}}
	maps.Copy(all, header)
	resp, err := caddycmd.AdminAPIRequest(g.address, method, path, all, body)
	if err == nil {
		return resp, nil
	}
	parts := refusal.FindStringSubmatch(err.Error())
	if parts == nil {
		return nil, &gatewayError{0, fmt.Sprintf("the gateway's admin API does not answer at %s: is it running, and is this its address (--address, --config)? %v", g.address, err)}
	}
	status, _ := strconv.Atoi(parts[1]) // digits, at worst too many
	var answer struct {
		Error string `json:"error"`
	}
	text := strings.TrimSpace(parts[2])
	if json.Unmarshal([]byte(parts[2]), &answer) == nil && answer.Error != "" {
		text = answer.Error
	} else if status == http.StatusNotFound {
		text = "its Caddy knows no " + strings.SplitN(path, "?", 2)[0] + ": it has another version or no Cadenza"
	}
	if workspaces, several := strings.CutPrefix(text, "workspace is missing: "); several {
		text = "several workspaces are served: add -w NAME, " + workspaces
	}
	return nil, &gatewayError{status, "the gateway refused (HTTP " + parts[1] + "): " + visible.Lines(text)}
}

// get asks for an answer and decodes its JSON.
func (g *gatewayClient) get(path string, values url.Values, answer any) error {
	return g.ask(http.MethodGet, path, values, answer)
}

// ask is get with a method.
func (g *gatewayClient) ask(method, path string, values url.Values, answer any) error {
	return g.post(method, path, values, nil, answer)
}

// post is ask with a body.
func (g *gatewayClient) post(method, path string, values url.Values, content io.Reader, answer any) error {
	resp, err := g.send(method, path, values, nil, content)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return &gatewayError{0, fmt.Sprintf("the gateway's answer broke off: %v", err)}
	}
	return decode(body, answer)
}

// show asks for an answer and writes it: as JSON as the admin API wrote it, or for people
// by forPeople.
func show[T any](cmd *cobra.Command, g *gatewayClient, path string, values url.Values, asJSON bool, forPeople func(*bytes.Buffer, styles, *T)) (*T, error) {
	if err := g.resolve(); err != nil {
		return nil, err
	}
	var text json.RawMessage
	if err := g.get(path, values, &text); err != nil {
		return nil, err
	}
	answer := new(T)
	if err := decode(text, answer); err != nil {
		return nil, err
	}
	return answer, writeReport(cmd, text, asJSON, func(b *bytes.Buffer, st styles) { forPeople(b, st, answer) })
}

// decode reads an answer of the admin API.
func decode(text []byte, answer any) error {
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("the gateway's answer can't be read; is it of another version? %w", err)
	}
	return nil
}
