// Package releases has the operations on release images: put one together, look at it,
// compare two, take files out of one, copy it to where it is needed, sign it, and say whether it
// is signed. They
// need registries and files; where a cluster is needed, an interface asks for it.
package releases

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/blang/semver/v4"

	"github.com/mainstay-dev/mainstay/internal/action/catalogs"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/release"
	"github.com/mainstay-dev/mainstay/internal/releaseimage"
)

// Resolver knows where releases are.
type Resolver interface {
	// Resolve returns the pull spec of the release with a version. An empty version is that of
	// the cluster.
	Resolve(ctx context.Context, version string) (string, error)
}

// Source says where a release comes from.
type Source struct {
	Registry catalogs.Registry
	// Resolver finds releases by their versions. Nil: nobody knows them.
	Resolver Resolver
}

// objectOf is what an error calls a release.
func objectOf(ref string) string {
	if ref == "" {
		return "release"
	}
	return fmt.Sprintf("release %q", ref)
}

// locate returns the reference of a release that may be named by its version.
func (s Source) locate(ctx context.Context, ref string) (string, error) {
	_, err := semver.Parse(ref)
	isVersion := err == nil
	switch {
	case ref != "" && !isVersion:
		return ref, nil
	case s.Resolver != nil:
		found, err := s.Resolver.Resolve(ctx, ref)
		if err != nil {
			advice := "name the release image by its reference in a registry"
			if isVersion {
				advice += ", or an update service with --upstream"
			}
			return "", &report.Error{Object: objectOf(ref), Err: err, Advice: advice}
		}
		return found, nil
	case ref == "":
		return "", &report.Error{Object: objectOf(ref), Err: errors.New("none was named"), Advice: "name the release image by its reference in a registry"}
	default:
		return "", &report.Error{Object: objectOf(ref), Err: errors.New("no cluster is asked where the release with this version is"), Advice: "name the release image by its reference in a registry"}
	}
}

// open reads a release.
func (s Source) open(ctx context.Context, ref string) (*releaseimage.Image, error) {
	return s.openWith(ctx, ref, release.Options{})
}

func (s Source) openWith(ctx context.Context, ref string, options release.Options) (*releaseimage.Image, error) {
	found, err := s.locate(ctx, ref)
	if err != nil {
		return nil, err
	}

	opened, err := releaseimage.OpenWith(ctx, s.Registry.Client(found), found, options)
	if err != nil {
		return nil, &report.Error{Object: objectOf(found), Err: err}
	}

	return opened, nil
}

// payload reads the payload of a release, or the one in a folder, which is that of the
// release that the options name. It tells where it was found: the pull spec or the folder.
func (s Source) payload(ctx context.Context, ref, dir string, options release.Options) (payload *release.Payload, where string, err error) {
	if dir != "" {
		if payload, err = release.Load(os.DirFS(dir), options); err != nil {
			return nil, dir, &report.Error{Object: fmt.Sprintf("directory %q", dir), Err: err}
		}
		return payload, dir, nil
	}

	opened, err := s.openWith(ctx, ref, options)
	if err != nil {
		return nil, ref, err
	}
	return opened.Payload, opened.Canonical, opened.Close()
}

// clients reaches the registries of images.
func (s Source) clients(ref string) *image.Client { return s.Registry.Client(ref) }

// maxFile bounds a file of the user that is read into memory: keys, keyrings, ConfigMaps and
// lists of images.
const maxFile = 8 << 20

// readFile reads a file of the user.
func readFile(name string) ([]byte, error) {
	object := fmt.Sprintf("file %q", name)
	file, err := os.Open(name)
	if err != nil {
		return nil, &report.Error{Object: object, Err: bare(err)}
	}

	defer func() { _ = file.Close() }() // It was only read.
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("it is larger than the %d bytes that it may have", maxFile)
	}
	if err != nil {
		return nil, &report.Error{Object: object, Err: bare(err)}
	}

	return data, nil
}

// bare takes the path out of an error that names it already.
func bare(err error) error {
	if pathError := (*os.PathError)(nil); errors.As(err, &pathError) {
		return pathError.Err
	}
	return err
}
