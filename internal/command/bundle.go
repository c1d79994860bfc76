package command

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/cadenza-gateway/cadenza/internal/bundle"
	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/regular"
	"github.com/cadenza-gateway/cadenza/internal/visible"
)

func bundleCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bundle",
		Short: "Builds, verifies and shows signed bundles of definitions",
		Long: `
A bundle is a workspace as one signed file, in the format of Open Policy Agent.
Gateways fetch it from any web server or bucket, and verify it with the public
key.`,
		Example: "  caddy cadenza bundle keys\n  caddy cadenza bundle build definitions -o b.tgz --sign bundle.key --serial 42\n  caddy cadenza bundle verify b.tgz --key bundle.pub",
	}
	cmd.AddCommand(bundleBuildCommand(), bundleVerifyCommand(), bundleInspectCommand(), bundleKeysCommand())
	return cmd
}

func bundleBuildCommand() *cobra.Command {
	var out, sign string
	var m bundle.Manifest
	cmd := &cobra.Command{
		Use:   "build DIR [-o FILE --sign KEY --serial N]",
		Short: "Checks a workspace and writes it as a signed bundle",
		Long: `
Loads a workspace as the gateway would and runs its tests, as check does, and
writes it as a bundle. With an error nothing is written. The same workspace, key
and flags give the same bytes.

The serial orders bundles: gateways refuse one that is older than theirs, and
another bundle with the same. It has no default. The number of commits (git
rev-list --count HEAD) serves, where history only grows, and so does date +%s.`,
		Example: "  caddy cadenza bundle build definitions -o b.tgz --sign bundle.key --serial 42",
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" || sign == "" || m.Serial < 1 {
				return errors.New("-o FILE, --sign KEY and --serial N are needed, with a serial of at least 1 that is larger than that of the last bundle (--help says more)")
			}
			text, err := os.ReadFile(sign)
			if err != nil {
				return err
			}
			key, err := bundle.ParseSigningKey(text)
			if err != nil {
				return fmt.Errorf("%s: %w", sign, err)
			}
			c, err := checkPlace(definition.Place{Dir: args[0]}, false, 0)
			if err != nil {
				return err
			}
			var report bytes.Buffer
			c.target = args[0]
			c.write(&report, stylesFor(cmd.ErrOrStderr()))
			if _, err := report.WriteTo(cmd.ErrOrStderr()); err != nil {
				return err
			}
			if !c.OK {
				return fmt.Errorf("%s: %s, so that no bundle was written", args[0], c.counts())
			}
			if m.Revision == "" {
				m.Revision = c.Revision
			}
			b, err := bundle.Build(c.snapshot.Bundled(), m, key)
			if err != nil {
				return err
			}
			if err = regular.ReplaceFile(out, b.Packed); errors.Is(err, fs.ErrNotExist) {
				err = os.WriteFile(out, b.Packed, 0o644)
			}
			if err != nil {
				return err
			}
			return writeBundle(cmd, out, b)
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "The bundle's file")
	cmd.Flags().StringVar(&sign, "sign", "", "The file of the private key (PEM, PKCS #8): Ed25519, RSA or P-256")
	cmd.Flags().Int64Var(&m.Serial, "serial", 0, "A number that is larger in each later bundle")
	cmd.Flags().StringVar(&m.Scope, "scope", "", "The name of the gateways that the bundle is for")
	cmd.Flags().StringVar(&m.Revision, "revision", "", "A text for people, such as a commit; default: the workspace's revision")
	return cmd
}

func bundleVerifyCommand() *cobra.Command {
	var keyFiles []string
	var scope, against string
	cmd := &cobra.Command{
		Use:   "verify FILE [--key PUB... --scope NAME --against OLD]",
		Short: "Verifies a bundle as a gateway would",
		Long: `
Verifies the signature of a bundle by one of the public keys, each of its files,
and its scope. With --against it also has to be one that may follow an earlier
bundle. Its definitions are not loaded: bundle build has done that.`,
		Example: "  caddy cadenza bundle verify b.tgz --key bundle.pub --scope shop",
		RunE: func(cmd *cobra.Command, args []string) error {
			var keys []bundle.PublicKey
			for _, name := range keyFiles {
				text, err := os.ReadFile(name)
				if err != nil {
					return err
				}
				key, err := bundle.ParsePublicKey(text)
				if err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				keys = append(keys, key)
			}
			b, err := readBundle(args[0], func(packed []byte) (*bundle.Bundle, error) { return bundle.Read(packed, keys, scope) })
			if err != nil {
				return err
			}
			if against != "" {
				old, err := readBundle(against, bundle.Inspect)
				if err != nil {
					return err
				}
				if err := b.Check(old, false); err != nil {
					return fmt.Errorf("%s: %w", args[0], err)
				}
			}
			return writeBundle(cmd, args[0], b)
		},
	}
	cmd.Flags().StringArrayVar(&keyFiles, "key", nil, "The file of a public key (PEM); twice while keys rotate")
	_ = cmd.RegisterFlagCompletionFunc("key", cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault)) // the flag exists
	cmd.Flags().StringVar(&scope, "scope", "", "The scope that the bundle must have; default: none")
	cmd.Flags().StringVar(&against, "against", "", "An earlier bundle, whose serial must not be newer")
	return cmd
}

// writeBundle writes one line about a bundle.
func writeBundle(cmd *cobra.Command, name string, b *bundle.Bundle) error {
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: serial %d, %s, signed by %s\n", visible.Line(name), b.Serial, plural(len(b.Files), "file"), b.KeyID)
	return err
}

// readBundle reads a bundle from a file.
func readBundle(name string, read func([]byte) (*bundle.Bundle, error)) (*bundle.Bundle, error) {
	file, err := regular.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	packed, err := io.ReadAll(io.LimitReader(file, bundle.MaxPacked+1)) // that it is too large, read says
	if err != nil {
		return nil, err
	}
	b, err := read(packed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return b, nil
}

func bundleInspectCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "inspect FILE",
		Short: "Shows what is in a bundle, whoever signed it",
		Long: `
Shows the manifest of a bundle, the id of the key that it says it is signed
with, and its files with their hashes. Only verify says that the signature is
good.`,
		Example: "  caddy cadenza bundle inspect b.tgz",
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := readBundle(args[0], bundle.Inspect)
			if err != nil {
				return err
			}
			var text bytes.Buffer
			fmt.Fprintf(&text, "serial    %d\nrevision  %s\nscope     %s\nkey       %s (not verified)\n", b.Serial, visible.Line(b.Revision), visible.Line(b.Scope), visible.Line(cmp.Or(b.KeyID, "without a name")))
			for _, f := range b.Files {
				fmt.Fprintf(&text, "%s %9d  %s\n", f.Hash[:12], len(f.Content), visible.Line(f.Path))
			}
			_, err = text.WriteTo(cmd.OutOrStdout())
			return err
		},
	}
}

func bundleKeysCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "keys [NAME]",
		Short: "Makes a pair of keys for bundles",
		Long: `
Makes a pair of Ed25519 keys: NAME.key signs bundles and stays where they are
built, NAME.pub goes to the gateways. NAME is bundle by default. Files that
exist are left as they are.`,
		Example: "  caddy cadenza bundle keys",
		RunE: func(cmd *cobra.Command, args []string) error {
			name := "bundle"
			if len(args) == 1 {
				name = args[0]
			}
			if _, err := os.Lstat(name + ".pub"); err == nil {
				return fmt.Errorf("%s.pub exists: give another NAME", name)
			}
			private, public, err := bundle.MakeKeys()
			if err != nil {
				return err
			}
			for _, f := range []struct {
				name string
				text []byte
				mode fs.FileMode
			}{{name + ".key", private, 0o600}, {name + ".pub", public, 0o644}} {
				file, err := os.OpenFile(f.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, f.mode)
				if err != nil {
					return err
				}
				_, err = file.Write(f.text)
				if err := errors.Join(err, file.Close()); err != nil {
					return err
				}
				if _, err := fmt.Fprintln(cmd.OutOrStdout(), visible.Line(f.name)); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
