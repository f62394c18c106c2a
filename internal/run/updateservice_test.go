package run

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/releaseimage"
	"github.com/mainstay-dev/mainstay/internal/releaseimage/signature"
	"github.com/mainstay-dev/mainstay/internal/testing/ociregistry"
	"github.com/mainstay-dev/mainstay/internal/testing/signingkey"
)

// The flags configure a verifier that accepts only releases that are signed by the keys.
func TestUpdateServiceVerifier(t *testing.T) {
	dir := t.TempDir()
	began := time.Now().Add(-time.Hour)
	releaseKey := signingkey.New(t, "releases", packet.Config{Algorithm: packet.PubKeyAlgoEdDSA, Time: func() time.Time { return began }})
	signer, err := signature.ParseSigner(releaseKey.Private, nil)
	if err != nil {
		t.Fatal(err)
	}

	digest, err := signature.ParseDigest("sha256:" + strings.Repeat("1", 64))
	if err != nil {
		t.Fatal(err)
	}

	signed, err := signer.Sign(digest, signature.SignOptions{Reference: "registry.example.com/release:1.0.0", Time: began.Add(time.Minute)})
	if err != nil {
		t.Fatal(err)
	}

	key, statement := filepath.Join(dir, "key.gpg"), filepath.Join(dir, "store", signature.PathOf(digest, 1))
	for name, data := range map[string][]byte{key: releaseKey.Public, statement: signed} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}

	u := &updateServiceOptions{keyrings: []string{key}, stores: []string{"file://" + filepath.Join(dir, "store")}}
	of, err := u.loadTrustedKeys()
	if err != nil {
		t.Fatal(err)
	}

	verifier := of.newVerifier(image.Options{}, "registry.example.com/release")
	if err := verifier.Verify(t.Context(), digest.String()); err != nil {
		t.Errorf("a signed release: got error %v", err)
	}
	if err := verifier.Verify(t.Context(), "sha256:"+strings.Repeat("2", 64)); err == nil {
		t.Error("an unsigned release is accepted")
	}

	bad := &updateServiceOptions{keyrings: []string{filepath.Join(dir, "none"), statement}, keys: []string{key}, stores: []string{"ftp://user:secret@example.com"}}
	_, err = bad.loadTrustedKeys()
	if err == nil || strings.Count(err.Error(), "--keyring ") != 2 || !strings.Contains(err.Error(), "--key ") || !strings.Contains(err.Error(), "--store ") || strings.Contains(err.Error(), "secret") {
		t.Errorf("invalid flags: got error %v", err)
	}
	if (trustedKeys{}).newVerifier(image.Options{}, "r") != nil {
		t.Error("got a verifier without keys")
	}
}

// Sigstore signatures are read from the repository of the releases.
func TestUpdateServiceSigstore(t *testing.T) {
	repository := ociregistry.Start(t).Host + "/platform/release"
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}

	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}

	signer, err := signature.ParsePrivateKey(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil)
	if err != nil {
		t.Fatal(err)
	}

	der, err = x509.MarshalPKIXPublicKey(private.Public())
	if err != nil {
		t.Fatal(err)
	}

	key := filepath.Join(t.TempDir(), "key.pub")
	if err := os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}

	options := image.Options{Insecure: true}
	client := image.NewClient(options)
	pushed := ociregistry.Push(t, repository+":v1", image.Spec{OS: "linux", Architecture: "amd64"})
	digest, err := signature.ParseDigest(signature.DigestOf(pushed))
	if err != nil {
		t.Fatal(err)
	}

	u := &updateServiceOptions{keys: []string{key}}
	of, err := u.loadTrustedKeys()
	if err != nil {
		t.Fatal(err)
	}

	verifier := of.newVerifier(options, repository)
	if err := verifier.Verify(t.Context(), digest.String()); err == nil {
		t.Error("an unsigned release is accepted")
	}

	made, err := signer.Sign(digest, repository)
	if err != nil {
		t.Fatal(err)
	}
	if err := (releaseimage.Attachments{Client: client, Repository: repository}).Attach(t.Context(), digest, made); err != nil {
		t.Fatal(err)
	}
	if err := verifier.Verify(t.Context(), digest.String()); err != nil {
		t.Errorf("a signed release: got error %v", err)
	}
}

func TestUpdateServiceFlags(t *testing.T) {
	for line, want := range map[string]string{
		"":                          `required flag(s) "releases" not set`,
		"--releases r --keyring k":  "missing [store]",
		"--releases r --tls-cert c": "missing [tls-key]",
		"--releases r --tls-cert /none --tls-key /none":            "--tls-cert: open /none: no such file or directory",
		"--releases r --graph-data a --graph-data-image b":         "[graph-data graph-data-image]",
		"--releases r --keyring /none --store https://example.com": "--keyring /none: open /none: no such file or directory",
		"more": `unknown command "more"`,
	} {
		cmd := NewCommand("test")
		cmd.SetArgs(append([]string{"update-service"}, strings.Fields(line)...))
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", line, err, want)
		}
	}
}
