package edit

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Repository is the work tree of git that a workspace is in.
type Repository struct {
	Top    string // its directory
	Prefix string // of the workspace's files below it: empty, or with a slash at its end
}

// FindRepository returns the repository that a directory is in, or nil.
func FindRepository(dir string) *Repository {
	dir, err := filepath.Abs(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return nil
	}
	for top := dir; ; top = filepath.Dir(top) {
		if _, err := os.Lstat(filepath.Join(top, ".git")); err == nil {
			prefix, _ := filepath.Rel(top, dir) // both are absolute
			if prefix = filepath.ToSlash(prefix) + "/"; prefix == "./" {
				prefix = ""
			}
			return &Repository{top, prefix}
		}
		if top == filepath.Dir(top) {
			return nil
		}
	}
}

const (
	gitTime  = 20 * time.Second // of one run of git
	pushTime = 90 * time.Second
	// outputWait is how long an ended git's output may be held open by what it started.
	outputWait = 5 * time.Second
	// maxGitOutput bounds what is kept of the output of git, in bytes.
	maxGitOutput = 64 << 10
)

// settings are options of every run of git: no hook, monitor, signature or prompt, no work
// in the background, and no program for the one filter that conversions can't tell from none.
var settings = []string{
	"-c", "core.hooksPath=" + os.DevNull, "-c", "core.fsmonitor=false", "-c", "core.askPass=", "-c", "core.untrackedCache=false",
	"-c", "commit.gpgSign=false", "-c", "push.gpgSign=false", "-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "protocol.ext.allow=never", "-c", "filter.unspecified.process=",
}

// inherited are the variables of the environment that git gets: where programs and keys
// are, and how to reach the network.
var inherited = []string{"PATH", "HOME", "XDG_CONFIG_HOME", "SSH_AUTH_SOCK", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR", "TMPDIR", "TEMP", "SYSTEMROOT", "USERPROFILE"}

// capped keeps the first bytes of an output.
type capped struct{ bytes.Buffer }

func (c *capped) Write(text []byte) (int, error) {
	_, _ = c.Buffer.Write(text[:min(len(text), maxGitOutput-min(c.Len(), maxGitOutput))])
	return len(text), nil
}

// git runs git in the repository, in at most so much time, and returns its output and its
// messages.
func (r *Repository) git(ctx context.Context, most time.Duration, stdin []byte, more []string, args ...string) (out, messages string, err error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", slices.Concat(settings, args)...) //nolint:gosec // no shell, and names come after "--" or by the input
	cmd.Dir = r.Top
	cmd.Env = slices.Concat([]string{"LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_EDITOR=:", "GIT_LITERAL_PATHSPECS=1", "GIT_OPTIONAL_LOCKS=0", "GIT_SSH_VARIANT=ssh"}, more)
	for _, name := range inherited {
		if value, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	var stdout, stderr capped
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &stdout, &stderr
	cmd.WaitDelay = outputWait
	ownGroup(cmd)
	err = cmd.Run()
	switch {
	case err == nil:
	case ctx.Err() != nil:
		err = fmt.Errorf("git %s was ended: %w", args[0], context.Cause(ctx))
	default:
		err = fmt.Errorf("git %s failed: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), stderr.String(), err
}

// ask runs git and returns the line that it prints.
func (r *Repository) ask(ctx context.Context, args ...string) (string, error) {
	out, _, err := r.git(ctx, gitTime, nil, nil, args...)
	return strings.TrimSpace(out), err
}

// undertakings are files in git's directory that exist while something is under way.
var undertakings = map[string]string{
	"MERGE_HEAD": "a merge", "CHERRY_PICK_HEAD": "a cherry-pick", "REVERT_HEAD": "a revert", "sequencer": "a cherry-pick or a revert", "BISECT_LOG": "a bisection",
	"rebase-merge": "a rebase", "rebase-apply": "a rebase", "index.lock": "a change of the index",
}

// Ready returns an error where a commit of changes would disturb what is under way in the
// work tree, would be on no branch, or would replace what somebody put into the index.
func (r *Repository) Ready(ctx context.Context, changes Changes) error {
	at, err := r.ask(ctx, "rev-parse", "--absolute-git-dir")
	if err != nil {
		return err
	}
	for name, what := range undertakings {
		if _, err := os.Lstat(filepath.Join(at, name)); err == nil {
			return fmt.Errorf("%s is under way in %s: end it first", what, r.Top)
		}
	}
	if _, err := r.ask(ctx, "symbolic-ref", "--quiet", "HEAD"); err != nil {
		return fmt.Errorf("%s is on no branch (its HEAD is detached): check out a branch first", r.Top)
	}
	args := []string{"diff", "--cached", "--name-only", "-z", "--no-renames", "--"}
	for _, c := range changes {
		args = append(args, r.Prefix+cmp.Or(c.Old, c.New), r.Prefix+c.Name())
	}
	staged, err := r.ask(ctx, args...)
	if file, _, ok := strings.Cut(staged, "\x00"); ok {
		return fmt.Errorf("%s is not as in the last commit in the index of %s: commit what was changed there first", file, r.Top)
	}
	return err
}

// Commit is a commit that no branch has yet.
type Commit struct {
	repository *Repository
	ID         string
	parent     string
	index      []byte // the entries of the changed files, as update-index reads them
}

// Prepare makes a commit of changes on top of the last one, by an index of its own. The
// work tree, its index and its branch stay as they are. The changed files must be those of
// the last commit: what somebody else has changed there is not committed.
func (r *Repository) Prepare(ctx context.Context, changes Changes, author, message string) (*Commit, error) {
	parent, err := r.ask(ctx, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
	if err != nil {
		return nil, fmt.Errorf("%s has no commit: make a first one", r.Top)
	}
	temp, err := os.MkdirTemp("", "cadenza-edit-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(temp) }()
	own := []string{"GIT_INDEX_FILE=" + filepath.Join(temp, "index")}
	commit := &Commit{repository: r, parent: parent}
	for _, c := range changes {
		if err := commit.add(ctx, c); err != nil {
			return nil, err
		}
	}
	run := func(stdin []byte, more []string, args ...string) string {
		if err != nil {
			return ""
		}
		var out string
		out, _, err = r.git(ctx, gitTime, stdin, more, args...)
		return strings.TrimSpace(out)
	}
	run(nil, own, "read-tree", parent)
	run(commit.index, own, "update-index", "-z", "--index-info")
	tree := run(nil, own, "write-tree")
	name := strings.Trim(strings.Map(func(c rune) rune {
		if c < ' ' || strings.ContainsRune("<>\x7f", c) {
			return -1
		}
		return c
	}, author), " .,:;'\"")
	who := []string{"GIT_AUTHOR_NAME=" + name, "GIT_AUTHOR_EMAIL=" + slug(name) + "@cadenza.invalid", "GIT_COMMITTER_NAME=" + name, "GIT_COMMITTER_EMAIL=" + slug(name) + "@cadenza.invalid"}
	commit.ID = run([]byte(message+"\n"), who, "commit-tree", tree, "-p", parent, "-F", "-")
	return commit, err
}

// add adds a change to the entries of the index.
func (c *Commit) add(ctx context.Context, change *Change) error {
	r := c.repository
	mode, how, err := r.committed(ctx, change)
	if err != nil {
		return err
	}
	if change.Old != "" && change.Old != change.New {
		c.index = fmt.Appendf(c.index, "0 %s\t%s\x00", strings.Repeat("0", len(c.parent)), r.Prefix+change.Old)
	}
	if change.New == "" {
		return nil
	}
	if change.Old != change.New {
		how = r.conversions(ctx, r.Prefix+change.New)[0]
	}
	blob, _, err := r.git(ctx, gitTime, change.After, nil, "hash-object", "-w", how, "--stdin")
	c.index = fmt.Appendf(c.index, "%s %s\t%s\x00", mode, strings.TrimSpace(blob), r.Prefix+change.New)
	return err
}

// conversions returns the options by which hash-object may read a file: as git adds it,
// such as with other line ends, unless a program of an attribute would run; and as it is.
func (r *Repository) conversions(ctx context.Context, file string) []string {
	if filter, err := r.ask(ctx, "check-attr", "-z", "filter", "--", file); err != nil || !strings.HasSuffix(filter, "\x00unspecified\x00") {
		return []string{"--no-filters"}
	}
	return []string{"--path=" + file, "--no-filters"}
}

// committed checks that the changed file is that of the last commit, and returns its mode
// and the conversion by which it is.
func (r *Repository) committed(ctx context.Context, c *Change) (mode, how string, err error) {
	file := r.Prefix + cmp.Or(c.Old, c.New)
	entry, err := r.ask(ctx, "ls-tree", "-z", "HEAD", "--", file)
	entry, _, _ = strings.Cut(entry, "\t")
	mode, _, _ = strings.Cut(entry, " ")
	switch {
	case err != nil:
		return "", "", err
	case c.Old == "" && entry != "":
		return "", "", fmt.Errorf("the last commit of %s has a file %s, which is gone here: commit that first", r.Top, file)
	case c.Old == "":
		return "100644", "", nil
	case mode == "120000":
		return "", "", fmt.Errorf("%s is a link: edit the file that it leads to", file)
	}
	for _, how := range r.conversions(ctx, file) {
		blob, _, err := r.git(ctx, gitTime, c.Before, nil, "hash-object", how, "--stdin")
		if err != nil || strings.HasSuffix(entry, " blob "+strings.TrimSpace(blob)) {
			return mode, how, err
		}
	}
	return "", "", fmt.Errorf("%s is not as in the last commit of %s: commit what was changed there first", file, r.Top)
}

// Advance moves the work tree's branch to the commit, and its index with it. The files are
// written already. It returns the commit if the branch has moved, also with an error.
func (c *Commit) Advance(ctx context.Context) (id string, err error) {
	if _, err := c.repository.ask(ctx, "update-ref", "-m", "commit: by the console", "HEAD", c.ID, c.parent); err != nil {
		return "", fmt.Errorf("it is written, and not committed: %w", err)
	}
	if _, _, err := c.repository.git(ctx, gitTime, c.index, nil, "update-index", "-z", "--index-info"); err != nil {
		return c.ID, fmt.Errorf("it is written and committed, and the index lacks it (git reset mends that, and takes out what else was added): %w", err)
	}
	return c.ID, nil
}

// Pushed is a branch that was made.
type Pushed struct {
	Remote string `json:"remote"`
	Branch string `json:"branch"`
	// Link is the address that the git host prints, for a merge of the branch.
	Link string `json:"link,omitempty"`
}

// Push pushes the commit as a new branch of a remote: origin, or the only one. It neither
// makes a branch here nor moves one there.
func (c *Commit) Push(ctx context.Context, branch string) (*Pushed, error) {
	out, err := c.repository.ask(ctx, "remote")
	if err != nil {
		return nil, err
	}
	remotes := strings.Fields(out)
	remote := "origin"
	if len(remotes) == 1 {
		remote = remotes[0]
	}
	if !slices.Contains(remotes, remote) {
		return nil, fmt.Errorf("%s has %d remotes and none is called origin: give one this name (git remote add origin URL)", c.repository.Top, len(remotes))
	}
	_, messages, err := c.repository.git(ctx, pushTime, nil, nil, "push", "--no-verify", "--no-follow-tags", "--recurse-submodules=no", "--force-with-lease=refs/heads/"+branch+":", "--", remote, c.ID+":refs/heads/"+branch)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the branch %s could not be pushed to %s", branch, remote), err)
	}
	return &Pushed{remote, branch, linkOf(messages)}, nil
}

// linkOf returns the last address among the messages of a git host.
func linkOf(messages string) (link string) {
	for line := range strings.Lines(messages) {
		said, ok := strings.CutPrefix(line, "remote:")
		if !ok {
			continue
		}
		for word := range strings.FieldsSeq(said) {
			if u, err := url.Parse(word); err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" {
				link = u.String()
			}
		}
	}
	return link
}

// Branch returns the name of the branch for changes by a visitor, made to a file or for
// a revision. Other changes have another name.
func (l Changes) Branch(author, name string) string {
	return "cadenza/" + slug(author) + "-" + slug(strings.TrimSuffix(path.Base(name), path.Ext(name))) + "-" + Hash([]byte(l.Patch("")))[:8]
}

// slug returns a text as a part of a branch's name.
func slug(text string) string {
	const most = 40
	text = strings.Map(func(c rune) rune {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_':
			return c
		}
		return '-'
	}, text)
	if text = strings.Trim(text[:min(len(text), most)], "-"); text == "" {
		return "x"
	}
	return text
}
