package signature

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/secure-systems-lab/go-securesystemslib/encrypted"

	"github.com/mainstay-dev/mainstay/internal/excerpt"
)

// Attachment is a statement that cosign attaches to an image.
type Attachment struct {
	// Payload is the statement.
	Payload []byte
	// Signature is the decoded signature of the payload.
	Signature []byte
}

// Attachments contains the attachments of images.
type Attachments interface {
	// Attachments returns the attachments of the image with a digest. Its errors are as those of
	// a Store.
	Attachments(ctx context.Context, digest Digest) iter.Seq2[Attachment, error]
	// String returns the name of the location for messages, without credentials.
	String() string
}

// PublicKey is a trusted key.
type PublicKey struct {
	// Name is a name for messages.
	Name string
	key  crypto.PublicKey
}

// ParsePublicKey parses a public key in PEM, as in cosign.pub: ECDSA, Ed25519, or RSA with at
// least 2048 bits.
func ParsePublicKey(name string, data []byte) (PublicKey, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "PUBLIC KEY" {
		return PublicKey{}, fmt.Errorf("the key %s is not a public key in PEM", name)
	}

	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return PublicKey{}, fmt.Errorf("the key %s cannot be read: %w", name, err)
	}

	switch key := key.(type) {
	case *ecdsa.PublicKey, ed25519.PublicKey:
	case *rsa.PublicKey:
		if key.N.BitLen() < 2048 {
			return PublicKey{}, fmt.Errorf("the RSA key %s has %d bits, it needs 2048", name, key.N.BitLen())
		}
	default:
		return PublicKey{}, fmt.Errorf("the type of the key %s is not supported", name)
	}

	return PublicKey{Name: name, key: key}, nil
}

// isSignatureValid reports whether the key signed an attachment.
func (k PublicKey) isSignatureValid(a Attachment) bool {
	hash := sha256.Sum256(a.Payload)
	switch key := k.key.(type) {
	case *ecdsa.PublicKey:
		return ecdsa.VerifyASN1(key, hash[:], a.Signature)
	case ed25519.PublicKey:
		return ed25519.Verify(key, a.Payload, a.Signature)
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(key, crypto.SHA256, hash[:], a.Signature) == nil
	default:
		return false
	}
}

// Sigstore is a Verifier of statements that are attached to images. Each of its keys must have
// signed one.
type Sigstore struct {
	keys  []PublicKey
	store Attachments
	now   func() time.Time
}

var _ Verifier = (*Sigstore)(nil)

// NewSigstore returns a verifier. The names of the keys must be unique.
func NewSigstore(keys []PublicKey, store Attachments) *Sigstore {
	return &Sigstore{keys: keys, store: store, now: time.Now}
}

// Verify searches the attachments until each key has signed one.
func (s *Sigstore) Verify(ctx context.Context, text string) error {
	digest, err := ParseDigest(text)
	if err != nil {
		return err
	}
	if len(s.keys) == 0 {
		return errors.New("there is no key to verify a release against")
	}

	var names []string
	for _, key := range s.keys {
		names = append(names, key.Name)
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	_, err = signatureSearch[Attachment]{
		digest: digest, kind: "keys", store: s.store.String(), now: s.now, signers: names,
		verify: func(attachment Attachment, signer int) error {
			if !s.keys[signer].isSignatureValid(attachment) {
				return errors.New("it was not made by the key")
			}
			return checkCosignStatement(attachment.Payload, digest)
		},
	}.findSignatures(ctx, s.store.Attachments(ctx, digest))

	return err
}

// PrivateKey signs releases with a sigstore key.
type PrivateKey struct {
	signer crypto.Signer
}

// ParsePrivateKey parses a private key in PEM: one of cosign, which the passphrase decrypts, or
// one in PKCS #8.
func ParsePrivateKey(data, passphrase []byte) (*PrivateKey, error) {
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New("the key is not a private key in PEM")
	}

	der := block.Bytes
	switch block.Type {
	case "PRIVATE KEY":
	case "ENCRYPTED SIGSTORE PRIVATE KEY", "ENCRYPTED COSIGN PRIVATE KEY":
		var err error
		if der, err = encrypted.Decrypt(der, passphrase); err != nil {
			return nil, errors.New("the key is locked, and the passphrase does not open it")
		}
	default:
		return nil, fmt.Errorf("the key is a %q; it must be one of cosign or in PKCS #8", excerpt.Line(block.Type, maxTextBytes))
	}

	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, errors.New("the key cannot be read as PKCS #8") // The error could reveal parts of the key.
	}

	switch key := key.(type) {
	case *ecdsa.PrivateKey:
		return &PrivateKey{key}, nil
	case ed25519.PrivateKey:
		return &PrivateKey{key}, nil
	case *rsa.PrivateKey:
		return &PrivateKey{key}, nil
	default:
		return nil, errors.New("the type of the key is not supported")
	}
}

// Sign returns a signed statement about a release image, as cosign does. The reference is the
// name of the image without tag and digest.
func (k *PrivateKey) Sign(digest Digest, reference string) (Attachment, error) {
	payload, err := newStatement(typeCosign, digest, reference, nil)
	if err != nil {
		return Attachment{}, err
	}

	hash := sha256.Sum256(payload)
	signed, options := hash[:], crypto.SignerOpts(crypto.SHA256)
	if _, ok := k.signer.(ed25519.PrivateKey); ok {
		signed, options = payload, crypto.Hash(0)
	}

	signature, err := k.signer.Sign(rand.Reader, signed, options)
	if err != nil {
		return Attachment{}, fmt.Errorf("the key cannot sign: %w", err)
	}

	return Attachment{Payload: payload, Signature: signature}, nil
}
