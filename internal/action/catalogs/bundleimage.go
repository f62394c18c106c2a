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

// BundleImage makes the image of a bundle, whatever its media type, from its folders. When
// no delivery is asked for, a container engine builds it.
type BundleImage struct {
	Registry Registry
	Progress report.Progress

	// Manifests and Metadata are the folders.
	Manifests, Metadata string
	// Description becomes the labels.
	Description bundle.Description
	// Base is the image that it is built on; scratch or empty means nothing.
	Base string
	// Tag names the image.
	Tag string
	// Engine is docker, podman or buildah, which builds it from Dockerfile.
	Engine, Dockerfile string
	// EngineOutput is told what the engine says.
	EngineOutput io.Writer
	// Delivery says where an image goes that no engine builds.
	Delivery Delivery
}

// Run builds and delivers the image. It gives the reference of one that was pushed.
func (a *BundleImage) Run(ctx context.Context) (string, error) {
	if a.Delivery.Nowhere() {
		args, err := buildArguments(a.Engine, a.Dockerfile, a.Tag)
		if err != nil {
			return "", err
		}
		return "", runEngine(ctx, "", a.Engine, a.EngineOutput, args...)
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
	spec := image.Spec{Labels: a.labels(), Layers: []image.Layer{
		{Tree: manifests, Target: "/" + bundle.FolderManifests}, {Tree: metadata, Target: "/" + bundle.FolderMetadata},
	}}
	if a.Base != "" && a.Base != scratch {
		dir, err := os.MkdirTemp("", "mainstay-base-")
		if err != nil {
			return "", err
		}

		defer func() { _ = os.RemoveAll(dir) }() // what counts has been delivered
		ground, err := lay(ctx, a.Registry, a.Base, "", dir)
		if err != nil {
			return "", err
		}

		spec.Base = ground.base
	}

	return buildAndDeliver(ctx, &spec, fmt.Sprintf("bundle %q", a.Manifests), a.Delivery, a.Registry, a.Progress)
}

func (a *BundleImage) labels() map[string]string {
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

// OpenBundle opens the files of a bundle for somebody to look at.
type OpenBundle struct {
	Registry Registry
	Progress report.Progress

	// Ref is a folder that exists, or an image.
	Ref string
}

// Run gets the bundle and calls a function with it.
func (a *OpenBundle) Run(ctx context.Context, look func(fs.FS) error) error {
	open := func() (fs.FS, func(), error) { return OpenFolder(a.Ref) }
	if info, err := os.Stat(a.Ref); err != nil || !info.IsDir() {
		open = func() (fs.FS, func(), error) { return pullAll(ctx, a.Registry, a.Progress, a.Ref) }
	}

	fsys, done, err := open()
	if err != nil {
		return err
	}

	defer done()
	return look(fsys)
}

// pullAll returns all files of an image. The returned function frees them.
func pullAll(ctx context.Context, registry Registry, progress report.Progress, ref string) (fs.FS, func(), error) {
	if err := checkReference(ref); err != nil {
		return nil, nil, fmt.Errorf("failed to pull image %q: %w", ref, err)
	}

	defer begin(progress, ref, "pulling")()
	client := registry.Client(ref)
	pulled, err := client.Pull(ctx, ref)
	if err != nil {
		return nil, nil, pullError(ref, err)
	}

	defer func() { _ = pulled.Close() }() // everything has been read and verified
	files, done, err := registry.files(ctx, client, pulled, "/")
	if err != nil {
		return nil, nil, fmt.Errorf("failed to unpack image %q: %w", ref, err)
	}

	return files, done, nil
}
