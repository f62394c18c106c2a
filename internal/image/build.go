package image

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	imgspecv1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// Spec describes an image to build.
type Spec struct {
	// Base is an image whose layers come first, and whose settings hold where the spec has
	// none; labels and environment are added to. Its files must stay until the built image
	// has been pushed and written. Nil: there is none.
	Base *Base
	// OS and Architecture are the platform, in the words of GOOS and GOARCH. Empty: the
	// base's, else linux and the architecture that this program was built for.
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
	// Comment is what the history says of each layer. Empty: nothing.
	Comment string
	// Layers are applied one after the other.
	Layers []Layer
}

// Built is an image, ready to be pushed or written. All of it is in memory but the layers
// of its base.
type Built struct {
	platform imgspecv1.Platform
	manifest blob
	config   blob
	layers   []blob
}

// blob is a part of a built image: bytes in memory, or a file.
type blob struct {
	mediaType string
	digest    digest.Digest
	data      []byte
	file      string
	fileSize  int64
}

func newBlob(mediaType string, data []byte) blob {
	return blob{mediaType: mediaType, digest: digest.FromBytes(data), data: data}
}

func (b blob) size() int64 {
	if b.file != "" {
		return b.fileSize
	}
	return int64(len(b.data))
}

// open returns the content from its start.
func (b blob) open() (io.ReadCloser, error) {
	if b.file != "" {
		return os.Open(b.file)
	}
	return io.NopCloser(bytes.NewReader(b.data)), nil
}

func (b blob) descriptor() imgspecv1.Descriptor {
	return imgspecv1.Descriptor{MediaType: b.mediaType, Digest: b.digest, Size: b.size()}
}

// Digest of the image's manifest.
func (b *Built) Digest() string { return b.manifest.digest.String() }

// Build makes an OCI image. The same spec gives the same bytes, whatever the times, owners
// and order of files in its trees.
func Build(spec Spec) (*Built, error) {
	built, err := build(spec)
	if err != nil {
		return nil, fail("build", "", err)
	}
	return built, nil
}

func build(spec Spec) (*Built, error) {
	config := spec.start()
	built := &Built{}
	if spec.Base != nil {
		built.layers = slices.Clone(spec.Base.layers)
	}

	for i, layer := range spec.Layers {
		packed, diffID, err := layer.pack()
		if err != nil {
			return nil, faultf(KindInvalid, "layer %d: %w", i+1, err)
		}

		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, diffID)
		// Some tools count the history's entries against the layers.
		config.History = append(config.History, imgspecv1.History{Created: config.Created, CreatedBy: "mainstay", Comment: spec.Comment})
		built.layers = append(built.layers, newBlob(imgspecv1.MediaTypeImageLayerGzip, packed))
	}

	spec.settle(config)
	built.platform = config.Platform
	data, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}

	built.config = newBlob(imgspecv1.MediaTypeImageConfig, data)
	manifest, err := json.Marshal(built.describe(spec.Annotations))
	if err != nil {
		return nil, err
	}

	built.manifest = newBlob(imgspecv1.MediaTypeImageManifest, manifest)
	return built, nil
}

// start returns the configuration that the image begins with: that of the base, or none.
func (s Spec) start() *imgspecv1.Image {
	config := &imgspecv1.Image{
		Platform: imgspecv1.Platform{OS: "linux", Architecture: runtime.GOARCH},
		RootFS:   imgspecv1.RootFS{Type: "layers"},
	}
	if s.Base != nil {
		*config = s.Base.config
		config.History, config.RootFS.DiffIDs = slices.Clone(config.History), slices.Clone(config.RootFS.DiffIDs)
	}

	created := time.Unix(0, 0).UTC()
	if !s.Created.IsZero() {
		created = s.Created.UTC()
	}

	config.Created = &created
	return config
}

// settle sets what the spec says.
func (s Spec) settle(image *imgspecv1.Image) {
	set(&image.OS, s.OS)
	set(&image.Architecture, s.Architecture)
	set(&image.Variant, s.Variant)
	config := &image.Config
	set(&config.User, s.User)
	set(&config.WorkingDir, s.WorkingDir)
	// An entrypoint of the spec's own makes the base's arguments meaningless.
	if s.Entrypoint != nil {
		config.Entrypoint, config.Cmd = s.Entrypoint, nil
	}
	if s.Cmd != nil {
		config.Cmd = s.Cmd
	}

	config.Env = append(slices.Clone(config.Env), s.Env...)
	config.Labels = maps.Clone(config.Labels)
	if config.Labels == nil && len(s.Labels) > 0 {
		config.Labels = map[string]string{}
	}

	maps.Copy(config.Labels, s.Labels)
	config.ExposedPorts = maps.Clone(config.ExposedPorts)
	for _, port := range s.ExposedPorts {
		if config.ExposedPorts == nil {
			config.ExposedPorts = map[string]struct{}{}
		}
		config.ExposedPorts[port] = struct{}{}
	}
}

func set(field *string, value string) {
	if value != "" {
		*field = value
	}
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
