package sqlite

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
)

const (
	// maxRevisions bounds the revisions of a workspace that are stored, the last served.
	maxRevisions = 100

	// maxRevisionBytes bounds the size of the revisions of all workspaces: their lists, and
	// each content of a file once. The newest of a workspace is kept, whatever its size.
	maxRevisionBytes = 64 << 20

	// sweepBytes is how many bytes of files are stored until a commit checks that bound.
	// The maintenance checks it too.
	sweepBytes = maxRevisionBytes / 8
)

const (
	// The lists are large: ordered by seq, all of them would be read.
	servedFilesSQL = "SELECT files FROM revisions WHERE seq = (SELECT max(seq) FROM revisions WHERE workspace = ? AND directory = ?)"

	keepFileSQL = "INSERT INTO files (hash, content) VALUES (?, ?) ON CONFLICT DO NOTHING"

	revisionSQL = `
INSERT OR REPLACE INTO revisions (workspace, directory, revision, first_seen_ms, served_ms, files)
VALUES (?1, ?2, ?3, coalesce((
	SELECT first_seen_ms FROM revisions WHERE workspace = ?1 AND directory = ?2 AND revision = ?3
), ?4), ?4, ?5)`

	forgetRevisionsSQL = `
DELETE FROM revisions WHERE workspace = ?1 AND seq <= (
	SELECT seq FROM revisions WHERE workspace = ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2
)`

	// The newest of a workspace is served, whatever its age.
	deleteRevisionsSQL = `
DELETE FROM revisions WHERE served_ms < ? AND seq NOT IN (SELECT max(seq) FROM revisions GROUP BY workspace)`
)

// listed is a file in the list of a revision: its path and its hash.
type listed [2]string

// keepRevision stores the set that is served now. If its revision was served before, it
// replaces that set's files: comments and tests are no part of a revision.
func (s *Store) keepRevision(r *recorder.Revision) error {
	workspace, directory := textValue(r.Workspace), textValue(r.Directory)
	before, err := s.servedFiles(workspace, directory)
	if err != nil {
		return err
	}
	keep, err := s.writer.prepare(keepFileSQL)
	if err != nil {
		return err
	}
	list := make([]listed, len(r.Files))
	for i, f := range r.Files {
		list[i] = listed{f.Path, f.Hash}
		if before[list[i]] {
			continue // after an edit, nearly all files are
		}
		if err := keep.run(textValue(f.Hash), value{kind: isBlob, bytes: textValue(f.Content).bytes}); err != nil {
			return err
		}
		s.unswept += int64(len(f.Content))
	}
	text, err := json.Marshal(list)
	if err != nil {
		return err
	}
	s.unswept += int64(len(text))
	if err := s.writer.execute(revisionSQL, workspace, directory, textValue(r.Revision), integerValue(r.Time.UnixMilli()), textValue(string(text))); err != nil {
		return err
	}
	return s.writer.execute(forgetRevisionsSQL, workspace, integerValue(maxRevisions))
}

// servedFiles returns the list of the files that a workspace served last from a directory.
// The store has these files.
func (s *Store) servedFiles(workspace, directory value) (map[listed]bool, error) {
	var text []byte
	if err := s.writer.each(servedFilesSQL, func(row *statement) error { text = row.bytes(0); return nil }, workspace, directory); err != nil {
		return nil, err
	}
	files := make(map[listed]bool)
	var parser fastjson.Parser
	eachListed(&parser, text, func(path, hash []byte) { files[listed{string(path), string(hash)}] = true })
	return files, nil
}

// eachListed calls f with each file in the list of a revision. It ignores a list that can't
// be read, because someone changed it.
func eachListed(parser *fastjson.Parser, text []byte, f func(path, hash []byte)) {
	list, err := parser.ParseBytes(text)
	if err != nil {
		return
	}
	for _, item := range list.GetArray() {
		f(item.GetStringBytes("0"), item.GetStringBytes("1"))
	}
}

// sweep deletes the oldest revisions while all take more than maxRevisionBytes, and the
// files that no revision names. It is called in a transaction.
//
//	revision  files          size, from the newest on, if the bound is 8
//	5         a, b of 3 + 3  6, kept
//	4         a, c of 3 + 1  7, kept: it shares a
//	3         a, d of 3 + 2  9, deleted, and d with it
//	2         a, c of 3 + 1  deleted, as all that are older
func (s *Store) sweep() error {
	sizes := make(map[string]int64) // of the files that no revision read so far names
	err := s.writer.each("SELECT hash, length(content) FROM files", func(row *statement) error {
		sizes[string(row.view(0))] = row.integer(1)
		return nil
	})
	if err != nil {
		return err
	}
	var (
		total   int64
		full    bool
		deleted []int64
		named   []string // of sizes, by this revision
		parser  fastjson.Parser
		newest  = make(map[string]bool) // workspaces whose newest revision was seen
	)
	err = s.writer.each("SELECT seq, workspace, files FROM revisions ORDER BY seq DESC", func(row *statement) error {
		workspace, text := string(row.view(1)), row.view(2)
		size := int64(len(text))
		named = named[:0]
		eachListed(&parser, text, func(_, hash []byte) {
			if n, ok := sizes[string(hash)]; ok {
				size += n
				named = append(named, string(hash))
			}
		})
		full = full || total+size > maxRevisionBytes
		if full && newest[workspace] {
			deleted = append(deleted, row.integer(0))
			return nil
		}
		newest[workspace] = true
		total += size
		for _, hash := range named {
			delete(sizes, hash)
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.unswept = 0
	return errors.Join(
		deleteListed(s.writer, "DELETE FROM revisions WHERE seq IN (SELECT value FROM json_each(?))", deleted),
		deleteListed(s.writer, "DELETE FROM files WHERE hash IN (SELECT value FROM json_each(?))", slices.Collect(maps.Keys(sizes))),
	)
}

// deleteListed runs a query that deletes the rows in a JSON list.
func deleteListed[T any](writer *native, query string, list []T) error {
	if len(list) == 0 {
		return nil
	}
	text, err := json.Marshal(list)
	if err != nil {
		return err
	}
	return writer.execute(query, textValue(string(text)))
}
