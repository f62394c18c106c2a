package realnode

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/mainstay-dev/mainstay/devcluster/internal/state"
)

// pauseImageReference returns the reference of the pod sandbox image in the cluster's own registry, from which
// containerd pulls it.
func pauseImageReference(addresses state.Addresses) string {
	return fmt.Sprintf("localhost:%d/devcluster/pause:1", addresses.RegistryPort)
}

// PushPauseImage pushes the pod sandbox image to the registry, which must be ready.
func (n *Node) PushPauseImage(ctx context.Context) error {
	image, err := newPauseImage(runtime.GOARCH)
	if err != nil {
		return fmt.Errorf("build the pause image: %w", err)
	}

	reference, err := name.ParseReference(pauseImageReference(n.config.Addresses))
	if err != nil {
		return fmt.Errorf("build the pause image: %w", err)
	}
	if err := remote.Write(reference, image, remote.WithContext(ctx)); err != nil {
		return fmt.Errorf("push the pause image to the cluster's registry: %w", err)
	}

	return nil
}

func newPauseImage(architecture string) (v1.Image, error) {
	program, err := buildPauseBinary(architecture)
	if err != nil {
		return nil, err
	}

	var archive bytes.Buffer
	writer := tar.NewWriter(&archive)
	header := &tar.Header{Name: "pause", Mode: 0o755, Size: int64(len(program)), Typeflag: tar.TypeReg}
	if err := writer.WriteHeader(header); err != nil {
		return nil, err
	}
	if _, err := writer.Write(program); err != nil {
		return nil, err
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}

	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(archive.Bytes())), nil
	})
	if err != nil {
		return nil, err
	}

	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}

	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}

	config = config.DeepCopy()
	config.Architecture, config.OS = architecture, "linux"
	config.Config.Entrypoint = []string{"/pause"}

	return mutate.ConfigFile(image, config)
}
