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
	// LabelRelease is on release images: their name, which is their version.
	LabelRelease = "io.openshift.release"
	// LabelBaseDigest is on release images: the digest of the image that they are built upon.
	LabelBaseDigest = "io.openshift.release.base-image-digest"
	// LabelOperator, with the value "true", is on images whose /manifests are part of the
	// releases that they are part of.
	LabelOperator = "io.openshift.release.operator"
)

// Permissions of what is written, which is no secret; the umask takes away from them.
const (
	dirMode  = 0o755
	fileMode = 0o644
)

// ErrTampered is in errors about a release image that does not have the digest by which it
// was asked for.
var ErrTampered = errors.New("the release image failed content verification and may have been tampered with")

// Image is a release image that was read. Its files stay readable until it is closed.
type Image struct {
	// Canonical is <repository>@<digest>.
	Canonical string
	// Payload is what is in it.
	Payload *release.Payload
	// OS and Architecture are what its programs are for, in the words of GOOS and GOARCH.
	OS, Architecture string
	// Created is when the release was made, as its image-references say, or else the image.
	Created time.Time
	// Labels of the image.
	Labels map[string]string

	files *image.Files
}

// Digest of the image, as sha256:<hex>.
func (i *Image) Digest() string {
	_, digest, _ := strings.Cut(i.Canonical, "@")
	return digest
}

// Open reads the payload of a release image, by tag or by digest. A payload that has faults
// is an error with a *release.Error. The caller closes the image.
func Open(ctx context.Context, client *image.Client, ref string) (*Image, error) {
	return OpenWith(ctx, client, ref, release.Options{})
}

// OpenWith is Open with what templates are executed with. The release image itself is known.
func OpenWith(ctx context.Context, client *image.Client, ref string, options release.Options) (*Image, error) {
	opened, err := open(ctx, client, ref, options)
	if errors.Is(err, image.ErrChanged) {
		err = fmt.Errorf("%w: %w", ErrTampered, err)
	}
	return opened, err
}

func open(ctx context.Context, client *image.Client, ref string, options release.Options) (*Image, error) {
	pulled, err := client.Pull(ctx, ref)
	if err != nil {
		return nil, err
	}

	defer func() { _ = pulled.Close() }() // It was only read.
	folders := []string{release.FolderOwn, release.FolderRelease}
	if options.Bootstrap {
		folders = append(folders, release.FolderBootstrap)
	}

	files, err := pulled.Folders(ctx, "", folders...)
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

// Close frees the files.
func (i *Image) Close() error { return i.files.Close() }

// Files are the folders of the payload as they are in the image.
func (i *Image) Files() fs.FS { return i.files }

// ReleaseFiles returns the names of the files of the folder release-manifests, sorted.
func (i *Image) ReleaseFiles() ([]string, error) { return fileNames(i.files, release.FolderRelease) }

// fileNames returns the names of the regular files directly in a folder, sorted. A folder
// that is not there has none.
func fileNames(fsys fs.FS, folder string) ([]string, error) {
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

// ReadFile reads a file of the payload by its name alone: of the folder release-manifests,
// or of manifests when that has none. The error is fs.ErrNotExist when neither has it.
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

// Unpack writes the payload into an existing, empty folder as release.Load reads it: the
// files of manifests and of release-manifests. What lies in folders below is no part of a
// payload and is left out. The content was verified when the image was opened.
func (i *Image) Unpack(ctx context.Context, dir string) error {
	for _, folder := range []string{release.FolderOwn, release.FolderRelease} {
		names, err := fileNames(i.files, folder)
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

// TagArchitecture is what tags of releases call an architecture.
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
