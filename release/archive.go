package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"io"
	"os"
	"path"
	"path/filepath"
)

// beside are the files of the checkout that an archive has beside the binary.
var beside = []string{"Caddyfile.example", "CHANGELOG.md", "LICENSE", "README.md"}

// archive writes name.zip for Windows, else name.tar.gz: a folder of the archive's
// name with the binary and what is beside it.
func (r *release) archive(name, system, binary string) error {
	files := []string{binary}
	for _, file := range beside {
		files = append(files, filepath.Join(r.root, file))
	}
	folder := filepath.Base(name)
	if system == "windows" {
		return create(name+".zip", func(w io.Writer) error { return r.zip(w, folder, files) })
	}
	return create(name+".tar.gz", func(w io.Writer) error { return r.tar(w, folder, files) })
}

func (r *release) tar(w io.Writer, folder string, files []string) error {
	compressed, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(compressed)
	for i, file := range files {
		mode := int64(0o644)
		if i == 0 { // the binary
			mode = 0o755
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		header := &tar.Header{Name: path.Join(folder, filepath.Base(file)), Mode: mode, Size: int64(len(content)), ModTime: r.created}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(content); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return compressed.Close()
}

func (r *release) zip(w io.Writer, folder string, files []string) error {
	archive := zip.NewWriter(w)
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		entry, err := archive.CreateHeader(&zip.FileHeader{
			Name: path.Join(folder, filepath.Base(file)), Method: zip.Deflate, Modified: r.created,
		})
		if err != nil {
			return err
		}
		if _, err := entry.Write(content); err != nil {
			return err
		}
	}
	return archive.Close()
}
