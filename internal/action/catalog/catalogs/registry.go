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

// Registry configures the access to container registries. The zero value uses the files
// that all container tools of the machine share: mirrors, trust policy, and the logins of
// podman and docker.
type Registry struct {
	// AuthFile is a Docker config.json with logins.
	AuthFile string
	// PreferredAuthFile replaces the shared files for images that it has a login for. It is
	// ignored if AuthFile is set.
	PreferredAuthFile string
	// RegistriesConf is a registries.conf, which configures mirrors, blocked and insecure
	// registries.
	RegistriesConf string
	// SignaturePolicy is a policy.json, which defines the trusted images.
	SignaturePolicy string
	// CertsDir contains a directory <host[:port]> with the certificates of each registry.
	CertsDir string
	// CADir contains certificate authorities that are trusted in addition to the system's.
	CADir string
	// UseHTTP allows plain HTTP for registries without HTTPS.
	UseHTTP bool
	// SkipTLSVerify accepts any certificate of a registry.
	SkipTLSVerify bool
	// CacheDir is the folder that caches unpacked images. Empty means that they are removed
	// after they have been read.
	CacheDir string
}

// Client returns a client for the registry of an image.
func (r Registry) Client(ref string) *image.Client {
	authFile := r.AuthFile
	if authFile == "" && r.PreferredAuthFile != "" && hasRegistryLogin(r.PreferredAuthFile, ref) {
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

// TrustFile trusts the certificate authorities of a file in addition to the system's. The
// returned function removes temporary files.
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
	if err := os.WriteFile(filepath.Join(dir, "ca.crt"), data, 0o600); err != nil { //nolint:gosec // a folder of this process
		_ = os.RemoveAll(dir)
		return nil, err
	}

	r.CADir = dir
	return func() { _ = os.RemoveAll(dir) }, nil
}

// OpenFolder opens a folder of the user. Links in it cannot lead outside of it. The
// returned function closes it.
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

// unpackFiles returns the files below a path of a pulled image. The returned function
// releases them; cached files remain in the cache.
func (r Registry) unpackFiles(ctx context.Context, client *image.Client, pulled *image.Image, prefix string) (fs.FS, func(), error) {
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
