package releaseimage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/release"
)

// errSinglePlatform is returned if all platforms of the base image should be kept, but it has
// only one.
var errSinglePlatform = errors.New("the image to build upon is there for one platform only: there is no list of platforms to keep")

// Build builds the release image: one image per platform of a multi-architecture release,
// otherwise one image. It adds warnings about component images that lack a platform. The layers
// of the base image are downloaded into tempDir, which the caller removes after the images were
// pushed or written.
func (c *Composed) Build(ctx context.Context, tempDir string) ([]*image.Built, error) {
	if c.Base == "" {
		if c.keepPlatforms {
			return nil, errSinglePlatform
		}

		spec := c.newImageSpec()
		// The image contains no program. The architecture is one that every tool accepts.
		spec.Architecture = "amd64"
		built, err := image.Build(spec)

		return []*image.Built{built}, err
	}

	client := c.clients(c.Base)
	clients := []*image.Client{client}
	if c.Metadata.Architecture("") == release.ArchitectureMulti {
		platforms, err := client.Platforms(ctx, c.Base)
		if err != nil {
			return nil, fmt.Errorf("the image to build upon: %w", err)
		}

		platforms = slices.DeleteFunc(platforms, func(p image.Platform) bool { return p.OS != "linux" })
		if err := c.checkPlatforms(ctx, platforms); err != nil {
			return nil, err
		}

		clients = nil
		for _, platform := range platforms {
			clients = append(clients, client.ForArchitecture(platform.Architecture))
		}
	}

	if c.keepPlatforms && len(clients) < 2 {
		return nil, errSinglePlatform
	}

	var images []*image.Built
	for _, client := range clients {
		built, err := c.buildOnBase(ctx, client, tempDir)
		if err != nil {
			return nil, err
		}
		images = append(images, built)
	}

	return images, nil
}

// checkPlatforms adds warnings about images that lack a platform of the release.
func (c *Composed) checkPlatforms(ctx context.Context, wanted []image.Platform) error {
	missing := make([][]string, len(c.Images.Tags))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxParallelPulls)
	for i, tag := range c.Images.Tags {
		group.Go(func() error {
			found, err := c.clients(tag.PullSpec).Platforms(ctx, tag.PullSpec)
			if err != nil {
				return fmt.Errorf("image %q: %w", tag.Name, err)
			}
			for _, platform := range wanted {
				if !slices.Contains(found, platform) {
					missing[i] = append(missing[i], platform.OS+"/"+platform.Architecture)
				}
			}
			return nil
		})
	}

	if err := group.Wait(); err != nil {
		return err
	}

	for i, platforms := range missing {
		if len(platforms) > 0 {
			c.Warnings = append(c.Warnings, fmt.Sprintf("image %q is not there for %s, which the release is for", c.Images.Tags[i].Name, strings.Join(platforms, ", ")))
		}
	}

	return nil
}

// buildOnBase builds the image on the base image for the platform of a client.
func (c *Composed) buildOnBase(ctx context.Context, client *image.Client, tempDir string) (*image.Built, error) {
	pulled, err := client.Pull(ctx, c.Base)
	if err != nil {
		return nil, fmt.Errorf("the image to build upon: %w", err)
	}
	defer func() { _ = pulled.Close() }() // It was only read.
	spec := c.newImageSpec()
	_, spec.Labels[LabelBaseDigest], _ = strings.Cut(pulled.Canonical, "@")
	if spec.Base, err = pulled.Base(ctx, tempDir); err != nil {
		return nil, fmt.Errorf("the image to build upon: %w", err)
	}

	return image.Build(spec)
}

// newImageSpec returns the spec of the image without its base.
func (c *Composed) newImageSpec() image.Spec {
	spec := image.Spec{
		OS: "linux", Comment: "Release image for OpenShift", Created: c.Images.Created.Time,
		Labels: map[string]string{LabelRelease: c.Metadata.Version},
		Layers: []image.Layer{{Dirs: []string{release.FolderOwn}}},
	}
	for _, name := range slices.Sorted(maps.Keys(c.Files)) {
		spec.Layers[0].Files = append(spec.Layers[0].Files, image.File{
			Path: "/" + name, ReadOnly: true, Content: c.Files[name],
			First: name == release.FileImages || name == release.FileMetadata,
		})
	}

	return spec
}
