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

// Bounds of a list of platforms.
const (
	// maxIndexes is how many lists are read to find one platform. A list that holds lists is
	// legal and rare: one for each version of an operating system.
	maxIndexes = 8
	// maxNamed is how many platforms are named in an error.
	maxNamed = 32
)

// choose finds the image for the client's platform in a list of images, or in one of the
// lists that it holds, and gives its digest and its manifest.
func (img *Image) choose(ctx context.Context, raw []byte, mediaType string) (digest.Digest, []byte, string, error) {
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

		chosen, nested := platforms.choose(img.client.opts.Architecture)
		named = append(named, platforms.names()...)
		if chosen != "" {
			nested = []digest.Digest{chosen}
		}

		for _, candidate := range nested {
			if read++; read > maxIndexes+1 {
				return "", nil, "", badContent("it is a list of more than %d lists of platforms", maxIndexes)
			}

			data, kind, err := img.remote.manifest(ctx, candidate)
			if err != nil {
				return "", nil, "", err
			}

			if !manifest.MIMETypeIsMultiImage(kind) {
				if candidate != chosen {
					continue // It said of itself that it was a list.
				}
				return candidate, data, kind, nil
			}

			lists = append(lists, list{data, kind})
		}
	}

	return "", nil, "", noPlatform(img.client.opts.Architecture, named)
}

func noPlatform(architecture string, named []string) error {
	slices.Sort(named)
	named = slices.Compact(named)
	if len(named) == 0 {
		return badContent("it has no platform linux/%s; it names none", architecture)
	}

	more := ""
	if len(named) > maxNamed {
		named, more = named[:maxNamed], " and more"
	}

	return badContent("it has no platform linux/%s; it has %s%s", architecture, strings.Join(named, ", "), more)
}

// platforms is a list of images for several platforms.
type platforms struct {
	list    manifest.List
	entries []imgspecv1.Descriptor
}

// parsePlatforms reads a list, without what is no image for a platform: attestations, which
// builders add beside each image.
func parsePlatforms(raw []byte, mediaType string) (*platforms, error) {
	if mediaType == manifest.DockerV2ListMediaType {
		list, err := manifest.Schema2ListFromManifest(raw)
		if err != nil {
			return nil, badContent("read the list of platforms: %w", err)
		}

		p := &platforms{list: list}
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
		return nil, badContent("read the list of platforms: %w", err)
	}

	list.Manifests = slices.DeleteFunc(list.Manifests, func(d imgspecv1.Descriptor) bool {
		return d.Annotations["vnd.docker.reference.type"] == "attestation-manifest" || isArtifact(d.ArtifactType) ||
			d.Digest.Validate() != nil
	})
	return &platforms{list: list, entries: list.Manifests}, nil
}

// isArtifact reports whether an entry of a list is something else than an image. Some tools,
// ko and crane among them, write the type of an image's configuration there.
func isArtifact(artifactType string) bool {
	switch artifactType {
	case "", imgspecv1.MediaTypeImageConfig, manifest.DockerV2Schema2ConfigMediaType:
		return false
	default:
		return true
	}
}

// choose returns the image for linux and an architecture. When there is none it gives the
// lists that may hold one.
func (p *platforms) choose(architecture string) (digest.Digest, []digest.Digest) {
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

// names returns the platforms, as linux/arm/v7.
func (p *platforms) names() []string {
	var names []string
	for _, entry := range p.entries {
		if entry.Platform == nil || entry.Platform.OS == "" || entry.Platform.OS == "unknown" {
			continue
		}
		text := strings.TrimSuffix(entry.Platform.OS+"/"+entry.Platform.Architecture+"/"+entry.Platform.Variant, "/")
		if names = append(names, text); len(names) > maxNamed {
			break
		}
	}

	return names
}
