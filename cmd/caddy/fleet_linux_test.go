package main

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// machines are those of docs/fleet.md, each with a folder that replaces its root.
type machines struct {
	t       *testing.T
	dir     string
	all     map[string]*process
	here    string // the machine that commands run on
	environ []string
}

// fleetMachines are the machines in the order of the page's Caddyfiles.
var fleetMachines = []string{"bundles", "gateway", "control", "relay", "edge"}

func newMachines(t *testing.T) *machines {
	for _, tool := range []string{"curl", "git"} {
		if _, err := exec.LookPath(tool); err != nil {
			if os.Getenv("CADENZA_REQUIRE_OPS") != "" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
	f := &machines{t: t, dir: t.TempDir(), all: make(map[string]*process)}
	for _, name := range fleetMachines {
		p := newProcess(t, filepath.Join(f.dir, name), "BUNDLE_TOKEN=token-of-bundles-0001")
		f.all[name] = p
		f.environ = append(p.environ, "PATH="+f.dir+"/bin:"+os.Getenv("PATH"),
			"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	}
	for _, folder := range []string{"admin/gateway/definitions/remoteconfigs", "srv/bundles"} {
		if err := os.MkdirAll(filepath.Join(f.dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	program, err := filepath.Abs(f.all["edge"].program[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, script := range map[string]string{
		"caddy": `#!/bin/sh
case "$1 $2" in
"cadenza pull" | "cadenza status") set -- "$@" --address "$HERE" ;;
reload*) set -- "$@" --address "$HERE" ;;
esac
exec ` + program + ` "$@"
`,
		"sudo":      "#!/bin/sh\nexec \"$@\"\n",
		"systemctl": "#!/bin/sh\nexec caddy reload --config \"$ETC/Caddyfile\" --adapter caddyfile\n",
		"aws":       "#!/bin/sh\ntest \"$1 $2 $4\" = \"s3 cp s3://acme-bundles/shop.tar.gz\"\ncp \"$3\" " + f.dir + "/srv/bundles/shop.tar.gz\n",
	} {
		writeScript(t, filepath.Join(f.dir, "bin", name), script)
	}
	return f
}

// etc returns the folder of a machine that replaces /etc/caddy.
func (f *machines) etc(machine string) string { return filepath.Join(f.dir, machine, "etc/caddy") }

// replace puts addresses and folders of the test into a text of the page.
func (f *machines) replace(text string) string {
	for name, p := range f.all {
		text = strings.ReplaceAll(text, "https://"+name+".example.com", p.url)
		text = strings.ReplaceAll("\n"+text, "\n"+name+".example.com {", "\n"+p.url+" {")[1:]
	}
	text = strings.ReplaceAll(text, "public_key bundle.pub\n", "public_key bundle.pub\n\t\t\tpoll 1s..1s\n")
	return strings.NewReplacer("/etc/caddy", f.etc(f.here), "/srv/bundles", f.dir+"/srv/bundles").Replace(text)
}

// run runs a script where the page's are run, for the machine that is here.
func (f *machines) run(script string, environ ...string) string {
	f.t.Helper()
	command := exec.CommandContext(f.t.Context(), "sh", "-euc", f.replace(script))
	command.Dir = filepath.Join(f.dir, "admin")
	command.Env = append(append(f.environ, environ...), "ETC="+f.etc(f.here))
	if p := f.all[f.here]; p != nil {
		command.Env = append(command.Env, "HERE="+p.admin)
	}
	output, err := command.CombinedOutput()
	if err != nil {
		log := ""
		if p := f.all[f.here]; p != nil {
			log = p.output.String()
		}
		f.t.Fatalf("%v\n%s\n%s\nThe log of %s:\n%s", err, script, output, f.here, log)
	}
	return string(output)
}

// start starts a machine with a Caddyfile of the page.
func (f *machines) start(machine, caddyfile string) {
	f.t.Helper()
	f.here = machine
	p := f.all[machine]
	if strings.HasPrefix(caddyfile, "{\n") {
		caddyfile = "{\n\tadmin " + p.admin + caddyfile[1:]
	} else {
		caddyfile = "{\n\tadmin " + p.admin + "\n}\n" + caddyfile
	}
	writeFile(f.t, filepath.Join(f.etc(machine), "Caddyfile"), f.replace(caddyfile))
	f.again(machine)
}

// again starts a machine with the Caddyfile that it has.
func (f *machines) again(machine string) {
	f.t.Helper()
	p := f.all[machine]
	p.run("run", "--config", filepath.Join(f.etc(machine), "Caddyfile"), "--adapter", "caddyfile")
	p.eventually("it answers", func() bool {
		response, err := http.Get(p.url + "/")
		if err == nil {
			response.Body.Close()
		}
		return err == nil
	})
}

// edit commits a value in the repository.
func (f *machines) edit(value string) {
	f.t.Helper()
	writeFile(f.t, filepath.Join(f.dir, "admin/gateway/definitions/remoteconfigs/banner.yaml"), "type: string\ndefault: "+value+"\n")
	f.run("git -C gateway add -A; git -C gateway commit -qm " + value)
}

// pull has the control's checkout follow the repository.
func (f *machines) pull() {
	f.t.Helper()
	f.here = "control"
	f.run("git -C /etc/caddy/gateway pull -q --ff-only")
}

// serves waits until a machine serves a value.
func (f *machines) serves(machine, value string) {
	f.t.Helper()
	f.all[machine].answers("/v1/remoteconfigs", `{"keys":["banner"]}`, `"`+value+`"`)
}

// TestFleetPage runs the commands of docs/fleet.md in their order, with its Caddyfiles, each
// on a machine of its own. Then it takes parts away, as the page's table does.
func TestFleetPage(t *testing.T) {
	t.Parallel()
	f := newMachines(t)
	text, err := os.ReadFile("../../docs/fleet.md")
	if err != nil {
		t.Fatal(err)
	}
	f.run("git init -q -b main gateway")
	f.edit("first")
	f.edit("second")
	next := 0
	output := ""
	for _, m := range regexp.MustCompile("(?s)```(sh|caddyfile)\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		if m[1] == "caddyfile" {
			f.here = fleetMachines[next]
			next++
			f.run("mkdir -p /etc/caddy; cp bundle.pub /etc/caddy")
			if f.here == "control" {
				f.run("cp bundle.key /etc/caddy; git clone -q gateway /etc/caddy/gateway")
			}
			f.start(f.here, m[2])
			if f.here != "bundles" {
				f.serves(f.here, "second")
			}
			continue
		}
		if output += f.run(m[2]); f.here != "" {
			f.run("cp *.pub /etc/caddy") // the page says where public keys go
		}
	}
	if next != len(fleetMachines) {
		t.Fatalf("the page has %d Caddyfiles", next)
	}
	for _, part := range []string{"serial", "unchanged", "remoteconfigs/banner.yaml"} {
		if !strings.Contains(output, part) {
			t.Errorf("no %q in\n%s", part, output)
		}
	}

	// An edit goes through control and relay to the edge.
	f.edit("third")
	f.pull()
	for _, machine := range []string{"control", "relay", "edge"} {
		f.serves(machine, "third")
	}

	// The next key signs, once the relay knows it as the edge does.
	f.here = "relay"
	f.run("cp next.pub /etc/caddy; sed -i 's/public_key bundle.pub$/public_key bundle.pub next.pub/' /etc/caddy/Caddyfile; sudo systemctl reload cadenza")
	f.here = "control"
	f.run("cp next.key /etc/caddy/bundle.key; caddy reload --force --config /etc/caddy/Caddyfile --adapter caddyfile")
	f.edit("fourth")
	f.pull()
	f.serves("edge", "fourth")

	// Without relay the edge asks its mirror. Without both, and after a start, it serves what
	// it has.
	f.all["relay"].kill()
	f.edit("fifth")
	f.pull()
	f.serves("edge", "fifth")
	f.all["control"].kill()
	f.all["edge"].kill()
	f.again("edge")
	f.serves("edge", "fifth")

	// The pipeline's bundle reaches those that poll.
	f.workflow()
	f.here = "gateway"
	f.run("caddy cadenza pull")
	f.serves("gateway", "fifth")
}

// workflow runs the steps of the workflow that is an example.
func (f *machines) workflow() {
	f.t.Helper()
	text, err := os.ReadFile("../../examples/fleet/bundle.yml")
	if err != nil {
		f.t.Fatal(err)
	}
	var workflow struct {
		Jobs map[string]struct {
			Env   map[string]string
			Steps []struct{ Name, Run string }
		}
	}
	if err := yaml.Unmarshal(text, &workflow); err != nil {
		f.t.Fatal(err)
	}
	key, err := os.ReadFile(filepath.Join(f.dir, "admin/bundle.key"))
	if err != nil {
		f.t.Fatal(err)
	}
	// An edit that removes most definitions passes with its file.
	f.run("touch gateway/definitions/.cadenza-allow-empty")
	ran := 0
	for _, step := range workflow.Jobs["bundle"].Steps {
		if step.Run == "" || step.Name == "Install" {
			continue
		}
		ran++
		f.run("cd gateway; cp ../bundle.pub .\n"+step.Run, "RUNNER_TEMP="+f.dir, "BUCKET="+workflow.Jobs["bundle"].Env["BUCKET"], "BUNDLE_KEY="+string(key))
	}
	if ran != 3 {
		f.t.Errorf("%d steps", ran)
	}
}
