package image

import (
	"cmp"
	"context"
	"slices"

	imgspecv1 "github.com/opencontainers/image-spec/specs-go/v1"
	"go.podman.io/image/v5/manifest"
)

// Platform is what an image runs on, in the words of GOOS and GOARCH.
type Platform struct {
	OS, Architecture string
}

// Platforms tells which platforms an image is there for, sorted: those that its list of
// images names, else the one of its configuration. Nothing is run and no signature is
// looked for, since no content of it is used.
func (c *Client) Platforms(ctx context.Context, ref string) ([]Platform, error) {
	found, err := c.platforms(ctx, ref)
	if err != nil {
		return nil, fail("inspect", ref, err, c.secrets()...)
	}

	slices.SortFunc(found, func(a, b Platform) int {
		return cmp.Or(cmp.Compare(a.OS, b.OS), cmp.Compare(a.Architecture, b.Architecture))
	})
	return slices.Compact(found), nil
}

func (c *Client) platforms(ctx context.Context, ref string) ([]Platform, error) {
	named, err := parseReference(ref)
	if err != nil {
		return nil, err
	}

	ctx, cancel := c.openContext(ctx)
	defer cancel()
	remote, err := c.remote(named)
	if err != nil {
		return nil, err
	}

	img := &Image{client: c, ref: ref, remote: remote}
	defer func() { _ = img.Close() }() // It was only read.
	raw, mediaType, err := remote.manifest(ctx, "")
	if err != nil {
		return nil, err
	}

	return img.platforms(ctx, raw, mediaType)
}

// platforms reads them of a manifest, and of the lists that a list holds.
func (img *Image) platforms(ctx context.Context, raw []byte, mediaType string) ([]Platform, error) {
	if !manifest.MIMETypeIsMultiImage(mediaType) {
		if err := img.readContent(ctx, raw, mediaType); err != nil {
			return nil, err
		}
		return platformOf(img.config), nil
	}

	var found []Platform
	var nested []imgspecv1.Descriptor
	for read := 0; ; read++ {
		list, err := parsePlatforms(raw, mediaType)
		if err != nil {
			return nil, err
		}

		for _, entry := range list.entries {
			switch {
			case manifest.MIMETypeIsMultiImage(entry.MediaType):
				nested = append(nested, entry)
			case entry.Platform != nil && entry.Platform.OS != "" && entry.Platform.OS != "unknown":
				found = append(found, Platform{OS: entry.Platform.OS, Architecture: entry.Platform.Architecture})
			}
		}

		if len(nested) == 0 {
			return found, nil
		}
		if read == maxIndexes {
			return nil, badContent("it is a list of more than %d lists of platforms", maxIndexes)
		}
		if raw, mediaType, err = img.remote.manifest(ctx, nested[0].Digest); err != nil {
			return nil, err
		}
		if !manifest.MIMETypeIsMultiImage(mediaType) {
			return nil, badContent("%s is no list of platforms, though it is said to be one", nested[0].Digest)
		}

		nested = nested[1:]
	}
}

// platformOf is what a configuration says. Artifacts have none.
func platformOf(config *imgspecv1.Image) []Platform {
	if config == nil || config.OS == "" {
		return nil
	}
	return []Platform{{OS: config.OS, Architecture: config.Architecture}}
}
