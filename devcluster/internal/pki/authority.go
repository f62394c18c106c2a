// Package pki makes and keeps the certificates of a cluster: three authorities (cluster, etcd, front proxy), a serving or
// client certificate for each component, the service accounts' key, and the kubeconfig files that carry them.
//
// Everything is made once and kept. A certificate is made anew when it nears its end, when its names or addresses no longer
// fit, or when its authority changed.
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
	authorityLife   = 10 * 365 * 24 * time.Hour
	certificateLife = 365 * 24 * time.Hour
	// renewBefore is the rest of a life at which a certificate is made anew at the next start. A cluster that is not
	// restarted for longer than that is none for development.
	renewBefore = 60 * 24 * time.Hour
	// backdate lets a machine whose clock is a little behind (a virtual machine after sleep) accept a new certificate.
	backdate = 5 * time.Minute
)

// Authority signs certificates.
type Authority struct {
	// CertFile is the path of the authority's certificate, KeyFile that of its private key.
	CertFile, KeyFile string

	certificate *x509.Certificate
	key         crypto.Signer
}

// store makes and reads the files of one folder.
type store struct {
	dir string
	now func() time.Time
}

func (s store) certFile(name string) string { return filepath.Join(s.dir, name+".crt") }
func (s store) keyFile(name string) string  { return filepath.Join(s.dir, name+".key") }

// authority reads the authority of that name, or makes it when there is none or it nears its end.
func (s store) authority(name, commonName string) (*Authority, error) {
	authority := &Authority{CertFile: s.certFile(name), KeyFile: s.keyFile(name)}
	certificate, key, err := s.readPair(name)
	if err != nil {
		return nil, err
	}
	if certificate != nil && certificate.NotAfter.Sub(s.now()) > renewBefore {
		authority.certificate, authority.key = certificate, key
		return authority, nil
	}

	authority.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the key of authority %s: %w", name, err)
	}

	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: commonName},
		NotBefore:             s.now().Add(-backdate),
		NotAfter:              s.now().Add(authorityLife),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		IsCA:                  true,
		BasicConstraintsValid: true,
	}

	authority.certificate, err = s.sign(name, template, template, authority.key, authority.key)
	return authority, err
}

// sign makes a certificate and writes it with its key.
func (s store) sign(name string, template, parent *x509.Certificate, key, parentKey crypto.Signer) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("make the serial number of certificate %s: %w", name, err)
	}

	template.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		return nil, fmt.Errorf("sign certificate %s: %w", name, err)
	}
	if err := writePEM(s.certFile(name), "CERTIFICATE", der, 0o644); err != nil {
		return nil, err
	}
	if err := writeKey(s.keyFile(name), key); err != nil {
		return nil, err
	}

	return x509.ParseCertificate(der)
}

// readPair returns a certificate and its key, nil when there is none. A pair that cannot be read is an error rather than a
// reason to make another: it is not ours to overwrite what we do not understand.
func (s store) readPair(name string) (*x509.Certificate, crypto.Signer, error) {
	der, err := readPEM(s.certFile(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}

	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, fmt.Errorf("read certificate %s: %w", s.certFile(name), err)
	}

	key, err := readKey(s.keyFile(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}

	return certificate, key, nil
}

func readKey(path string) (crypto.Signer, error) {
	der, err := readPEM(path)
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

func writeKey(path string, key crypto.Signer) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("write private key %s: %w", path, err)
	}
	return writePEM(path, "PRIVATE KEY", der, 0o600)
}

func readPEM(path string) ([]byte, error) {
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

func writePEM(path, kind string, der []byte, mode fs.FileMode) error {
	content := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := os.WriteFile(path, content, mode); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
