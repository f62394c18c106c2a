//go:build containers_image_openpgp

package image

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"github.com/google/go-cmp/cmp"
	imgspecv1 "github.com/opencontainers/image-spec/specs-go/v1"
	"go.podman.io/image/v5/pkg/sysregistriesv2"

	"github.com/mainstay-dev/mainstay/internal/testing/signingkey"
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
		t.Errorf("a valid signature: got error %v, want none", err)
	}

	// The image has another name. The cluster declares this registry as a mirror for it.
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
	wantError(t, err, KindUntrusted, "is not accepted") // The signature names the mirror.
	sign(t, key, canonical, "upstream.invalid/org/cat")
	expectNoLeftovers(t, func() {
		img, err := NewClient(opts).Pull(t.Context(), upstream)
		if err != nil {
			t.Errorf("a valid signature: got error %v, want none", err)
			return
		}
		_ = img.Close()
	})
}

// newOpenPGPSigner returns an RSA key of a size, and its key ring.
func newOpenPGPSigner(t *testing.T, bits int) (*openpgp.Entity, []byte) {
	t.Helper()
	key := signingkey.New(t, "test", packet.Config{Algorithm: packet.PubKeyAlgoRSA, RSABits: bits})
	return key.Entity, key.Public
}

// simpleStatement returns the signed content of a simple signature of an image.
func simpleStatement(canonical, as string) []byte {
	_, digest, _ := strings.Cut(canonical, "@")
	return fmt.Appendf(nil, `{"critical":{"identity":{"docker-reference":%q},"image":{"docker-manifest-digest":%q},"type":"atomic container signature"},"optional":{}}`, as, digest)
}

// signWithOpenPGP returns a signed message.
func signWithOpenPGP(t *testing.T, signer *openpgp.Entity, content []byte) []byte {
	t.Helper()
	var signed bytes.Buffer
	w, err := openpgp.Sign(&signed, signer, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}

	return signed.Bytes()
}

// signWithSHA1 returns a message that is signed with SHA-1, which the library refuses to create. The layout of the signature
// is that of RFC 4880, section 5.2.3.
func signWithSHA1(t *testing.T, signer *openpgp.Entity, content []byte) []byte {
	t.Helper()
	key := signer.PrivateKey
	private, ok := key.PrivateKey.(*rsa.PrivateKey)
	if !ok {
		t.Fatalf("got a key of type %T, want RSA", key.PrivateKey)
	}

	var message bytes.Buffer
	announcement := &packet.OnePassSignature{Version: 3, SigType: packet.SigTypeBinary, Hash: crypto.SHA1, PubKeyAlgo: key.PubKeyAlgo, KeyId: key.KeyId, IsLast: true}
	if err := announcement.Serialize(&message); err != nil {
		t.Fatal(err)
	}

	literal := append([]byte{'b', 0, 0, 0, 0, 0}, content...)
	message.Write(append(binary.BigEndian.AppendUint32([]byte{0xc0 | 11, 0xff}, uint32(len(literal))), literal...))

	hashed := []byte{4, byte(packet.SigTypeBinary), byte(packet.PubKeyAlgoRSA), 2, 0, 6, 5, 2}
	hashed = binary.BigEndian.AppendUint32(hashed, uint32(time.Now().Unix()))
	trailer := binary.BigEndian.AppendUint32([]byte{4, 0xff}, uint32(len(hashed)))
	sum := sha1.Sum(slices.Concat(content, hashed, trailer))
	number, err := rsa.SignPKCS1v15(nil, private, crypto.SHA1, sum[:])
	if err != nil {
		t.Fatal(err)
	}

	number = bytes.TrimLeft(number, "\x00")
	body := slices.Concat(hashed, []byte{0, 10, 9, 16})
	body = binary.BigEndian.AppendUint64(body, key.KeyId)
	body = append(body, sum[0], sum[1])
	body = binary.BigEndian.AppendUint16(body, uint16(new(big.Int).SetBytes(number).BitLen()))
	body = append(body, number...)
	message.Write(append(binary.BigEndian.AppendUint32([]byte{0xc0 | 2, 0xff}, uint32(len(body))), body...))

	return message.Bytes()
}

// Requirements of type signedBy need a simple signature in a lookaside store, with a strong hash and by a strong key.
func TestSimpleSignatures(t *testing.T) {
	host := newRegistry(t, nil)
	repository := host + "/org/cat"
	canonical := pushImage(t, repository+":v1", catalogImage(t))
	statement := simpleStatement(canonical, repository+":v1")
	signer, keyring := newOpenPGPSigner(t, 2048)
	weakSigner, weakKeyring := newOpenPGPSigner(t, 1024)
	another, _ := newOpenPGPSigner(t, 2048)
	good, withSHA1 := signWithOpenPGP(t, signer, statement), signWithSHA1(t, signer, statement)
	registriesDir, store := t.TempDir(), t.TempDir()
	lookaside := fmt.Sprintf("docker:\n  %q:\n    lookaside: %q\n", host, "file://"+store)
	if err := os.WriteFile(filepath.Join(registriesDir, "test.yaml"), []byte(lookaside), 0o600); err != nil {
		t.Fatal(err)
	}

	folder := filepath.Join(store, "org", strings.Replace(strings.TrimPrefix(canonical, host+"/org/"), "sha256:", "sha256=", 1))
	keyData := base64.StdEncoding.EncodeToString(slices.Concat(keyring, weakKeyring))
	keyPaths := fmt.Sprintf("[%q,%q]", writeFile(t, "weak.gpg", string(weakKeyring)), writeFile(t, "keys.gpg", string(keyring)))
	policies := map[string]string{
		"keys in the policy": fmt.Sprintf(`{"default":[{"type":"signedBy","keyType":"GPGKeys","keyData":%q,"signedIdentity":{"type":"matchRepository"}}]}`, keyData),
		"keys in files":      fmt.Sprintf(`{"default":[{"type":"signedBy","keyType":"GPGKeys","keyPaths":%s,"signedIdentity":{"type":"matchRepository"}}]}`, keyPaths),
	}
	for name, policy := range policies {
		client := NewClient(Options{PolicyFile: writeFile(t, "policy.json", policy), RegistriesDir: registriesDir})
		for _, test := range []struct {
			name       string
			signatures [][]byte
			want       string // empty if the image is accepted
		}{
			{"no signature", nil, "signature was required"},
			{"another key", [][]byte{signWithOpenPGP(t, another, statement)}, "verify its signatures: Key not found"},
			{"a broken hash", [][]byte{withSHA1}, "the signature is made with SHA-1, which is broken: sign with SHA-256 or SHA-512"},
			{"a weak key", [][]byte{signWithOpenPGP(t, weakSigner, statement)}, "has 1024 bits: keys with less than 2048 bits are not accepted"},
			{"its key", [][]byte{good}, ""},
			{"a broken hash, and its key", [][]byte{withSHA1, good}, ""},
			{"a broken hash, and its key for another image", [][]byte{withSHA1, signWithOpenPGP(t, signer, simpleStatement(canonical, host+"/org/another:v1"))}, "is not accepted"},
		} {
			t.Run(name+", "+test.name, func(t *testing.T) {
				if err := os.RemoveAll(folder); err != nil {
					t.Fatal(err)
				}
				if err := os.MkdirAll(folder, 0o700); err != nil {
					t.Fatal(err)
				}
				for i, signature := range test.signatures {
					if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("signature-%d", i+1)), signature, 0o600); err != nil {
						t.Fatal(err)
					}
				}

				img, err := client.Pull(t.Context(), canonical)
				if test.want != "" {
					wantError(t, err, KindUntrusted, test.want)
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if err := img.Close(); err != nil {
					t.Error(err)
				}
			})
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
		t.Errorf("got helpers %v (error %v), want 1", helpers, err)
	}
}
