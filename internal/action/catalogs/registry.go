package catalogs

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/image"
)

// Registry says how container registries are reached. The zero value reads the files
// that all container tools of the machine share: mirrors, trust, and the logins of
// podman and docker.
type Registry struct {
	// AuthFile is a Docker config.json with logins.
	AuthFile string
	// PreferredAuthFile is one that takes the place of the shared ones for the images
	// that it has a login for, unless there is an AuthFile.
	PreferredAuthFile string
	// RegistriesConf is a registries.conf: mirrors, blocked and insecure registries.
	RegistriesConf string
	// SignaturePolicy is a policy.json that says which images are trusted.
	SignaturePolicy string
	// CertsDir has a directory <host[:port]> for each registry with its certificates.
	CertsDir string
	// CADir has certificate authorities that are trusted beside the system's.
	CADir string
	// UseHTTP reaches registries over plain HTTP where they have no HTTPS.
	UseHTTP bool
	// SkipTLSVerify takes whatever certificate a registry shows.
	SkipTLSVerify bool
	// CacheDir is a folder that unpacked images are kept in. Empty means that they are
	// removed when they have been read.
	CacheDir string
}

// Client returns a client for an image of a registry that is reached so.
func (r Registry) Client(ref string) *image.Client {
	authFile := r.AuthFile
	if authFile == "" && r.PreferredAuthFile != "" && hasLogin(r.PreferredAuthFile, ref) {
		authFile = r.PreferredAuthFile
	}
	return image.NewClient(image.Options{
		AuthFile:       authFile,
		RegistriesConf: r.RegistriesConf,
		PolicyFile:     r.SignaturePolicy,
		CertsDir:       r.CertsDir,
		CADir:          r.CADir,
		Insecure:       r.UseHTTP,
		SkipTLSVerify:  r.SkipTLSVerify,
	})
}

// TrustFile trusts the certificate authorities of a file beside the system's. The returned
// function removes what that takes.
func (r *Registry) TrustFile(name string) (func(), error) {
	data, err := os.ReadFile(name)
	if err == nil && !x509.NewCertPool().AppendCertsFromPEM(data) {
		err = errors.New("it holds no PEM certificate")
	}
	if err != nil {
		return nil, &report.Error{Object: "failed to fetch root CA from " + name, Err: err}
	}

	dir, err := os.MkdirTemp("", "mainstay-ca-")
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "ca.crt"), data, 0o600); err != nil { //nolint:gosec // the folder was made here
		_ = os.RemoveAll(dir)
		return nil, err
	}

	r.CADir = dir
	return func() { _ = os.RemoveAll(dir) }, nil
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

// files returns what lies below a path of a pulled image. The returned function frees it;
// what is in the cache of the registry stays there.
func (r Registry) files(ctx context.Context, client *image.Client, pulled *image.Image, prefix string) (fs.FS, func(), error) {
	prefix = path.Clean("/" + prefix)
	if r.CacheDir != "" {
		entry, err := image.NewCache(filepath.Join(r.CacheDir, "images")).Ensure(ctx, client, pulled.Canonical, prefix)
		if err != nil {
			return nil, nil, err
		}
		return OpenFolder(entry.Dir)
	}

	files, _, err := pulled.Files(ctx, prefix, "")
	if err != nil {
		return nil, nil, err
	}

	return files, func() { _ = files.Close() }, nil
}
