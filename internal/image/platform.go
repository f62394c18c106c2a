package image

import (
	"context"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	imgspecv1 "github.com/opencontainers/image-spec/specs-go/v1"
	"go.podman.io/image/v5/manifest"
	"go.podman.io/image/v5/types"
)

// Limits of an image index.
const (
	// maxIndexes is how many indexes are read to find one platform. An index that contains
	// indexes is legal and rare: one for each version of an operating system.
	maxIndexes = 8
	// maxNamedPlatforms is how many platforms an error lists.
	maxNamedPlatforms = 32
)

// choosePlatform finds the image for the client's platform in an index, or in one of its
// nested indexes. It returns its digest, its manifest and the media type.
func (c remoteContent) choosePlatform(ctx context.Context, raw []byte, mediaType string) (digest.Digest, []byte, string, error) {
	type list struct {
		raw       []byte
		mediaType string
	}
	var named []string
	read := 1
	for lists := []list{{raw, mediaType}}; len(lists) > 0; lists = lists[1:] {
		platforms, err := parsePlatforms(lists[0].raw, lists[0].mediaType)
		if err != nil {
			return "", nil, "", err
		}

		chosen, nested := platforms.chooseInstance(c.opts.Architecture)
		named = append(named, platforms.platformNames()...)
		if chosen != "" {
			nested = []digest.Digest{chosen}
		}

		for _, candidate := range nested {
			if read++; read > maxIndexes+1 {
				return "", nil, "", contentErrorf("its image index contains more than %d image indexes", maxIndexes)
			}

			data, kind, err := c.remote.fetchManifest(ctx, candidate)
			if err != nil {
				return "", nil, "", err
			}

			if !manifest.MIMETypeIsMultiImage(kind) {
				if candidate != chosen {
					continue // Its entry claimed to be an index.
				}
				return candidate, data, kind, nil
			}

			lists = append(lists, list{data, kind})
		}
	}

	return "", nil, "", missingPlatformError(c.opts.Architecture, named)
}

// missingPlatformError returns the error for an index without the architecture. It lists
// the platforms of the index.
func missingPlatformError(architecture string, named []string) error {
	slices.Sort(named)
	named = slices.Compact(named)
	if len(named) == 0 {
		return contentErrorf("it has no platform linux/%s; it names none", architecture)
	}

	more := ""
	if len(named) > maxNamedPlatforms {
		named, more = named[:maxNamedPlatforms], " and more"
	}

	return contentErrorf("it has no platform linux/%s; it has %s%s", architecture, strings.Join(named, ", "), more)
}

// platformList is an image index: a list of images for several platforms.
type platformList struct {
	list    manifest.List
	entries []imgspecv1.Descriptor
}

// parsePlatforms parses an index. Entries that are not an image for a platform are left
// out, such as the attestations that builders add for each image.
func parsePlatforms(raw []byte, mediaType string) (*platformList, error) {
	if mediaType == manifest.DockerV2ListMediaType {
		list, err := manifest.Schema2ListFromManifest(raw)
		if err != nil {
			return nil, contentErrorf("read the image index: %w", err)
		}

		p := &platformList{list: list}
		for _, m := range list.Manifests {
			p.entries = append(p.entries, imgspecv1.Descriptor{
				MediaType: m.MediaType, Digest: m.Digest,
				Platform: &imgspecv1.Platform{OS: m.Platform.OS, Architecture: m.Platform.Architecture, Variant: m.Platform.Variant},
			})
		}

		return p, nil
	}

	list, err := manifest.OCI1IndexFromManifest(raw)
	if err != nil {
		return nil, contentErrorf("read the image index: %w", err)
	}

	list.Manifests = slices.DeleteFunc(list.Manifests, func(d imgspecv1.Descriptor) bool {
		return d.Annotations["vnd.docker.reference.type"] == "attestation-manifest" || isArtifactEntry(d.ArtifactType) ||
			d.Digest.Validate() != nil
	})
	return &platformList{list: list, entries: list.Manifests}, nil
}

// isArtifactEntry reports whether an entry of an index is not an image. Some tools, ko and
// crane among them, write the type of an image's configuration as artifact type.
func isArtifactEntry(artifactType string) bool {
	switch artifactType {
	case "", imgspecv1.MediaTypeImageConfig, manifest.DockerV2Schema2ConfigMediaType:
		return false
	default:
		return true
	}
}

// chooseInstance returns the digest of the image for linux and an architecture. If there is
// none, it returns the nested indexes that may contain one.
func (p *platformList) chooseInstance(architecture string) (digest.Digest, []digest.Digest) {
	chosen, err := p.list.ChooseInstance(&types.SystemContext{OSChoice: "linux", ArchitectureChoice: architecture})
	if err == nil && chosen.Validate() == nil {
		return chosen, nil
	}

	var nested []digest.Digest
	for _, entry := range p.entries {
		if manifest.MIMETypeIsMultiImage(entry.MediaType) && entry.Digest.Validate() == nil {
			nested = append(nested, entry.Digest)
		}
	}

	return "", nested
}

// platformNames returns the platforms in the form linux/arm/v7.
func (p *platformList) platformNames() []string {
	var names []string
	for _, entry := range p.entries {
		if entry.Platform == nil || entry.Platform.OS == "" || entry.Platform.OS == "unknown" {
			continue
		}
		text := strings.TrimSuffix(entry.Platform.OS+"/"+entry.Platform.Architecture+"/"+entry.Platform.Variant, "/")
		if names = append(names, text); len(names) > maxNamedPlatforms {
			break
		}
	}

	return names
}
