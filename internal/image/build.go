package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	imgspecv1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// Spec describes an image to build.
type Spec struct {
	// OS and Architecture are the platform, in the words of GOOS and GOARCH. Empty: linux
	// and the architecture that this program was built for.
	OS, Architecture string
	// Variant is the CPU variant, such as v7 for arm. Usually empty.
	Variant string
	// Labels of the image's configuration.
	Labels map[string]string
	// Annotations of the manifest.
	Annotations map[string]string
	// Entrypoint, Cmd, User, Env (KEY=value), WorkingDir and ExposedPorts (8080/tcp) are
	// what a container of the image runs with.
	Entrypoint, Cmd []string
	User            string
	Env             []string
	WorkingDir      string
	ExposedPorts    []string
	// Created is the time that the image says it was made. Zero is 1970, so that the same
	// content gives the same digest.
	Created time.Time
	// Layers are applied one after the other.
	Layers []Layer
}

// Layer is a layer to build: a tree of files, single files, or both.
type Layer struct {
	// Tree is copied below Target ("/configs"; empty is "/"): its directories and regular
	// files. Anything else in it is an error.
	Tree   fs.FS
	Target string
	// Files are single files at their own paths.
	Files []File
	// UID and GID own everything in the layer.
	UID, GID int
}

// File is a single file of a layer.
type File struct {
	// Path in the image, such as /usr/bin/mainstay.
	Path string
	// Executable gives the file mode 0755 instead of 0644.
	Executable bool
	// Content of the file.
	Content []byte
}

// Built is an image in memory, ready to be pushed or written.
type Built struct {
	platform imgspecv1.Platform
	manifest blob
	config   blob
	layers   []blob
}

type blob struct {
	mediaType string
	digest    digest.Digest
	data      []byte
}

func newBlob(mediaType string, data []byte) blob {
	return blob{mediaType: mediaType, digest: digest.FromBytes(data), data: data}
}

func (b blob) descriptor() imgspecv1.Descriptor {
	return imgspecv1.Descriptor{MediaType: b.mediaType, Digest: b.digest, Size: int64(len(b.data))}
}

// Digest of the image's manifest.
func (b *Built) Digest() string { return b.manifest.digest.String() }

// Build makes an OCI image in memory. The same spec gives the same bytes, whatever the
// times, owners and order of files in its trees.
func Build(spec Spec) (*Built, error) {
	built, err := build(spec)
	if err != nil {
		return nil, fail("build", "", faultf(KindInvalid, "%w", err))
	}
	return built, nil
}

func build(spec Spec) (*Built, error) {
	built := &Built{platform: imgspecv1.Platform{OS: spec.OS, Architecture: spec.Architecture, Variant: spec.Variant}}
	if built.platform.OS == "" {
		built.platform.OS = "linux"
	}
	if built.platform.Architecture == "" {
		built.platform.Architecture = runtime.GOARCH
	}
	var diffIDs []digest.Digest
	for i, layer := range spec.Layers {
		plain, err := layer.archive()
		if err != nil {
			return nil, fmt.Errorf("layer %d: %w", i+1, err)
		}
		packed, err := compress(plain)
		if err != nil {
			return nil, fmt.Errorf("layer %d: %w", i+1, err)
		}
		diffIDs = append(diffIDs, digest.FromBytes(plain))
		built.layers = append(built.layers, newBlob(imgspecv1.MediaTypeImageLayerGzip, packed))
	}
	config, err := json.Marshal(spec.config(built.platform, diffIDs))
	if err != nil {
		return nil, err
	}
	built.config = newBlob(imgspecv1.MediaTypeImageConfig, config)
	manifest, err := json.Marshal(built.describe(spec.Annotations))
	if err != nil {
		return nil, err
	}
	built.manifest = newBlob(imgspecv1.MediaTypeImageManifest, manifest)
	return built, nil
}

func (s Spec) config(platform imgspecv1.Platform, diffIDs []digest.Digest) imgspecv1.Image {
	created := time.Unix(0, 0).UTC()
	if !s.Created.IsZero() {
		created = s.Created.UTC()
	}
	config := imgspecv1.Image{
		Created:  &created,
		Platform: platform,
		Config: imgspecv1.ImageConfig{
			User: s.User, Env: s.Env, Entrypoint: s.Entrypoint, Cmd: s.Cmd,
			WorkingDir: s.WorkingDir, Labels: s.Labels,
		},
		RootFS: imgspecv1.RootFS{Type: "layers", DiffIDs: diffIDs},
	}
	for _, port := range s.ExposedPorts {
		if config.Config.ExposedPorts == nil {
			config.Config.ExposedPorts = map[string]struct{}{}
		}
		config.Config.ExposedPorts[port] = struct{}{}
	}
	// Some tools count the history's entries against the layers.
	for range diffIDs {
		config.History = append(config.History, imgspecv1.History{Created: &created, CreatedBy: "mainstay"})
	}
	return config
}

func (b *Built) describe(annotations map[string]string) imgspecv1.Manifest {
	m := imgspecv1.Manifest{
		Versioned:   specs.Versioned{SchemaVersion: 2},
		MediaType:   imgspecv1.MediaTypeImageManifest,
		Config:      b.config.descriptor(),
		Layers:      []imgspecv1.Descriptor{},
		Annotations: annotations,
	}
	for _, l := range b.layers {
		m.Layers = append(m.Layers, l.descriptor())
	}
	return m
}

// archive makes the layer's tar archive.
func (l Layer) archive() ([]byte, error) {
	files, err := l.collect()
	if err != nil {
		return nil, err
	}
	dirs := map[string]bool{}
	for name, file := range files {
		if file == nil {
			dirs[name] = true
		}
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if files[dir] != nil {
				return nil, fmt.Errorf("/%s is both a file and a directory", dir)
			}
			dirs[dir] = true
		}
	}
	for dir := range dirs {
		files[dir] = nil
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := l.write(w, name, files[name]); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func (l Layer) write(w *tar.Writer, name string, file *File) error {
	header := &tar.Header{
		Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755, Uid: l.UID, Gid: l.GID, ModTime: time.Unix(0, 0),
	}
	if file != nil {
		header.Typeflag, header.Name, header.Size = tar.TypeReg, name, int64(len(file.Content))
		if !file.Executable {
			header.Mode = 0o644
		}
	}
	if err := w.WriteHeader(header); err != nil {
		return fmt.Errorf("write /%s: %w", name, err)
	}
	if file == nil {
		return nil
	}
	_, err := w.Write(file.Content)
	return err
}

// collect gives the layer's files by path; a directory is nil.
func (l Layer) collect() (map[string]*File, error) {
	files := map[string]*File{}
	for _, file := range l.Files {
		name := strings.TrimPrefix(path.Clean("/"+file.Path), "/")
		if name == "" || files[name] != nil {
			return nil, fmt.Errorf("the file path %q is empty or given twice", file.Path)
		}
		files[name] = &file
	}
	if l.Tree == nil {
		return files, nil
	}
	target := strings.TrimPrefix(path.Clean("/"+l.Target), "/")
	err := fs.WalkDir(l.Tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := path.Join(target, name)
		switch {
		case to == ".":
			return nil
		case files[to] != nil:
			return fmt.Errorf("/%s is given twice", to)
		case entry.IsDir():
			files[to] = nil
			return nil
		case !entry.Type().IsRegular():
			return fmt.Errorf("%s is neither a file nor a directory", name)
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		content, err := fs.ReadFile(l.Tree, name)
		if err != nil {
			return err
		}
		files[to] = &File{Path: to, Executable: info.Mode()&0o111 != 0, Content: content}
		return nil
	})
	return files, err
}

func compress(data []byte) ([]byte, error) {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
