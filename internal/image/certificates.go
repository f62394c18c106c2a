package image

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"go.podman.io/image/v5/pkg/tlsclientconfig"
	"go.podman.io/image/v5/types"
	"go.podman.io/storage/pkg/configfile"
)

// newTLSConfig returns the TLS configuration for a pull source: the trusted certificate
// authorities and the client certificates. Files are read each time, so that a changed file
// takes effect at once.
func (c *connector) newTLSConfig(sys *types.SystemContext, place pullSource) (*tls.Config, error) {
	config := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: place.insecure || c.opts.SkipTLSVerify, //nolint:gosec // configured so, or on this machine
	}
	pool, err := c.loadCertPool()
	if err != nil {
		return nil, err
	}

	config.RootCAs = pool
	dir, err := findCertificatesDir(sys, place.name.domain)
	if err != nil || dir == "" {
		return config, err
	}
	if err := tlsclientconfig.SetupCertificates(dir, config); err != nil {
		return nil, fmt.Errorf("read the certificates for %s: %w", place.name.domain, err)
	}

	return config, nil
}

// loadCertPool returns the certificate authorities of CADir and of the system. It is nil
// when CADir adds none.
func (c *connector) loadCertPool() (*x509.CertPool, error) {
	if c.opts.CADir == "" {
		return nil, nil
	}

	entries, err := os.ReadDir(c.opts.CADir)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read certificate authorities: %w", err)
	}

	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}

	for _, entry := range entries {
		if ext := filepath.Ext(entry.Name()); entry.IsDir() || (ext != ".crt" && ext != ".pem") {
			continue
		}

		file := filepath.Join(c.opts.CADir, entry.Name())
		pem, err := os.ReadFile(file)
		if os.IsNotExist(err) {
			continue // Removed since it was listed.
		}
		if err != nil {
			return nil, fmt.Errorf("read certificate authorities: %w", err)
		}
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read certificate authorities: %s holds no PEM certificate", file)
		}
	}

	return pool, nil
}

// findCertificatesDir returns the directory with certificates for a registry. It is empty
// when there is none.
func findCertificatesDir(sys *types.SystemContext, domain string) (string, error) {
	dirs := []string{sys.DockerPerHostCertDirPath}
	if sys.DockerPerHostCertDirPath == "" {
		paths, err := configfile.GetSearchPaths(&configfile.File{
			Name: "certs", Extension: "d", DoNotUseExtensionForConfigName: true, UserId: os.Geteuid(),
		})
		if err != nil {
			return "", fmt.Errorf("find the certificates for %s: %w", domain, err)
		}
		dirs = append(dirs[:0], paths.DropInDirectories...)
		dirs = append(dirs, "/etc/docker/certs.d")
	}

	for _, dir := range dirs {
		dir = filepath.Join(dir, domain)
		if _, err := os.Stat(dir); err == nil {
			return dir, nil
		}
	}

	return "", nil
}

func isLoopbackHost(domain string) bool {
	host := domain
	if h, _, err := net.SplitHostPort(domain); err == nil {
		host = h
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}

	ip := net.ParseIP(strings.Trim(host, "[]"))
	return ip != nil && ip.IsLoopback()
}
