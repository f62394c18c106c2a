package image

import (
	"cmp"
	"context"
	"slices"

	imgspecv1 "github.com/opencontainers/image-spec/specs-go/v1"
	"go.podman.io/image/v5/manifest"
)

// Platform is the operating system and architecture of an image, as values of GOOS and
// GOARCH.
type Platform struct {
	OS, Architecture string
}

// Platforms returns the platforms of an image, sorted: those of its index, or else the one
// of its configuration. It does not check the signature policy, because no content of the
// image is used.
func (c *Client) Platforms(ctx context.Context, ref string) ([]Platform, error) {
	var found []Platform
	err := c.readOnce(ctx, "inspect", ref, func(ctx context.Context, img *Image) error {
		raw, mediaType, err := img.content.remote.fetchManifest(ctx, "")
		if err != nil {
			return err
		}
		found, err = img.collectPlatforms(ctx, raw, mediaType)
		return err
	})
	if err != nil {
		return nil, err
	}

	slices.SortFunc(found, func(a, b Platform) int {
		return cmp.Or(cmp.Compare(a.OS, b.OS), cmp.Compare(a.Architecture, b.Architecture))
	})
	return slices.Compact(found), nil
}

// collectPlatforms returns the platforms of a manifest or an index, and of its nested
// indexes.
func (img *Image) collectPlatforms(ctx context.Context, raw []byte, mediaType string) ([]Platform, error) {
	if !manifest.MIMETypeIsMultiImage(mediaType) {
		if err := img.readManifestContents(ctx, raw, mediaType); err != nil {
			return nil, err
		}
		return platformOfConfig(img.config), nil
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
			return nil, contentErrorf("its image index contains more than %d image indexes", maxIndexes)
		}
		if raw, mediaType, err = img.content.remote.fetchManifest(ctx, nested[0].Digest); err != nil {
			return nil, err
		}
		if !manifest.MIMETypeIsMultiImage(mediaType) {
			return nil, contentErrorf("%s is not an image index, although its entry says so", nested[0].Digest)
		}

		nested = nested[1:]
	}
}

// platformOfConfig returns the platform of an image's configuration. Artifacts have none.
func platformOfConfig(config *imgspecv1.Image) []Platform {
	if config == nil || config.OS == "" {
		return nil
	}
	return []Platform{{OS: config.OS, Architecture: config.Architecture}}
}
