package signature

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/secure-systems-lab/go-securesystemslib/encrypted"
)

func armorEncode(w io.Writer, kind string) (io.WriteCloser, error) { return armor.Encode(w, kind, nil) }

func exportPrivateKey(t *testing.T, p testSigner, passphrase string) []byte {
	t.Helper()
	if passphrase != "" {
		if err := p.entity.EncryptPrivateKeys([]byte(passphrase), nil); err != nil {
			t.Fatal(err)
		}
	}

	var text bytes.Buffer
	writer, err := armorEncode(&text, openpgp.PrivateKeyType)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(p.entity.SerializePrivateWithoutSigning(writer, nil), writer.Close()); err != nil {
		t.Fatal(err)
	}

	return text.Bytes()
}

func TestSign(t *testing.T) {
	for name, passphrase := range map[string]string{"open": "", "locked": "open sesame"} {
		t.Run(name, func(t *testing.T) {
			ann := newTestSigner(t, "ann", now.AddDate(-1, 0, 0), 0)
			key := exportPrivateKey(t, ann, passphrase)
			signer, err := ParseSigner(key, []byte(passphrase))
			if err != nil {
				t.Fatal(err)
			}

			signature, err := signer.Sign(digest, SignOptions{Reference: "r:1", Time: now, Lifetime: time.Hour})
			if err != nil {
				t.Fatal(err)
			}

			v := newVerifier(Memory{digest.String(): {signature}}, ann)
			if err := v.Verify(t.Context(), digest.String()); err != nil {
				t.Error(Detail(err))
			}

			v.now = func() time.Time { return now.Add(2 * time.Hour) }
			if err := v.Verify(t.Context(), digest.String()); err == nil || !strings.Contains(Detail(err), "signature expired on 2030-06-01T13:00:00Z") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestSignRefuses(t *testing.T) {
	ann := newTestSigner(t, "ann", now.AddDate(-1, 0, 0), 0)
	signer := &Signer{ann.entity}
	for name, options := range map[string]SignOptions{
		"no name":      {Time: now},
		"a past end":   {Reference: "r", Time: now, Lifetime: -time.Hour},
		"half a secon": {Reference: "r", Time: now, Lifetime: time.Second / 2},
		"too long":     {Reference: "r", Time: now, Lifetime: 200 * 365 * 24 * time.Hour},
	} {
		if _, err := signer.Sign(digest, options); err == nil {
			t.Errorf("%s: got no error, want one", name)
		}
	}

	if _, err := ParseSigner([]byte(exportArmoredKey(t, ann)), nil); err == nil || !strings.Contains(err.Error(), "no private key") {
		t.Errorf("a public key: got error %v, want that it is not a private key", err)
	}

	two := slices.Concat(exportPrivateKey(t, ann, ""), []byte("\n"), exportPrivateKey(t, newTestSigner(t, "bob", now, 0), ""))
	if _, err := ParseSigner(two, nil); err == nil || !strings.Contains(err.Error(), "several private keys") {
		t.Errorf("two keys: got error %v, want one with \"several private keys\"", err)
	}
	if _, err := ParseSigner(exportPrivateKey(t, ann, "right"), []byte("wrong")); err == nil || !strings.Contains(err.Error(), "the passphrase does not open it") {
		t.Errorf("a wrong passphrase: got error %v, want one with \"the passphrase does not open it\"", err)
	}
}

// fakeAttachments are the attachments of one image.
type fakeAttachments []Attachment

func (fakeAttachments) String() string { return "the registry" }
func (a fakeAttachments) Attachments(context.Context, Digest) iter.Seq2[Attachment, error] {
	return func(yield func(Attachment, error) bool) {
		for _, attachment := range a {
			if !yield(attachment, nil) {
				return
			}
		}
	}
}

func encodePEM(t *testing.T, key crypto.Signer) (public, private []byte) {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}

	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}

	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
}

func newSigstoreKeys(t *testing.T) map[string]crypto.Signer {
	t.Helper()
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}

	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}

	primes, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}

	return map[string]crypto.Signer{"ecdsa": curve, "ed25519": edwards, "rsa": primes}
}

func TestSigstore(t *testing.T) {
	keys := newSigstoreKeys(t)
	otherPublic, _ := encodePEM(t, newSigstoreKeys(t)["ecdsa"])
	stranger, err := ParsePublicKey("stranger", otherPublic)
	if err != nil {
		t.Fatal(err)
	}

	for name, key := range keys {
		t.Run(name, func(t *testing.T) {
			public, private := encodePEM(t, key)
			signer, err := ParsePrivateKey(private, nil)
			if err != nil {
				t.Fatal(err)
			}

			trusted, err := ParsePublicKey(name, public)
			if err != nil {
				t.Fatal(err)
			}

			good, err := signer.Sign(digest, "registry.example.com/release")
			if err != nil {
				t.Fatal(err)
			}
			if err := NewSigstore([]PublicKey{trusted}, fakeAttachments{{Payload: []byte("x")}, good}).Verify(t.Context(), digest.String()); err != nil {
				t.Error(Detail(err))
			}

			err = NewSigstore([]PublicKey{trusted, stranger}, fakeAttachments{good}).Verify(t.Context(), digest.String())
			if want := "unable to verify " + digest.String() + " against keys: stranger"; err == nil || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
			if err := NewSigstore([]PublicKey{trusted}, fakeAttachments{good}).Verify(t.Context(), other.String()); err == nil || !strings.Contains(Detail(err), "about another image") {
				t.Errorf("another digest: got error %v, want that it is about another image", err)
			}

			changed := Attachment{Payload: bytes.Replace(good.Payload, []byte(digest.Hex), []byte(other.Hex), 1), Signature: good.Signature}
			if err := NewSigstore([]PublicKey{trusted}, fakeAttachments{changed}).Verify(t.Context(), other.String()); err == nil {
				t.Error("a changed payload: got no error, want one")
			}
		})
	}
}

func TestCosignKey(t *testing.T) {
	key := newSigstoreKeys(t)["ecdsa"]
	_, private := encodePEM(t, key)
	block, _ := pem.Decode(private)
	locked, err := encrypted.Encrypt(block.Bytes, []byte("open sesame"))
	if err != nil {
		t.Fatal(err)
	}

	file := pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED SIGSTORE PRIVATE KEY", Bytes: locked})
	if _, err := ParsePrivateKey(file, []byte("open sesame")); err != nil {
		t.Error(err)
	}
	if _, err := ParsePrivateKey(file, []byte("wrong")); err == nil || !strings.Contains(err.Error(), "the passphrase does not open it") {
		t.Errorf("got error %v, want one with \"the passphrase does not open it\"", err)
	}
}

func TestInvalidSigstoreKeys(t *testing.T) {
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Skip("this version of Go cannot create small keys")
	}

	weak, _ := encodePEM(t, small)
	_, private := encodePEM(t, newSigstoreKeys(t)["ecdsa"])
	for name, data := range map[string][]byte{"text": []byte("x"), "private": private, "weak": weak, "junk": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: []byte("x")})} {
		if _, err := ParsePublicKey("ours", data); err == nil {
			t.Errorf("%s: got no error, want one", name)
		}
	}

	for name, data := range map[string][]byte{"text": []byte("x"), "public": weak, "junk": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("x")})} {
		if _, err := ParsePrivateKey(data, nil); err == nil {
			t.Errorf("%s: got no error, want one", name)
		}
	}
}
