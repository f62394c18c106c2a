// Package pki creates and keeps the certificates of a cluster: three authorities (cluster, etcd, front proxy), a
// serving or client certificate for each component, the key of the service accounts, and the kubeconfig files that
// contain them.
//
// Everything is created once and kept. A certificate is replaced when it is about to expire, when its names or
// addresses no longer match, or when its authority changed.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

const (
	authorityLifetime   = 10 * 365 * 24 * time.Hour
	certificateLifetime = 365 * 24 * time.Hour
	// renewBefore is the remaining lifetime at which a certificate is replaced at the next start. A development cluster
	// is expected to restart within that time.
	renewBefore = 60 * 24 * time.Hour
	// backdate lets a machine whose clock is slightly behind accept a new certificate, for example a virtual machine
	// after sleep.
	backdate = 5 * time.Minute
)

// Authority signs certificates.
type Authority struct {
	// CertFile is the path of the authority's certificate. KeyFile is the path of its private key.
	CertFile, KeyFile string

	certificate *x509.Certificate
	key         crypto.Signer
}

// store reads and writes the certificates and keys of one folder.
type store struct {
	dir string
	now func() time.Time
}

func (s store) certificatePath(name string) string { return filepath.Join(s.dir, name+".crt") }
func (s store) privateKeyPath(name string) string  { return filepath.Join(s.dir, name+".key") }

// ensureAuthority returns the authority with the given name. It creates the authority if it does not exist or is about
// to expire.
func (s store) ensureAuthority(name, commonName string) (*Authority, error) {
	authority := &Authority{CertFile: s.certificatePath(name), KeyFile: s.privateKeyPath(name)}
	certificate, key, err := s.readCertificateAndKey(name)
	if err != nil {
		return nil, err
	}
	if certificate != nil && certificate.NotAfter.Sub(s.now()) > renewBefore {
		authority.certificate, authority.key = certificate, key
		return authority, nil
	}

	authority.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("create the key of authority %s: %w", name, err)
	}

	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: commonName},
		NotBefore:             s.now().Add(-backdate),
		NotAfter:              s.now().Add(authorityLifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		IsCA:                  true,
		BasicConstraintsValid: true,
	}

	authority.certificate, err = s.issueCertificate(name, template, template, authority.key, authority.key)
	return authority, err
}

// issueCertificate signs a certificate and writes it and its private key.
func (s store) issueCertificate(name string, template, parent *x509.Certificate, key, parentKey crypto.Signer) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("create the serial number of certificate %s: %w", name, err)
	}

	template.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		return nil, fmt.Errorf("sign certificate %s: %w", name, err)
	}
	if err := writePEMFile(s.certificatePath(name), "CERTIFICATE", der, 0o644); err != nil {
		return nil, err
	}
	if err := writePrivateKey(s.privateKeyPath(name), key); err != nil {
		return nil, err
	}

	return x509.ParseCertificate(der)
}

// readCertificateAndKey returns a certificate and its private key, or nil if one of the files does not exist. A file
// that cannot be parsed is an error: it may not be ours, so it is never overwritten.
func (s store) readCertificateAndKey(name string) (*x509.Certificate, crypto.Signer, error) {
	der, err := readPEMFile(s.certificatePath(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}

	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, fmt.Errorf("read certificate %s: %w", s.certificatePath(name), err)
	}

	key, err := readPrivateKey(s.privateKeyPath(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}

	return certificate, key, nil
}

func readPrivateKey(path string) (crypto.Signer, error) {
	der, err := readPEMFile(path)
	if err != nil {
		return nil, err
	}

	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, fmt.Errorf("read private key %s: %w", path, err)
	}

	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("read private key %s: %T cannot sign", path, key)
	}

	return signer, nil
}

func writePrivateKey(path string, key crypto.Signer) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("write private key %s: %w", path, err)
	}
	return writePEMFile(path, "PRIVATE KEY", der, 0o600)
}

func readPEMFile(path string) ([]byte, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}

	block, _ := pem.Decode(content)
	if block == nil {
		return nil, fmt.Errorf("read %s: no PEM block; `devcluster reset` makes new ones", path)
	}

	return block.Bytes, nil
}

func writePEMFile(path, kind string, der []byte, mode fs.FileMode) error {
	content := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := os.WriteFile(path, content, mode); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
