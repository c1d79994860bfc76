// Package edit changes the files of a workspace for the console: one value in its place,
// or a whole file. It shows what changes as a patch, and writes the file, commits it, or
// pushes the change as a branch.
package edit

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/kind"
	"github.com/cadenza-gateway/cadenza/internal/regular"
)

// Edit is a change of one file of a workspace.
type Edit struct {
	// Action is value (another text for the value at Line and Column), text (another text
	// for the file, or for a file that does not exist yet), rename or delete.
	Action string `json:"action"`
	// File is the path below the workspace's directory, with slashes.
	File string `json:"file"`
	// Base is the SHA-256, in hexadecimal digits, of the file that the edit was made for.
	// It is empty for a file that does not exist yet.
	Base   string `json:"base,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	Text   string `json:"text,omitempty"`
	To     string `json:"to,omitempty"` // the path that a file is renamed to
}

// Change is what an edit does to the files of a workspace.
type Change struct {
	Old, New string // the paths, which differ for a renamed file; empty: there is no file
	Before   []byte
	After    []byte
	mode     fs.FileMode // of the file, once the change is written; 0: the usual one
}

// Changes are what is made in one step, such as to serve a revision again. Each is of
// another file.
type Changes []*Change

// To returns what it takes that a file of a workspace has a content, or is gone if that is
// nil. It is nil if the file is so.
func To(dir, file string, after []byte) (*Change, error) {
	c := &Change{Old: file, New: file, After: after}
	before, err := Read(dir, file)
	if c.Before = before; errors.Is(err, fs.ErrNotExist) {
		c.Old = ""
	} else if err != nil {
		return nil, err
	}
	if after == nil {
		c.New = ""
	}
	if c.Old == c.New && string(before) == string(after) {
		return nil, nil
	}
	return c, nil
}

// ConflictError is the error for an edit of a file that is not the one it was made for.
type ConflictError struct {
	File string `json:"file"`
	// Now is the present file, and Base its SHA-256. Both are empty if there is none.
	Base string `json:"base"`
	Now  string `json:"now"`
	// Yours is the text that the edit gives the whole file, or the value.
	Yours string `json:"yours"`
}

// Error says what to do.
func (e *ConflictError) Error() string {
	return e.File + " was changed meanwhile: look at both versions, and make the edit again for the present one"
}

// Hash returns the hash by which edits name the file that they are made for.
func Hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Check returns an error for a path that no file of definitions has.
func Check(file string) error {
	folder, _, nested := strings.Cut(file, "/")
	ext := strings.ToLower(path.Ext(file))
	parts := strings.Split(file, "/")
	switch {
	case !fs.ValidPath(file) || strings.ContainsFunc(file, func(r rune) bool { return !unicode.IsPrint(r) || r == '\\' || r == '"' }) || !filepath.IsLocal(filepath.FromSlash(file)):
		return fmt.Errorf("%q can't be the name of a file: give its path below the directory, such as prompts/summary.yaml", file)
	case slices.ContainsFunc(parts, func(part string) bool {
		return strings.HasPrefix(part, ".") || strings.HasPrefix(part, "#") || strings.HasSuffix(part, "~") || strings.HasSuffix(part, ".tmp")
	}):
		return fmt.Errorf("%s is not read: its name is that of a hidden file or a backup", file)
	case !slices.Contains([]string{".yaml", ".yml", ".json"}, ext) && !(nested && ext == ".csv"):
		return fmt.Errorf("%s is no definition: its name ends in .yaml, .yml, .json or, for a matrix, .csv", file)
	case nested && kind.InFolder(folder) == nil, !nested && strings.TrimSuffix(file, path.Ext(file)) != "context":
		return fmt.Errorf("%s is in no folder of definitions: these are %s, and the data model is context.yaml", file, strings.Join(kind.Folders(), ", "))
	}
	return nil
}

// Read reads a file of a workspace. Links lead to files within it alone.
func Read(dir, file string) ([]byte, error) {
	if err := Check(file); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return regular.ReadFileIn(root, file, document.MaxFileBytes)
}

// Of returns what an edit changes in a workspace, and changes nothing. The error is a
// *ConflictError if the file is not the one that the edit was made for.
func (e *Edit) Of(dir string) (*Change, error) {
	before, err := Read(dir, e.File)
	created := errors.Is(err, fs.ErrNotExist)
	if err != nil && !created {
		return nil, err
	}
	now := ""
	if !created {
		now = Hash(before)
	}
	if e.Base != now {
		return nil, &ConflictError{e.File, now, string(before), e.Text}
	}
	c := &Change{Old: e.File, New: e.File, Before: before, After: before}
	if created {
		c.Old = ""
	}
	switch {
	case e.Action == "text":
		c.After, err = lines(e.Text, before)
	case created:
		return nil, fmt.Errorf("there is no file %s", e.File)
	case e.Action == "value":
		var v *Value
		if v, err = At(e.File, before, e.Line, e.Column); err == nil {
			c.After, err = v.Replace(e.Text)
		}
	case e.Action == "rename":
		if c.New = e.To; e.To == e.File {
			return nil, errors.New("the file has this name already")
		}
		if _, err = Read(dir, e.To); err == nil {
			return nil, fmt.Errorf("there is a file %s already", e.To)
		} else if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	case e.Action == "delete":
		c.New, c.After = "", nil
	default:
		return nil, fmt.Errorf("action must be value, text, rename or delete, is %q", e.Action)
	}
	if err != nil {
		return nil, err
	}
	if c.Old == c.New && string(c.Before) == string(c.After) {
		return nil, errors.New("this changes nothing")
	}
	return c, nil
}

// lines returns a text of a form with the line breaks of the file before it.
func lines(text string, before []byte) ([]byte, error) {
	if !utf8.ValidString(text) || len(text) > document.MaxFileBytes {
		return nil, fmt.Errorf("the text must be UTF-8, and at most %d bytes", document.MaxFileBytes)
	}
	text = strings.ReplaceAll(text, "\r\n", "\n")
	if strings.Contains(string(before), "\r\n") {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	return []byte(text), nil
}

// Name returns the path that messages name the changed file by.
func (c *Change) Name() string { return cmp.Or(c.New, c.Old) }

// Write writes the changes into a workspace's directory. If one of them fails, those
// before it are undone. The error names those that can't be, and is no *ConflictError then.
func (l Changes) Write(dir string) error {
	for i, c := range l {
		err := c.Write(dir)
		if err == nil {
			continue
		}
		for _, done := range slices.Backward(l[:i]) {
			undo := &Change{Old: done.New, New: done.Old, Before: done.After, After: done.Before, mode: done.mode}
			if failed := undo.Write(dir); failed != nil {
				err = fmt.Errorf("%v; %s stays changed: %v", err, done.Name(), failed) //nolint:errorlint // it is another error
			}
		}
		return err
	}
	return nil
}

// Write writes the change into a workspace's directory, each file in one step. What was
// changed since the edit was looked at is never written over: the error is a
// *ConflictError.
func (c *Change) Write(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, file := range []string{c.Old, c.New} {
		if err := unlinked(root, file); err != nil {
			return err
		}
	}
	c.mode = cmp.Or(c.mode, 0o644)
	if c.Old != "" {
		now, err := Read(dir, c.Old)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err != nil {
			return &ConflictError{File: c.Old, Yours: string(c.After)}
		}
		if string(now) != string(c.Before) {
			return &ConflictError{c.Old, Hash(now), string(now), string(c.After)}
		}
		if info, err := root.Stat(c.Old); err == nil {
			c.mode = info.Mode().Perm()
		}
	}
	if c.New == "" {
		return root.Remove(c.Old)
	}
	if err := root.MkdirAll(path.Dir(c.New), 0o755); err != nil {
		return err
	}
	if c.Old != "" && c.Old != c.New {
		if _, err := root.Lstat(c.New); err == nil {
			return fmt.Errorf("there is a file %s already", c.New)
		}
		return root.Rename(c.Old, c.New)
	}
	// A hidden file, which no gateway reads, beside the one that it becomes.
	staged := path.Join(path.Dir(c.New), ".cadenza-edit-"+path.Base(c.New))
	defer func() { _ = root.Remove(staged) }()
	if err := stage(root, staged, c.After, c.mode); err != nil {
		return err
	}
	if c.Old != "" {
		return root.Rename(staged, c.New)
	}
	err = root.Link(staged, c.New)
	if errors.Is(err, fs.ErrExist) {
		now, _ := Read(dir, c.New)
		return &ConflictError{c.New, Hash(now), string(now), string(c.After)}
	}
	return err
}

// unlinked returns an error for a path on which there is a link: a file written in place
// of a link would part it from what it leads to.
func unlinked(root *os.Root, file string) error {
	for at := file; at != "." && at != ""; at = path.Dir(at) {
		if info, err := root.Lstat(at); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return fmt.Errorf("%s is a link: edit the file that it leads to", at)
		}
	}
	return nil
}

// stage writes a new file, and waits until the disk has it.
func stage(root *os.Root, name string, data []byte, mode fs.FileMode) error {
	_ = root.Remove(name) // of a process that was ended meanwhile
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
}
