// Command release makes what a release is made of, from the checkout that it is run
// in: an archive with a static binary for each system, an image for containers as
// an OCI archive, a bill of materials for each binary, and the SHA-256 sums of all.
//
//	cd release && go run . -output ../dist
//
// It needs Go and no engine for containers. Two runs at the same commit make the
// same bytes: times are those of the commit.
package main

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// targets are the systems that a release has binaries for.
var targets = []string{
	"linux/amd64", "linux/arm64",
	"darwin/amd64", "darwin/arm64",
	"windows/amd64", "windows/arm64",
}

// release is what one run makes.
type release struct {
	root    string // of the checkout
	output  string
	version string // as in the names of files, without "v"
	created time.Time
	build   []string // arguments of go build before -o: flags
	main    string   // the package of the binary
	// authorities is the file of certificates that the image trusts.
	authorities string
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	r := release{
		// As xcaddy.sh builds it.
		build: []string{"-trimpath", "-ldflags=-s -w", "-tags=nobadger,nomysql,nopgx"},
		main:  "./cmd/caddy",
	}
	flags.StringVar(&r.root, "checkout", "..", "`directory` of the checkout")
	flags.StringVar(&r.output, "output", "../dist", "`directory` of the files, made if it does not exist")
	flags.StringVar(&r.version, "version", "", "`version` in the names of files (default: git describe)")
	flags.StringVar(&r.authorities, "authorities", "/etc/ssl/certs/ca-certificates.crt", "PEM `file` of the authorities that the image trusts")
	list := flags.String("targets", strings.Join(targets, ","), "`systems` to build for")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", flags.Arg(0))
	}
	if err := r.describe(); err != nil {
		return err
	}
	return r.make(strings.Split(*list, ","))
}

// describe fills in the version and the time of the commit.
func (r *release) describe() error {
	git := func(args ...string) (string, error) {
		command := exec.Command("git", args...)
		command.Dir = r.root
		command.Stderr = os.Stderr
		text, err := command.Output()
		return strings.TrimSpace(string(text)), err
	}
	if r.version == "" {
		version, err := git("describe", "--tags", "--always", "--dirty")
		if err != nil {
			return fmt.Errorf("git describe: %w: give -version", err)
		}
		r.version = version
	}
	r.version = strings.TrimPrefix(r.version, "v")
	// https://reproducible-builds.org/docs/source-date-epoch/
	epoch := os.Getenv("SOURCE_DATE_EPOCH")
	if epoch == "" {
		committed, err := git("log", "-1", "--format=%ct")
		if err != nil {
			return fmt.Errorf("git log: %w: set SOURCE_DATE_EPOCH", err)
		}
		epoch = committed
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH must be Unix seconds, this is %q", epoch)
	}
	r.created = time.Unix(seconds, 0).UTC()
	return nil
}

// make makes everything for the systems in list.
func (r *release) make(list []string) error {
	for _, target := range list {
		if !slices.Contains(targets, target) {
			return fmt.Errorf("there is no target %q: known are %s", target, strings.Join(targets, ", "))
		}
	}
	if err := os.MkdirAll(r.output, 0o755); err != nil {
		return err
	}
	if left, err := os.ReadDir(r.output); err != nil || len(left) > 0 {
		return cmp.Or(err, fmt.Errorf("%s is not empty: its files would get into the sums", r.output))
	}
	// Binaries are built outside of the output: archives have them.
	binaries, err := os.MkdirTemp("", "cadenza-release")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(binaries) }()
	var linux []platform
	for _, target := range list {
		system, arch, _ := strings.Cut(target, "/")
		fmt.Println(target)
		binary := filepath.Join(binaries, system+"_"+arch, "caddy")
		if system == "windows" {
			binary += ".exe"
		}
		if err := r.compile(system, arch, binary); err != nil {
			return fmt.Errorf("%s: %w", target, err)
		}
		name := filepath.Join(r.output, fmt.Sprintf("cadenza_%s_%s_%s", r.version, system, arch))
		if err := r.archive(name, system, binary); err != nil {
			return fmt.Errorf("%s: %w", target, err)
		}
		if err := r.writeBill(name+".cdx.json", binary); err != nil {
			return fmt.Errorf("%s: %w", target, err)
		}
		if system == "linux" {
			linux = append(linux, platform{arch, binary})
		}
	}
	if len(linux) > 0 {
		fmt.Println("image")
		if err := r.writeImage(filepath.Join(r.output, fmt.Sprintf("cadenza_%s_image.tar", r.version)), linux); err != nil {
			return fmt.Errorf("image: %w", err)
		}
	}
	return r.writeSums()
}

// compile builds a static binary.
func (r *release) compile(system, arch, binary string) error {
	args := append([]string{"build"}, r.build...)
	command := exec.Command("go", append(args, "-o", binary, r.main)...)
	command.Dir = r.root
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+arch, "GOFLAGS=", "GOWORK=off")
	command.Stdout, command.Stderr = os.Stderr, os.Stderr
	return command.Run()
}

// writeSums writes SHA256SUMS, which `sha256sum --check` reads.
func (r *release) writeSums() error {
	entries, err := os.ReadDir(r.output)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, entry := range entries {
		sum, err := sumOf(filepath.Join(r.output, entry.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%x  %s\n", sum, entry.Name())
	}
	return os.WriteFile(filepath.Join(r.output, "SHA256SUMS"), []byte(text.String()), 0o644)
}

func sumOf(path string) (sum []byte, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	hash := sha256.New()
	_, err = io.Copy(hash, file)
	return hash.Sum(nil), err
}

// create writes a file by with.
func create(path string, with func(io.Writer) error) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(with(file), file.Close())
}
