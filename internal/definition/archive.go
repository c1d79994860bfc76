package definition

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/document"
)

// archive is a tar file of the files of a workspace, compressed by gzip.
type archive struct {
	packed []byte
	parts  map[string]part // by the path of their first file
}

// part is a run of the files, compressed as a member of the gzip file.
type part struct {
	files  []archived
	packed []byte
}

// archived is a file in an archive.
type archived struct {
	path string
	file *file
}

// archive packs the files, of which the last loading's archive has most: only parts
// in which a file has changed are packed again. Where a file has a mistake it packs
// nothing, and keeps the last archive for the next loading. files are those of the
// directory, parsed.
//
// A part begins at each file whose path has a certain hash, so that a file that comes
// or goes moves no part but its own.
func (l *loader) archive(files []*file) {
	if l.errs.Len() > 0 {
		l.next.archive = l.last.archive
		return
	}
	const likely = 32 // files of a part
	var parts []part
	add := func(path string, f *file) {
		if hash := crc32.ChecksumIEEE([]byte(path)); len(parts) == 0 || hash%likely == 0 {
			parts = append(parts, part{})
		}
		last := &parts[len(parts)-1]
		last.files = append(last.files, archived{path, f})
	}
	if l.context != nil {
		add(l.context.path, l.next.context)
	}
	for i, f := range files {
		add(l.files[i].path, f)
	}
	kept := atomic.Int64{}
	place := func(i int) document.Position { return l.position(parts[i].files[0].path) }
	l.parallel("packing these files", len(parts), place, func(i int, _ *document.Errors) {
		p := &parts[i]
		if l.last.archive != nil {
			if last := l.last.archive.parts[p.files[0].path]; slices.Equal(last.files, p.files) {
				p.packed = last.packed
				kept.Add(1)
				return
			}
		}
		p.pack()
	})
	if l.stopped() {
		return
	}
	if a := l.last.archive; a != nil && int(kept.Load()) == len(parts) && len(parts) == len(a.parts) {
		l.next.archive = a
		return
	}
	a := &archive{parts: make(map[string]part, len(parts))}
	for _, p := range parts {
		a.parts[p.files[0].path] = p
		a.packed = append(a.packed, p.packed...)
	}
	a.packed = append(a.packed, archiveEnd()...)
	l.next.archive = a
}

// compressors are gzip.Writers, which are large. At their level packing takes about a
// tenth of the time that loading takes.
var compressors = sync.Pool{New: func() any {
	w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	return w
}}

// pack compresses the files, without the end of a tar file.
func (p *part) pack() {
	var out bytes.Buffer
	zip := compressors.Get().(*gzip.Writer)
	defer compressors.Put(zip)
	zip.Reset(&out)
	all := tar.NewWriter(zip)
	for _, f := range p.files {
		// Writing to memory does not fail, and no name is too long for the format.
		_ = all.WriteHeader(&tar.Header{Name: f.path, Mode: 0o600, Size: int64(len(f.file.text)), ModTime: f.file.mod.Truncate(time.Second), Format: tar.FormatPAX})
		_, _ = io.WriteString(all, f.file.text)
	}
	_ = all.Flush()
	_ = zip.Close()
	p.packed = out.Bytes()
}

// archiveEnd returns the end of a tar file, compressed.
func archiveEnd() []byte {
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	_ = tar.NewWriter(zip).Close()
	_ = zip.Close()
	return out.Bytes()
}

// unpack reads the files of an archive as if they were those of dir.
func unpack(dir string, archive []byte) (*directory, error) {
	d := &directory{dir: dir, archived: true}
	zip, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return nil, err
	}
	for all := tar.NewReader(zip); ; {
		header, err := all.Next()
		if errors.Is(err, io.EOF) {
			return d, nil
		}
		if err != nil {
			return nil, err
		}
		if header.Size > document.MaxFileBytes || d.bytes+header.Size > MaxBytes || len(d.files) == MaxFiles {
			return nil, fmt.Errorf("%s is beyond what definitions may be", header.Name)
		}
		s := &source{path: header.Name, size: header.Size, mod: header.ModTime, data: make([]byte, header.Size)}
		if _, err := io.ReadFull(all, s.data); err != nil {
			return nil, err
		}
		d.bytes += s.size
		folder, _, nested := strings.Cut(path.Clean(s.path), "/")
		if !nested {
			d.context = s
			continue
		}
		base, ok := definitionName(s.path)
		if s.kind = folders[folder]; s.kind == 0 || !ok {
			return nil, fmt.Errorf("%s is no definition", s.path)
		}
		s.key = defaultKey(base)
		d.files = append(d.files, s)
	}
}
