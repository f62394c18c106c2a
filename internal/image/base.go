package image

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	imgspecv1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// Base is a base image for builds: its layers, as files, and its configuration.
type Base struct {
	config imgspecv1.Image
	layers []builtBlob
}

// Base downloads the image's layers into a directory and verifies them. The layers stay
// compressed. The caller owns the files: it removes them when the built image is no longer
// needed, and after an error.
func (img *Image) Base(ctx context.Context, dir string) (*Base, error) {
	if img.config == nil || len(img.config.RootFS.DiffIDs) != len(img.layers.layers) {
		return nil, img.registries.operationError("pull", img.ref, contentErrorf("it is not a container image, so it cannot be a base image"))
	}

	layers, err := img.layers.downloadLayers(ctx, dir)
	if err != nil {
		return nil, img.registries.operationError("pull", img.ref, err)
	}

	return &Base{config: *img.config, layers: layers}, nil
}

// downloadLayers writes the layers into files of a directory.
func (s layerStack) downloadLayers(ctx context.Context, dir string) ([]builtBlob, error) {
	ctx, cancel := s.transfers.withTimeout(ctx)
	defer cancel()

	var parts []builtBlob
	for _, l := range s.layers {
		if err := checkLayerType(l); err != nil {
			return nil, err
		}

		part := builtBlob{mediaType: ociLayerMediaType(l.mediaType), digest: l.digest, file: filepath.Join(dir, l.digest.Encoded())}
		var err error
		if part.fileSize, err = s.content.downloadBlob(ctx, l, part.file); err != nil {
			return nil, err
		}

		parts = append(parts, part)
	}

	return parts, nil
}

// downloadBlob writes a blob into a file, and returns its size.
func (c remoteContent) downloadBlob(ctx context.Context, l layer, name string) (int64, error) {
	content, err := c.openVerifiedBlob(ctx, l)
	if err != nil {
		return 0, err
	}
	defer func() { _ = content.Close() }() // It was only read.

	file, err := os.Create(name)
	if err != nil {
		return 0, err
	}

	n, err := io.Copy(file, content)
	return n, errors.Join(err, file.Close())
}

// ociLayerMediaType returns the OCI media type for a Docker media type of a layer. Other
// types are returned unchanged.
func ociLayerMediaType(mediaType string) string {
	switch mediaType {
	case "application/vnd.docker.image.rootfs.diff.tar.gzip":
		return imgspecv1.MediaTypeImageLayerGzip
	case "application/vnd.docker.image.rootfs.diff.tar":
		return imgspecv1.MediaTypeImageLayer
	case "application/vnd.docker.image.rootfs.diff.tar.zstd":
		return imgspecv1.MediaTypeImageLayerZstd
	default:
		return mediaType
	}
}
