package catalogs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/image"
)

// Registry says how container registries are reached. The zero value reads the files
// that all container tools of the machine share: mirrors, trust, and the logins of
// podman and docker.
type Registry struct {
	// AuthFile is a Docker config.json with logins.
	AuthFile string
	// RegistriesConf is a registries.conf: mirrors, blocked and insecure registries.
	RegistriesConf string
	// SignaturePolicy is a policy.json that says which images are trusted.
	SignaturePolicy string
	// CertsDir has a directory <host[:port]> for each registry with its certificates.
	CertsDir string
}

// Client gives a client of registries that are reached so.
func (r Registry) Client() *image.Client {
	return image.NewClient(image.Options{
		AuthFile:       r.AuthFile,
		RegistriesConf: r.RegistriesConf,
		PolicyFile:     r.SignaturePolicy,
		CertsDir:       r.CertsDir,
	})
}

// OpenFolder opens a folder of the user. What is read from it cannot leave it, whatever
// links it holds. The returned function closes it.
func OpenFolder(dir string) (fs.FS, func(), error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		var pathError *fs.PathError
		if errors.As(err, &pathError) {
			err = pathError.Err
		}
		return nil, nil, &report.Error{Object: fmt.Sprintf("directory %q", dir), Err: err, Advice: "name a directory that exists"}
	}
	return root.FS(), func() { _ = root.Close() }, nil
}

// repositoryOf takes the tag and the digest from a reference.
func repositoryOf(ref string) string {
	ref, _, _ = strings.Cut(ref, "@")
	if slash := strings.LastIndex(ref, "/"); strings.Contains(ref[slash+1:], ":") {
		ref = ref[:strings.LastIndex(ref, ":")]
	}
	return ref
}

// unpack pulls an image and unpacks what lies below a path of it into a new folder. The
// returned function removes the folder.
func unpack(ctx context.Context, pulled *image.Image, prefix string) (fs.FS, func(), error) {
	dir, err := os.MkdirTemp("", "mainstay-image-")
	if err != nil {
		return nil, nil, fmt.Errorf("making a folder to unpack into: %w", err)
	}
	remove := func() { _ = os.RemoveAll(dir) }
	if _, err := pulled.Extract(ctx, path.Clean("/"+prefix), dir); err != nil {
		remove()
		return nil, nil, err
	}
	fsys, closeRoot, err := OpenFolder(dir)
	if err != nil {
		remove()
		return nil, nil, err
	}
	return fsys, func() { closeRoot(); remove() }, nil
}
