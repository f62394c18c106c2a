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
	base, err := img.downloadBase(ctx, dir)
	return base, img.client.registries.operationError("pull", img.ref, err)
}

func (img *Image) downloadBase(ctx context.Context, dir string) (*Base, error) {
	if img.config == nil || len(img.config.RootFS.DiffIDs) != len(img.layers) {
		return nil, contentErrorf("it is not a container image, so it cannot be a base image")
	}

	ctx, cancel := img.client.transfers.withTimeout(ctx)
	defer cancel()

	base := &Base{config: *img.config}
	for _, l := range img.layers {
		if err := checkLayerType(l); err != nil {
			return nil, err
		}

		part := builtBlob{mediaType: ociLayerMediaType(l.mediaType), digest: l.digest, file: filepath.Join(dir, l.digest.Encoded())}
		var err error
		if part.fileSize, err = img.downloadBlob(ctx, l, part.file); err != nil {
			return nil, err
		}

		base.layers = append(base.layers, part)
	}

	return base, nil
}

// downloadBlob writes a blob into a file, and returns its size.
func (img *Image) downloadBlob(ctx context.Context, l layer, name string) (int64, error) {
	content, err := img.openVerifiedBlob(ctx, l)
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
