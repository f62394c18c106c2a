// Package releases implements the operations on release images: build, inspect, compare,
// extract, mirror, sign and verify. The operations need registries and files. An interface
// represents the cluster where one is needed.
package releases

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/blang/semver/v4"

	"github.com/mainstay-dev/mainstay/internal/action/catalog/catalogs"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/release"
	"github.com/mainstay-dev/mainstay/internal/releaseimage"
)

// Resolver finds releases by version.
type Resolver interface {
	// Resolve returns the pull spec of the release with a version. An empty version means
	// the release of the cluster.
	Resolve(ctx context.Context, version string) (string, error)
}

// Source configures where releases are read from.
type Source struct {
	Registry catalogs.Registry
	// Resolver finds releases by version. Nil means that versions cannot be resolved.
	Resolver Resolver
}

// releaseObject returns the name of a release for errors.
func releaseObject(ref string) string {
	if ref == "" {
		return "release"
	}
	return fmt.Sprintf("release %q", ref)
}

// resolveReference returns the reference of a release. The release may be named by its
// version.
func (s Source) resolveReference(ctx context.Context, ref string) (string, error) {
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
			return "", &report.Error{Object: releaseObject(ref), Err: err, Advice: advice}
		}
		return found, nil
	case ref == "":
		return "", &report.Error{Object: releaseObject(ref), Err: errors.New("no release is specified"), Advice: "name the release image by its reference in a registry"}
	default:
		return "", &report.Error{Object: releaseObject(ref), Err: errors.New("a version can be resolved only with a cluster"), Advice: "name the release image by its reference in a registry"}
	}
}

// openRelease opens a release.
func (s Source) openRelease(ctx context.Context, ref string) (*releaseimage.Image, error) {
	return s.openReleaseWithOptions(ctx, ref, release.Options{})
}

// openReleaseWithOptions opens a release and loads its payload with options.
func (s Source) openReleaseWithOptions(ctx context.Context, ref string, options release.Options) (*releaseimage.Image, error) {
	found, err := s.resolveReference(ctx, ref)
	if err != nil {
		return nil, err
	}

	opened, err := releaseimage.OpenWith(ctx, s.Registry.Client(found), found, options)
	if err != nil {
		return nil, &report.Error{Object: releaseObject(found), Err: err}
	}

	return opened, nil
}

// loadPayload loads the payload of a release, or that of a folder if dir is set. The result
// where is the pull spec or the folder.
func (s Source) loadPayload(ctx context.Context, ref, dir string, options release.Options) (payload *release.Payload, where string, err error) {
	if dir != "" {
		if payload, err = release.Load(os.DirFS(dir), options); err != nil {
			return nil, dir, &report.Error{Object: fmt.Sprintf("directory %q", dir), Err: err}
		}
		return payload, dir, nil
	}

	opened, err := s.openReleaseWithOptions(ctx, ref, options)
	if err != nil {
		return nil, ref, err
	}
	return opened.Payload, opened.Canonical, opened.Close()
}

// newRegistryClient returns a client for the registry of an image.
func (s Source) newRegistryClient(ref string) *image.Client { return s.Registry.Client(ref) }

// maxFileBytes limits the size of user files: keys, keyrings, ConfigMaps and lists of
// images.
const maxFileBytes = 8 << 20

// readUserFile returns the content of a user's file, up to maxFileBytes.
func readUserFile(name string) ([]byte, error) {
	object := fmt.Sprintf("file %q", name)
	file, err := os.Open(name)
	if err != nil {
		return nil, &report.Error{Object: object, Err: stripPath(err)}
	}
	defer func() { _ = file.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(file, maxFileBytes+1))
	if err == nil && len(data) > maxFileBytes {
		err = fmt.Errorf("it is larger than the %d bytes that it may have", maxFileBytes)
	}
	if err != nil {
		return nil, &report.Error{Object: object, Err: stripPath(err)}
	}

	return data, nil
}

// stripPath removes the path from an error of a file operation.
func stripPath(err error) error {
	if pathError := (*os.PathError)(nil); errors.As(err, &pathError) {
		return pathError.Err
	}
	return err
}
