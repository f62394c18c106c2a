package catalogs

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/image"
)

// BundleImage builds the image of a bundle of any media type from its folders. A container
// engine builds it when no delivery is requested.
type BundleImage struct {
	Registry Registry
	Progress report.Progress

	// Manifests and Metadata are the paths of the bundle's folders.
	Manifests, Metadata string
	// Description is the source of the labels.
	Description bundle.Description
	// Base is the base image. Empty or "scratch" means none.
	Base string
	// Tag names the image.
	Tag string
	// Engine is docker, podman or buildah. It builds the image from Dockerfile.
	Engine, Dockerfile string
	// EngineOutput receives the output of the engine.
	EngineOutput io.Writer
	// Delivery is the destination of an image that is built without an engine.
	Delivery Delivery
}

// Run builds and delivers the image. It returns the reference of a pushed image.
func (a *BundleImage) Run(ctx context.Context) (string, error) {
	if a.Delivery.IsEmpty() {
		args, err := engineBuildArguments(a.Engine, a.Dockerfile, a.Tag)
		if err != nil {
			return "", err
		}
		return "", runContainerEngine(ctx, "", a.Engine, a.EngineOutput, args...)
	}

	manifests, done, err := OpenFolder(a.Manifests)
	if err != nil {
		return "", err
	}
	defer done()
	metadata, done, err := OpenFolder(a.Metadata)
	if err != nil {
		return "", err
	}
	defer done()
	spec := image.Spec{Labels: a.imageLabels(), Layers: []image.Layer{
		{Tree: manifests, Target: "/" + bundle.FolderManifests}, {Tree: metadata, Target: "/" + bundle.FolderMetadata},
	}}
	if a.Base != "" && a.Base != scratchBase {
		dir, err := os.MkdirTemp("", "mainstay-base-")
		if err != nil {
			return "", err
		}
		defer func() { _ = os.RemoveAll(dir) }() // the image has been delivered
		base, err := loadBaseContent(ctx, a.Registry, a.Base, "", dir)
		if err != nil {
			return "", err
		}

		spec.Base = base.base
	}

	return buildAndDeliver(ctx, &spec, fmt.Sprintf("bundle %q", a.Manifests), a.Delivery, a.Registry, a.Progress)
}

// imageLabels returns the labels that describe the bundle.
func (a *BundleImage) imageLabels() map[string]string {
	labels := map[string]string{
		bundle.KeyMediaType: a.Description.MediaType,
		bundle.KeyManifests: bundle.FolderManifests + "/",
		bundle.KeyMetadata:  bundle.FolderMetadata + "/",
		bundle.KeyPackage:   a.Description.Package,
		bundle.KeyChannels:  a.Description.Channels,
	}
	if a.Description.DefaultChannel != "" {
		labels[bundle.KeyDefaultChannel] = a.Description.DefaultChannel
	}
	return labels
}

// OpenBundle opens the files of a bundle for reading.
type OpenBundle struct {
	Registry Registry
	Progress report.Progress

	// Ref is an existing folder, or the reference of an image.
	Ref string
	// IsImage means that Ref is the reference of an image, even if a folder of this name exists. It is for references
	// that the user has not written: a catalog must not choose a folder of this machine.
	IsImage bool
}

// OpenedBundle is a bundle whose files can be read.
type OpenedBundle struct {
	Files fs.FS
	// IsImage means that the bundle is an image, whose labels are Labels.
	IsImage bool
	Labels  map[string]string
}

// Run opens the bundle and calls read with it. It returns the error of read.
func (a *OpenBundle) Run(ctx context.Context, read func(OpenedBundle) error) error {
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	return read(OpenedBundle{Files: s.fsys, IsImage: s.kind == bundleImage, Labels: s.labels})
}

// Load loads the bundle as an installation does: the labels of an image specify the format of a bundle whose annotations
// do not.
func (a *OpenBundle) Load(ctx context.Context) (*bundle.Bundle, error) {
	s, err := a.open(ctx)
	if err != nil {
		return nil, err
	}
	defer s.close()
	return bundle.LoadImage(s.fsys, s.labels)
}

// open opens the folder, or pulls the image.
func (a *OpenBundle) open(ctx context.Context) (*source, error) {
	if info, err := os.Stat(a.Ref); a.IsImage || err != nil || !info.IsDir() {
		return pullBundleImage(ctx, a.Registry, a.Progress, a.Ref)
	}

	fsys, done, err := OpenFolder(a.Ref)
	if err != nil {
		return nil, err
	}
	return &source{kind: bundleDir, fsys: fsys, close: done}, nil
}

// pullBundleImage pulls an image and returns all its files, with its labels.
func pullBundleImage(ctx context.Context, registry Registry, progress report.Progress, ref string) (*source, error) {
	if err := validateImageReference(ref); err != nil {
		return nil, fmt.Errorf("failed to pull image %q: %w", ref, err)
	}
	defer showOperation(progress, ref, "pulling")()
	client := registry.Client(ref)
	pulled, err := client.Pull(ctx, ref)
	if err != nil {
		return nil, newPullError(ref, err)
	}
	defer func() { _ = pulled.Close() }() // everything has been read and verified
	files, done, err := registry.unpackFiles(ctx, client, pulled, "/")
	if err != nil {
		return nil, fmt.Errorf("failed to unpack image %q: %w", ref, err)
	}

	return &source{kind: bundleImage, image: ref, labels: pulled.Labels, fsys: files, close: done}, nil
}
