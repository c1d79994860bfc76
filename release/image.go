package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// platform is a Linux binary that the image has.
type platform struct {
	arch   string
	binary string // its path
}

// user is the one that the image runs as, and its group.
const user = 65532

// imageConfig is what the image runs by default: as the Dockerfile has it.
func imageConfig(version string) v1.Config {
	return v1.Config{
		Entrypoint:   []string{"/usr/bin/caddy"},
		Cmd:          []string{"run", "--config", "/etc/caddy/Caddyfile", "--adapter", "caddyfile"},
		Env:          []string{"XDG_DATA_HOME=/data", "XDG_CONFIG_HOME=/config"},
		User:         fmt.Sprintf("%d:%d", user, user),
		WorkingDir:   "/srv",
		ExposedPorts: map[string]struct{}{"8080/tcp": {}},
		Volumes:      map[string]struct{}{"/data": {}, "/config": {}},
		Labels: map[string]string{
			"org.opencontainers.image.title":    "cadenza",
			"org.opencontainers.image.version":  version,
			"org.opencontainers.image.source":   "https://github.com/cadenza-gateway/cadenza",
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
}

// writeImage writes an OCI archive (an image layout in a tar file) with an image for
// each platform, which `docker load`, `podman load` and `skopeo copy oci-archive:`
// read.
func (r *release) writeImage(file string, platforms []platform) error {
	directory, err := os.MkdirTemp("", "cadenza-image")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(directory) }()
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range platforms {
		image, err := r.image(p)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: p.arch}},
		})
	}
	// The layout names one thing: the index of the platforms, under the version.
	top := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), mutate.IndexAddendum{
		Add: index,
		Descriptor: v1.Descriptor{Annotations: map[string]string{
			"org.opencontainers.image.ref.name": r.version,
			"io.containerd.image.name":          "docker.io/library/cadenza:" + r.version,
		}},
	})
	if _, err := layout.Write(directory, top); err != nil {
		return err
	}
	return create(file, func(w io.Writer) error { return r.tarOf(w, directory) })
}

// image makes the image of one platform: a layer for what rarely changes, and one
// for the binary.
func (r *release) image(p platform) (v1.Image, error) {
	base, err := r.baseLayer()
	if err != nil {
		return nil, err
	}
	binary, err := os.ReadFile(p.binary)
	if err != nil {
		return nil, err
	}
	program, err := r.layer([]entry{{name: "usr/bin/caddy", mode: 0o755, content: binary}})
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, step := range []struct {
		layer v1.Layer
		what  string
	}{{base, "certificates of authorities, directories and the user"}, {program, "Caddy with Cadenza"}} {
		image, err = mutate.Append(image, mutate.Addendum{
			Layer: step.layer, MediaType: types.OCILayer,
			History: v1.History{Created: v1.Time{Time: r.created}, CreatedBy: "release", Comment: step.what},
		})
		if err != nil {
			return nil, err
		}
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", p.arch
	config.Created = v1.Time{Time: r.created}
	config.Config = imageConfig(r.version)
	return mutate.ConfigFile(image, config)
}

// entry is a file or, where its name ends in a slash, a directory of a layer.
type entry struct {
	name    string
	mode    int64
	owner   int
	content []byte
}

// baseLayer has what the binary needs beside it. The binary has the time zones.
func (r *release) baseLayer() (v1.Layer, error) {
	authorities, err := os.ReadFile(r.authorities)
	if err != nil {
		return nil, fmt.Errorf("%w: name a PEM file of authorities by -authorities", err)
	}
	license, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	if err != nil {
		return nil, err
	}
	return r.layer([]entry{
		{name: "config/", mode: 0o700, owner: user},
		{name: "data/", mode: 0o700, owner: user},
		{name: "etc/", mode: 0o755},
		{name: "etc/caddy/", mode: 0o755},
		{name: "etc/passwd", mode: 0o644, content: fmt.Appendf(nil, "cadenza:x:%d:%d::/data:/sbin/nologin\n", user, user)},
		{name: "etc/ssl/", mode: 0o755},
		{name: "etc/ssl/certs/", mode: 0o755},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, content: authorities},
		{name: "srv/", mode: 0o755},
		{name: "tmp/", mode: 0o1777},
		{name: "usr/", mode: 0o755},
		{name: "usr/bin/", mode: 0o755},
		{name: "usr/share/doc/cadenza/LICENSE", mode: 0o644, content: license},
	})
}

func (r *release) layer(entries []entry) (v1.Layer, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, e := range entries {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: e.name, Mode: e.mode, Uid: e.owner, Gid: e.owner,
			Size: int64(len(e.content)), ModTime: r.created,
		}
		if e.name[len(e.name)-1] == '/' {
			header.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(archive.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
}

// tarOf writes a directory as a tar file.
func (r *release) tarOf(w io.Writer, directory string) error {
	archive := tar.NewWriter(w)
	err := fs.WalkDir(os.DirFS(directory), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		if d.IsDir() {
			return archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755, ModTime: r.created})
		}
		content, err := os.ReadFile(filepath.Join(directory, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content)), ModTime: r.created}); err != nil {
			return err
		}
		_, err = archive.Write(content)
		return err
	})
	if err != nil {
		return err
	}
	return archive.Close()
}
