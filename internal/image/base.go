package image

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	imgspecv1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// Base is an image to build upon: its layers, as files, and its settings.
type Base struct {
	config imgspecv1.Image
	layers []blob
}

// Base downloads the image's layers into a directory, as they are and verified, to build
// upon. The files belong to the caller, who removes them when what was built is no longer
// needed, and after an error.
func (img *Image) Base(ctx context.Context, dir string) (*Base, error) {
	base, err := img.base(ctx, dir)
	return base, fail("pull", img.ref, err, img.client.secrets()...)
}

func (img *Image) base(ctx context.Context, dir string) (*Base, error) {
	if img.config == nil || len(img.config.RootFS.DiffIDs) != len(img.layers) {
		return nil, badContent("it is no container image that another one can be built upon")
	}

	ctx, cancel := img.client.transferContext(ctx)
	defer cancel()
	base := &Base{config: *img.config}
	for _, l := range img.layers {
		if err := checkLayerType(l); err != nil {
			return nil, err
		}

		part := blob{mediaType: ociLayerType(l.mediaType), digest: l.digest, file: filepath.Join(dir, l.digest.Encoded())}
		var err error
		if part.fileSize, err = img.download(ctx, l, part.file); err != nil {
			return nil, err
		}

		base.layers = append(base.layers, part)
	}

	return base, nil
}

// download writes a blob into a file, and gives its size.
func (img *Image) download(ctx context.Context, l layer, name string) (int64, error) {
	content, err := img.blob(ctx, l)
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

// ociLayerType returns the OCI name of a layer's type that Docker gave.
func ociLayerType(mediaType string) string {
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
