package env

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// frontProxyName is the name with which the API server authenticates to the servers of aggregated
// APIs.
const frontProxyName = "front-proxy-client"

// EnableAggregation makes the API server forward requests to the servers of APIServices. It
// writes the client certificate for this to a folder.
func EnableAggregation(environment *envtest.Environment, folder string) error {
	now := time.Now()
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "front-proxy"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	proxy := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: frontProxyName}, NotBefore: authority.NotBefore, NotAfter: authority.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	authorityKey, err1 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	proxyKey, err2 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}

	authorityDER, err1 := x509.CreateCertificate(rand.Reader, authority, authority, &authorityKey.PublicKey, authorityKey)
	proxyDER, err2 := x509.CreateCertificate(rand.Reader, proxy, authority, &proxyKey.PublicKey, authorityKey)
	key, err3 := x509.MarshalPKCS8PrivateKey(proxyKey)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}

	files := map[string][]byte{
		"front-proxy-ca.crt":     pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authorityDER}),
		"front-proxy-client.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: proxyDER}),
		"front-proxy-client.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			return err
		}
	}

	environment.ControlPlane.GetAPIServer().Configure().
		Set("requestheader-client-ca-file", filepath.Join(folder, "front-proxy-ca.crt")).
		Set("requestheader-allowed-names", frontProxyName).
		Set("requestheader-username-headers", "X-Remote-User").
		Set("requestheader-group-headers", "X-Remote-Group").
		Set("requestheader-extra-headers-prefix", "X-Remote-Extra-").
		Set("proxy-client-cert-file", filepath.Join(folder, "front-proxy-client.crt")).
		Set("proxy-client-key-file", filepath.Join(folder, "front-proxy-client.key"))

	return nil
}
