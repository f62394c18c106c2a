package image

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/opencontainers/go-digest"
	imgspecv1 "github.com/opencontainers/image-spec/specs-go/v1"
	"go.podman.io/image/v5/docker"
	"go.podman.io/image/v5/docker/reference"
	libimage "go.podman.io/image/v5/image"
	"go.podman.io/image/v5/manifest"
	"go.podman.io/image/v5/types"
)

// Image is an image of a registry, opened for reading. The files are still there: only
// its manifest and its configuration have been read, and verified.
type Image struct {
	// Canonical is <repository>@<digest>, with the repository as it was asked for (not a
	// mirror of it) and the digest that the tag has: for a multi-platform image the digest
	// of the whole, not of the platform that was chosen.
	Canonical string
	// Labels are the labels of the image's configuration. Artifacts that are no container
	// images have none.
	Labels map[string]string
	// Annotations are those of the manifest.
	Annotations map[string]string

	client    *Client
	ref       string
	source    types.ImageSource
	layers    []layer
	closeOnce sync.Once
	cleanup   func()
}

// layer is one layer as the manifest describes it.
type layer struct {
	digest    digest.Digest
	size      int64 // in bytes; zero or less when the manifest does not say
	mediaType string
}

// Resolve gives <repository>@<digest> for a reference. The network is asked only when the
// reference has no digest. Trust is not decided here but by Pull.
func (c *Client) Resolve(ctx context.Context, ref string) (string, error) {
	canonical, err := c.resolve(ctx, ref)
	return canonical, fail("resolve", ref, err, c.secrets()...)
}

func (c *Client) resolve(ctx context.Context, ref string) (string, error) {
	named, err := parseReference(ref)
	if err != nil {
		return "", err
	}
	if _, ok := named.(reference.Digested); ok {
		return named.String(), nil
	}
	ctx, cancel := c.openContext(ctx)
	defer cancel()
	source, cleanup, err := c.openSource(ctx, named)
	if err != nil {
		return "", err
	}
	defer cleanup()
	raw, _, err := source.GetManifest(ctx, nil)
	if err != nil {
		return "", err
	}
	return canonicalName(named, raw)
}

// Pull opens an image: it reads the manifest, chooses the platform, applies the signature
// policy and reads the configuration. The caller closes the image.
func (c *Client) Pull(ctx context.Context, ref string) (*Image, error) {
	img, err := c.pull(ctx, ref)
	if err != nil {
		return nil, fail("pull", ref, err, c.secrets()...)
	}
	return img, nil
}

func (c *Client) pull(ctx context.Context, ref string) (*Image, error) {
	named, err := parseReference(ref)
	if err != nil {
		return nil, err
	}
	ctx, cancel := c.openContext(ctx)
	defer cancel()
	source, cleanup, err := c.openSource(ctx, named)
	if err != nil {
		return nil, err
	}
	img := &Image{client: c, ref: ref, source: source, cleanup: cleanup}
	if err := img.open(ctx, named); err != nil {
		_ = img.Close()
		return nil, err
	}
	return img, nil
}

// openSource connects to the registry, or to a mirror of it, and reads the manifest. The
// returned function closes the source.
func (c *Client) openSource(ctx context.Context, named reference.Named) (types.ImageSource, func(), error) {
	sys, cleanup, err := c.system(named)
	if err != nil {
		return nil, nil, err
	}
	ref, err := docker.NewReference(named)
	if err != nil {
		cleanup()
		return nil, nil, faultf(KindInvalid, "%w", err)
	}
	source, err := ref.NewImageSource(ctx, sys)
	if err != nil {
		cleanup()
		return nil, nil, err
	}
	return source, func() {
		_ = source.Close()
		cleanup()
	}, nil
}

// Close releases the image. It may be called more than once.
func (img *Image) Close() error {
	img.closeOnce.Do(img.cleanup)
	return nil
}

func (img *Image) open(ctx context.Context, named reference.Named) error {
	whole := libimage.UnparsedInstance(img.source, nil)
	raw, mediaType, err := readManifest(ctx, img.source, nil, named)
	if err != nil {
		return err
	}
	if img.Canonical, err = canonicalName(named, raw); err != nil {
		return err
	}
	instance := whole
	if manifest.MIMETypeIsMultiImage(mediaType) {
		chosen, err := choosePlatform(raw, mediaType, img.client.opts.Architecture)
		if err != nil {
			return err
		}
		instance = libimage.UnparsedInstance(img.source, &chosen)
		if err := img.client.verify(ctx, instance); err != nil {
			return err
		}
		if raw, mediaType, err = readManifest(ctx, img.source, &chosen, named); err != nil {
			return err
		}
	} else if err := img.client.verify(ctx, instance); err != nil {
		return err
	}
	return img.readContent(ctx, raw, mediaType)
}

// readManifest reads a manifest, gives its media type, and refuses one that does not have
// the digest by which it was asked for.
func readManifest(ctx context.Context, source types.ImageSource, instance *digest.Digest, named reference.Named) ([]byte, string, error) {
	raw, mediaType, err := source.GetManifest(ctx, instance)
	if err != nil {
		return nil, "", err
	}
	want, wanted := digest.Digest(""), false
	if instance != nil {
		want, wanted = *instance, true
	} else if digested, ok := named.(reference.Digested); ok {
		want, wanted = digested.Digest(), true
	}
	if wanted {
		matches, err := manifest.MatchesDigest(raw, want)
		if err != nil {
			return nil, "", badContent("compute the digest of the manifest: %w", err)
		}
		if !matches {
			return nil, "", badContent("the registry sent a manifest that does not have the digest %s", want)
		}
	}
	if !slices.Contains(manifest.DefaultRequestedManifestMIMETypes, mediaType) {
		mediaType = manifest.GuessMIMEType(raw)
	}
	return raw, mediaType, nil
}

func canonicalName(named reference.Named, raw []byte) (string, error) {
	if _, ok := named.(reference.Digested); ok {
		return named.String(), nil
	}
	sum, err := manifest.Digest(raw)
	if err != nil {
		return "", badContent("compute the digest of the manifest: %w", err)
	}
	canonical, err := reference.WithDigest(reference.TrimNamed(named), sum)
	if err != nil {
		return "", badContent("name the image by digest: %w", err)
	}
	return canonical.String(), nil
}

// choosePlatform picks linux/<architecture> from a list, and names what there is when it
// is missing.
func choosePlatform(raw []byte, mediaType, architecture string) (digest.Digest, error) {
	list, err := manifest.ListFromBlob(raw, mediaType)
	if err != nil {
		return "", badContent("read the list of platforms: %w", err)
	}
	chosen, err := list.ChooseInstance(&types.SystemContext{OSChoice: "linux", ArchitectureChoice: architecture})
	if err == nil {
		return chosen, nil
	}
	var names []string
	for _, instance := range list.Instances() {
		details, err := list.Instance(instance)
		if err != nil || details.ReadOnly.Platform == nil {
			continue
		}
		p := details.ReadOnly.Platform
		name := strings.TrimSuffix(p.OS+"/"+p.Architecture+"/"+p.Variant, "/")
		if !slices.Contains(names, name) && len(names) < 32 {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "", badContent("it has no platform linux/%s; it names none", architecture)
	}
	slices.Sort(names)
	return "", badContent("it has no platform linux/%s; it has %s", architecture, strings.Join(names, ", "))
}

func (img *Image) readContent(ctx context.Context, raw []byte, mediaType string) error {
	parsed, err := manifest.FromBlob(raw, mediaType)
	if err != nil {
		return badContent("read the manifest: %w", err)
	}
	switch m := parsed.(type) {
	case *manifest.OCI1:
		img.Annotations = m.Annotations
	case *manifest.Schema2:
	default:
		return badContent("its manifest has the obsolete or unknown type %q; push it again with a current tool", mediaType)
	}
	infos := parsed.LayerInfos()
	if limit := img.client.opts.Limits.Layers; len(infos) > limit {
		return badContent("it has %d layers, at most %d are read", len(infos), limit)
	}
	for _, info := range infos {
		if err := info.Digest.Validate(); err != nil {
			return badContent("read the manifest: layer %q: %w", info.Digest, err)
		}
		img.layers = append(img.layers, layer{digest: info.Digest, size: info.Size, mediaType: info.MediaType})
	}
	return img.readConfig(ctx, parsed.ConfigInfo())
}

// maxConfig is what the registry client allows a manifest to have, too.
const maxConfig = 4 << 20

func (img *Image) readConfig(ctx context.Context, info types.BlobInfo) error {
	switch info.MediaType {
	case imgspecv1.MediaTypeImageConfig, manifest.DockerV2Schema2ConfigMediaType:
	default:
		return nil
	}
	if err := info.Digest.Validate(); err != nil {
		return badContent("read the manifest: configuration %q: %w", info.Digest, err)
	}
	blob, err := img.blob(ctx, layer{digest: info.Digest, size: info.Size})
	if err != nil {
		return err
	}
	defer func() { _ = blob.Close() }() // It was only read.
	data, err := readAtMost(blob, maxConfig)
	if errors.Is(err, errTooLarge) {
		return badContent("its configuration has more than %d bytes", maxConfig)
	}
	if err != nil {
		return err
	}
	var config imgspecv1.Image
	if err := json.Unmarshal(data, &config); err != nil {
		return badContent("read its configuration: %w", err)
	}
	img.Labels = config.Config.Labels
	return nil
}
