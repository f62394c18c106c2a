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
	// Base is an image whose layers come first. Its configuration applies where the spec
	// has none; labels and environment are merged. Its files must exist until the built
	// image has been pushed and written. Nil means no base image.
	Base *Base
	// OS and Architecture are the platform, as values of GOOS and GOARCH. The default is
	// the base image's platform, or else linux and the architecture that this program was
	// built for.
	OS, Architecture string
	// Variant is the CPU variant, such as v7 for arm. It is usually empty.
	Variant string
	// Labels are labels of the image's configuration.
	Labels map[string]string
	// Annotations are annotations of the manifest.
	Annotations map[string]string
	// Entrypoint, Cmd, User, Env (KEY=value), WorkingDir and ExposedPorts (8080/tcp)
	// configure the containers of the image.
	Entrypoint, Cmd []string
	User            string
	Env             []string
	WorkingDir      string
	ExposedPorts    []string
	// Created is the creation time of the image. Zero means 1970, so that the same content
	// has the same digest.
	Created time.Time
	// Comment is the comment of each layer in the history.
	Comment string
	// Layers are applied in this order.
	Layers []Layer
}

// Built is an image that is ready to be pushed or written. All of it is in memory except
// the layers of its base image.
type Built struct {
	platform imgspecv1.Platform
	manifest builtBlob
	config   builtBlob
	layers   []builtBlob
}

// builtBlob is a blob of a built image: bytes in memory, or a file.
type builtBlob struct {
	mediaType string
	digest    digest.Digest
	data      []byte
	file      string
	fileSize  int64
}

func newBuiltBlob(mediaType string, data []byte) builtBlob {
	return builtBlob{mediaType: mediaType, digest: digest.FromBytes(data), data: data}
}

func (b builtBlob) size() int64 {
	if b.file != "" {
		return b.fileSize
	}
	return int64(len(b.data))
}

// open returns a reader of the content.
func (b builtBlob) open() (io.ReadCloser, error) {
	if b.file != "" {
		return os.Open(b.file)
	}
	return io.NopCloser(bytes.NewReader(b.data)), nil
}

func (b builtBlob) descriptor() imgspecv1.Descriptor {
	return imgspecv1.Descriptor{MediaType: b.mediaType, Digest: b.digest, Size: b.size()}
}

// Digest returns the digest of the image's manifest.
func (b *Built) Digest() string { return b.manifest.digest.String() }

// Build builds an OCI image. The same spec always produces the same bytes, whatever the
// times, owners and order of files in its trees.
func Build(spec Spec) (*Built, error) {
	built, err := buildImage(spec)
	if err != nil {
		return nil, wrapOperationError("build", "", err)
	}
	return built, nil
}

func buildImage(spec Spec) (*Built, error) {
	config := spec.startConfig()
	built := &Built{}
	if spec.Base != nil {
		built.layers = slices.Clone(spec.Base.layers)
	}

	for i, layer := range spec.Layers {
		packed, diffID, err := layer.packArchive()
		if err != nil {
			return nil, kindErrorf(KindInvalid, "layer %d: %w", i+1, err)
		}

		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, diffID)
		// Some tools compare the number of history entries with the number of layers.
		config.History = append(config.History, imgspecv1.History{Created: config.Created, CreatedBy: "mainstay", Comment: spec.Comment})
		built.layers = append(built.layers, newBuiltBlob(imgspecv1.MediaTypeImageLayerGzip, packed))
	}

	spec.applySettings(config)
	built.platform = config.Platform
	data, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}

	built.config = newBuiltBlob(imgspecv1.MediaTypeImageConfig, data)
	manifest, err := json.Marshal(built.newManifest(spec.Annotations))
	if err != nil {
		return nil, err
	}

	built.manifest = newBuiltBlob(imgspecv1.MediaTypeImageManifest, manifest)
	return built, nil
}

// startConfig returns the initial configuration: that of the base image, or an empty one.
func (s Spec) startConfig() *imgspecv1.Image {
	config := &imgspecv1.Image{
		Platform: imgspecv1.Platform{OS: "linux", Architecture: runtime.GOARCH},
		RootFS:   imgspecv1.RootFS{Type: "layers"},
	}
	if s.Base != nil {
		*config = s.Base.config
		config.History = slices.Clone(config.History)
		config.RootFS.DiffIDs = slices.Clone(config.RootFS.DiffIDs)
	}

	created := time.Unix(0, 0).UTC()
	if !s.Created.IsZero() {
		created = s.Created.UTC()
	}

	config.Created = &created
	return config
}

// applySettings sets the fields of the spec in the configuration.
func (s Spec) applySettings(image *imgspecv1.Image) {
	setIfNotEmpty(&image.OS, s.OS)
	setIfNotEmpty(&image.Architecture, s.Architecture)
	setIfNotEmpty(&image.Variant, s.Variant)
	config := &image.Config
	setIfNotEmpty(&config.User, s.User)
	setIfNotEmpty(&config.WorkingDir, s.WorkingDir)
	// The base image's arguments are for its own entrypoint only.
	if s.Entrypoint != nil {
		config.Entrypoint = s.Entrypoint
		config.Cmd = nil
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

func setIfNotEmpty(field *string, value string) {
	if value != "" {
		*field = value
	}
}

// newManifest returns the manifest of the image.
func (b *Built) newManifest(annotations map[string]string) imgspecv1.Manifest {
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
