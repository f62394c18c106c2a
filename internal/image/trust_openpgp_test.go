//go:build containers_image_openpgp

package image

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"github.com/google/go-cmp/cmp"
	imgspecv1 "github.com/opencontainers/image-spec/specs-go/v1"
	"go.podman.io/image/v5/pkg/sysregistriesv2"
)

// sign pushes a signature in the format of cosign for an image.
func sign(t *testing.T, key *ecdsa.PrivateKey, canonical, identity string) {
	t.Helper()
	repository, digest, _ := strings.Cut(canonical, "@")
	payload, err := json.Marshal(map[string]any{
		"critical": map[string]any{
			"type":     "cosign container image signature",
			"image":    map[string]string{"docker-manifest-digest": digest},
			"identity": map[string]string{"docker-reference": identity},
		},
		"optional": nil,
	})
	if err != nil {
		t.Fatal(err)
	}

	sum := sha256.Sum256(payload)
	signature, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
	if err != nil {
		t.Fatal(err)
	}

	built := imageOf(t, "application/vnd.dev.cosign.simplesigning.v1+json", payload)
	manifest := built.newManifest(nil)
	manifest.Layers[0].Annotations = map[string]string{
		"dev.cosignproject.cosign/signature": base64.StdEncoding.EncodeToString(signature),
	}
	raw, err := json.Marshal(manifest)
	if err != nil {
		t.Fatal(err)
	}

	built.manifest = newBuiltBlob(imgspecv1.MediaTypeImageManifest, raw)
	pushImage(t, repository+":"+strings.Replace(digest, ":", "-", 1)+".sig", built)
}

func TestSignatures(t *testing.T) {
	host := newRegistry(t, nil)
	repository := host + "/org/cat"
	canonical := pushImage(t, repository+":v1", catalogImage(t))
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}

	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}

	keyData := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}))
	policy := fmt.Sprintf(`{"default":[{"type":"reject"}],"transports":{"docker":{%q:[
		{"type":"sigstoreSigned","keyData":%q,"signedIdentity":{"type":"matchRepository"}}]}}}`, host, keyData)
	registriesDir := t.TempDir()
	attachments := fmt.Sprintf("docker:\n  %q:\n    use-sigstore-attachments: true\n", host)
	if err := os.WriteFile(filepath.Join(registriesDir, "test.yaml"), []byte(attachments), 0o600); err != nil {
		t.Fatal(err)
	}

	client := NewClient(Options{PolicyFile: writeFile(t, "policy.json", policy), RegistriesDir: registriesDir})
	pull := func() error {
		img, err := client.Pull(t.Context(), canonical)
		if err == nil {
			err = img.Close()
		}
		return err
	}

	wantError(t, pull(), KindUntrusted, "the signature policy does not accept it", "signature was required")

	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}

	sign(t, other, canonical, repository)
	wantError(t, pull(), KindUntrusted, "cryptographic signature verification failed")

	sign(t, key, canonical, host+"/org/another")
	wantError(t, pull(), KindUntrusted, "is not accepted")

	sign(t, key, canonical, repository)
	if err := pull(); err != nil {
		t.Errorf("the signature is good: %v", err)
	}

	// By another name, of which this registry is a mirror that the cluster declares.
	upstream := "upstream.invalid/org/cat@" + strings.Split(canonical, "@")[1]
	opts := Options{
		PolicyFile:    writeFile(t, "policy.json", strings.Replace(policy, host, "upstream.invalid", 1)),
		RegistriesDir: registriesDir,
		Mirrors: func() []MirrorRule {
			return []MirrorRule{{Source: "upstream.invalid", Mirrors: []Mirror{{Location: host}}, Blocked: true}}
		},
		RegistriesConf: writeFile(t, "registries.conf", fmt.Sprintf("[[registry]]\nlocation = %q\ninsecure = true\n", host)),
	}

	attachments = "docker:\n  upstream.invalid:\n    use-sigstore-attachments: true\n"
	if err := os.WriteFile(filepath.Join(registriesDir, "upstream.yaml"), []byte(attachments), 0o600); err != nil {
		t.Fatal(err)
	}

	_, err = NewClient(opts).Pull(t.Context(), upstream)
	wantError(t, err, KindUntrusted, "is not accepted") // It is signed as the mirror's.
	sign(t, key, canonical, "upstream.invalid/org/cat")
	expectNoLeftovers(t, func() {
		img, err := NewClient(opts).Pull(t.Context(), upstream)
		if err != nil {
			t.Errorf("the signature is good: %v", err)
			return
		}
		_ = img.Close()
	})
}

// signWithOpenPGP returns an OpenPGP key ring and a simple signature of an image by its key.
func signWithOpenPGP(t *testing.T, canonical, as string) (keyring, signature []byte) {
	t.Helper()
	signer, err := openpgp.NewEntity("test", "", "test@example.com", &packet.Config{Algorithm: packet.PubKeyAlgoRSA, RSABits: 2048})
	if err != nil {
		t.Fatal(err)
	}

	var public, signed bytes.Buffer
	if err := signer.Serialize(&public); err != nil {
		t.Fatal(err)
	}

	_, digest, _ := strings.Cut(canonical, "@")
	w, err := openpgp.Sign(&signed, signer, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(w, `{"critical":{"identity":{"docker-reference":%q},"image":{"docker-manifest-digest":%q},"type":"atomic container signature"},"optional":{}}`, as, digest); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}

	return public.Bytes(), signed.Bytes()
}

// Requirements of type signedBy need a simple signature in a lookaside store.
func TestSimpleSignatures(t *testing.T) {
	host := newRegistry(t, nil)
	repository := host + "/org/cat"
	canonical := pushImage(t, repository+":v1", catalogImage(t))
	keyring, good := signWithOpenPGP(t, canonical, repository+":v1")
	_, byAnother := signWithOpenPGP(t, canonical, repository+":v1")
	registriesDir, store := t.TempDir(), t.TempDir()
	lookaside := fmt.Sprintf("docker:\n  %q:\n    lookaside: %q\n", host, "file://"+store)
	if err := os.WriteFile(filepath.Join(registriesDir, "test.yaml"), []byte(lookaside), 0o600); err != nil {
		t.Fatal(err)
	}

	folder := filepath.Join(store, "org", strings.Replace(strings.TrimPrefix(canonical, host+"/org/"), "sha256:", "sha256=", 1))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}

	policy := fmt.Sprintf(`{"default":[{"type":"signedBy","keyType":"GPGKeys","keyData":%q,"signedIdentity":{"type":"matchRepository"}}]}`,
		base64.StdEncoding.EncodeToString(keyring))
	client := NewClient(Options{PolicyFile: writeFile(t, "policy.json", policy), RegistriesDir: registriesDir})
	for _, test := range []struct {
		name      string
		signature []byte
		want      string // empty: accepted
	}{
		{"no signature", nil, "signature was required"},
		{"another key", byAnother, "verify its signatures: Key not found"},
		{"its key", good, ""},
	} {
		if test.signature != nil {
			if err := os.WriteFile(filepath.Join(folder, "signature-1"), test.signature, 0o600); err != nil {
				t.Fatal(err)
			}
		}

		img, err := client.Pull(t.Context(), canonical)
		if test.want != "" {
			wantError(t, err, KindUntrusted, test.want)
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		if err := img.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestRegistriesConfForTheLibrary checks that the library reads signatures with the same
// configuration.
func TestRegistriesConfForTheLibrary(t *testing.T) {
	entry := &sysregistriesv2.Registry{
		Prefix:   "quay.io/team",
		Endpoint: sysregistriesv2.Endpoint{Location: "new.example.com/team", Insecure: true},
		Blocked:  true,
		Mirrors:  []sysregistriesv2.Endpoint{{Location: "mirror.example.com", PullFromMirror: sysregistriesv2.MirrorByDigestOnly}, {Location: "other.example.com:5000/x", Insecure: true}},
	}

	file := writeFile(t, "registries.conf", string(encodeRegistriesConf(entry, []string{sysregistriesv2.AuthenticationFileHelper})))
	sys := NewClient(Options{RegistriesConf: file}).registries.systemContext()
	got, err := sysregistriesv2.FindRegistry(sys, "quay.io/team/app")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(entry, got); diff != "" {
		t.Errorf("entry (-want +got):\n%s", diff)
	}

	helpers, err := sysregistriesv2.CredentialHelpers(sys)
	if err != nil || len(helpers) != 1 {
		t.Errorf("helpers: %v (%v)", helpers, err)
	}
}
