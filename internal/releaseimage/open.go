package releaseimage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/release"
)

// Labels of images.
const (
	// LabelRelease is the name of the release, which is its version. Release images have it.
	LabelRelease = "io.openshift.release"
	// LabelBaseDigest is the digest of the base image. Release images have it.
	LabelBaseDigest = "io.openshift.release.base-image-digest"
	// LabelOperator with the value "true" marks images whose /manifests become part of the
	// release.
	LabelOperator = "io.openshift.release.operator"
)

// Permissions of written directories and files, before the umask. Their content is not secret.
const (
	dirMode  = 0o755
	fileMode = 0o644
)

// ErrTampered is wrapped by errors about a release image whose content does not match the
// requested digest.
var ErrTampered = errors.New("the release image failed content verification and may have been tampered with")

// Image is an opened release image. Its files are readable until it is closed.
type Image struct {
	// Canonical is <repository>@<digest>.
	Canonical string
	// Payload is the loaded payload.
	Payload *release.Payload
	// OS and Architecture are the platform of the image, as GOOS and GOARCH values.
	OS, Architecture string
	// Created is when the release was created according to its image-references, or else when the
	// image was created.
	Created time.Time
	// Labels are the labels of the image.
	Labels map[string]string

	files *image.Files
}

// Digest returns the digest of the image, as sha256:<hex>.
func (i *Image) Digest() string {
	_, digest, _ := strings.Cut(i.Canonical, "@")
	return digest
}

// Open opens a release image by tag or by digest. An invalid payload is an error that wraps a
// *release.Error. The caller must close the image.
func Open(ctx context.Context, client *image.Client, ref string) (*Image, error) {
	return OpenWith(ctx, client, ref, release.Options{})
}

// OpenWith is Open with options for the templates. It sets the pull spec of the release image
// itself.
func OpenWith(ctx context.Context, client *image.Client, ref string, options release.Options) (*Image, error) {
	opened, err := openReleaseImage(ctx, client, ref, options)
	if errors.Is(err, image.ErrDigestMismatch) {
		err = fmt.Errorf("%w: %w", ErrTampered, err)
	}
	return opened, err
}

func openReleaseImage(ctx context.Context, client *image.Client, ref string, options release.Options) (*Image, error) {
	pulled, err := client.Pull(ctx, ref)
	if err != nil {
		return nil, err
	}
	defer func() { _ = pulled.Close() }() // It was only read.
	folders := []string{release.FolderOwn, release.FolderRelease}
	if options.Bootstrap {
		folders = append(folders, release.FolderBootstrap)
	}

	files, err := pulled.FilesOfFolders(ctx, "", folders...)
	if err != nil {
		return nil, err
	}

	opened := &Image{Canonical: pulled.Canonical, Labels: pulled.Labels, Created: pulled.Created(), files: files}
	opened.OS, opened.Architecture = pulled.Platform()
	options.ReleaseImage = pulled.Canonical
	if opened.Payload, err = release.Load(files, options); err != nil {
		return nil, errors.Join(fmt.Errorf("the release image %s is not valid: %w", ref, err), opened.Close())
	}
	if created := opened.Payload.Images.Created; !created.IsZero() {
		opened.Created = created.UTC()
	}

	return opened, nil
}

// Close releases the files. They cannot be read afterwards.
func (i *Image) Close() error { return i.files.Close() }

// Files returns the directories of the payload as they are in the image.
func (i *Image) Files() fs.FS { return i.files }

// ReleaseFiles returns the names of the files in release-manifests, sorted.
func (i *Image) ReleaseFiles() ([]string, error) {
	return listFileNames(i.files, release.FolderRelease)
}

// listFileNames returns the names of the regular files directly in a directory, sorted. A
// missing directory has no files.
func listFileNames(fsys fs.FS, folder string) ([]string, error) {
	entries, err := fs.ReadDir(fsys, folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}

	var names []string
	for _, entry := range entries {
		if entry.Type().IsRegular() {
			names = append(names, entry.Name())
		}
	}

	slices.Sort(names)
	return names, err
}

// ReadFile reads a file of the payload by its base name: from release-manifests or, if it is not
// there, from manifests. The error is fs.ErrNotExist if neither has it.
func (i *Image) ReadFile(name string) ([]byte, error) {
	if name != path.Base(name) || !fs.ValidPath(name) {
		return nil, fs.ErrNotExist
	}

	for _, folder := range []string{release.FolderRelease, release.FolderOwn} {
		data, err := i.files.ReadFile(path.Join(folder, name))
		if !errors.Is(err, fs.ErrNotExist) {
			return data, err
		}
	}

	return nil, fs.ErrNotExist
}

// Unpack writes the payload into an existing, empty directory that release.Load can read: the
// files directly in manifests and release-manifests. Subdirectories are not part of a payload.
// The content was verified when the image was opened.
func (i *Image) Unpack(ctx context.Context, dir string) error {
	for _, folder := range []string{release.FolderOwn, release.FolderRelease} {
		names, err := listFileNames(i.files, folder)
		if err != nil {
			return err
		}
		if err := os.Mkdir(filepath.Join(dir, folder), dirMode); err != nil {
			return err
		}
		for _, name := range names {
			if err := ctx.Err(); err != nil {
				return err
			}
			data, err := i.files.ReadFile(path.Join(folder, name))
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(dir, folder, name), data, fileMode); err != nil {
				return err
			}
		}
	}

	return nil
}

// TagArchitecture returns the name of an architecture in tags of releases.
func TagArchitecture(architecture string) string {
	switch architecture {
	case "amd64":
		return "x86_64"
	case "arm64":
		return "aarch64"
	case release.ArchitectureMulti:
		return "multi"
	default:
		return architecture
	}
}
