package action

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/crypto/x509roots/fallback/bundle"

	"github.com/mainstay-dev/mainstay/internal/action/report"
)

const (
	// authoritiesPath is where Go programs look for certificate authorities on most Linux
	// distributions.
	authoritiesPath = "/etc/ssl/certs/ca-certificates.crt"
	// maxAuthoritiesBytes limits the size of a file with certificate authorities. All
	// public ones have 200 KiB.
	maxAuthoritiesBytes = 4 << 20
)

// imageAuthorities returns the certificate authorities of an image as PEM: the public ones
// and those of the files. The result does not depend on the authorities of the build
// machine.
func imageAuthorities(files []string) ([]byte, error) {
	var all bytes.Buffer
	writePublicAuthorities(&all)
	for _, name := range files {
		if err := addAuthorities(&all, name); err != nil {
			return nil, &report.Error{
				Object: fmt.Sprintf("file %q", name), Err: err,
				Advice: "name a file with certificates in PEM form (-----BEGIN CERTIFICATE-----)",
			}
		}
	}

	return all.Bytes(), nil
}

// writePublicAuthorities writes Mozilla's list of certificate authorities. It skips
// authorities that Mozilla trusts only for older certificates, because a file cannot
// express that.
func writePublicAuthorities(out *bytes.Buffer) {
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			writeCertificate(out, root.Certificate)
		}
	}
}

// addAuthorities writes the certificates of a file. It skips other content.
func addAuthorities(out *bytes.Buffer, name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(file, maxAuthoritiesBytes+1))
	if err != nil {
		return err
	}
	if len(data) > maxAuthoritiesBytes {
		return fmt.Errorf("it has more than %d bytes", maxAuthoritiesBytes)
	}

	found := false
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return fmt.Errorf("it holds a certificate that cannot be read: %w", err)
		}
		writeCertificate(out, block.Bytes)
		found = true
	}

	if !found {
		return errors.New("it holds no certificate")
	}

	return nil
}

func writeCertificate(out *bytes.Buffer, der []byte) {
	out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}
