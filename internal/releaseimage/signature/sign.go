package signature

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/mainstay-dev/mainstay/internal/pgp"
)

// creator is the creator that statements name.
const creator = "mainstay"

// Signer signs releases with an OpenPGP key.
type Signer struct {
	entity *openpgp.Entity
}

// ParseSigner parses a private key, armored or not, as written by gpg --export-secret-keys. The
// data must contain exactly one. The passphrase is used if the key is locked.
func ParseSigner(data, passphrase []byte) (*Signer, error) {
	keys, err := pgp.ReadKeys(data)
	if err != nil {
		return nil, fmt.Errorf("the key cannot be read: %w; write it as gpg --export-secret-keys does, with --armor or without", err)
	}

	var entity *openpgp.Entity
	for _, key := range keys {
		if key.PrivateKey == nil {
			continue
		}
		if entity != nil {
			return nil, errors.New("the file holds several private keys: export the one that signs releases")
		}
		entity = key
	}

	if entity == nil {
		return nil, errors.New("the file holds no private key: export it by gpg --export-secret-keys")
	}
	if err := entity.DecryptPrivateKeys(passphrase); err != nil {
		return nil, errors.New("the key is locked, and the passphrase does not open it")
	}

	return &Signer{entity}, nil
}

// SignOptions are the properties of a signature.
type SignOptions struct {
	// Reference is the name of the image: a pull spec by tag. It is part of the signed statement
	// and must not be empty.
	Reference string
	// Time is the time of the signature.
	Time time.Time
	// Lifetime is the validity of the signature, in whole seconds. Zero means as long as the key
	// is valid.
	Lifetime time.Duration
}

// Sign returns a signed statement about a release image: an OpenPGP message for a store.
func (s *Signer) Sign(digest Digest, options SignOptions) ([]byte, error) {
	content, err := Statement(digest, options.Reference, options.Time)
	if err != nil {
		return nil, err
	}

	config := &packet.Config{
		Time:            func() time.Time { return options.Time },
		SigLifetimeSecs: uint32(options.Lifetime / time.Second), //nolint:gosec // checked below
	}
	if seconds := int64(options.Lifetime / time.Second); seconds < 0 || seconds > 1<<32-1 || options.Lifetime > 0 && seconds == 0 {
		return nil, fmt.Errorf("a signature cannot be valid for %s: it must be between a second and 136 years", options.Lifetime)
	}

	if key, ok := s.entity.SigningKey(options.Time); ok {
		if err := pgp.CheckKeyStrength(key.PublicKey); err != nil {
			return nil, fmt.Errorf("the key cannot sign: %w", err)
		}
	}

	var message bytes.Buffer
	writer, err := openpgp.Sign(&message, s.entity, nil, config)
	if err != nil {
		return nil, fmt.Errorf("the key cannot sign: %w", err)
	}

	_, err = writer.Write(content)
	if err := errors.Join(err, writer.Close()); err != nil {
		return nil, fmt.Errorf("the key cannot sign: %w", err)
	}

	return message.Bytes(), nil
}

// Statement returns the statement that Sign signs, for external signing programs.
func Statement(digest Digest, reference string, at time.Time) ([]byte, error) {
	return newStatement(typeAtomic, digest, reference, optional{Creator: creator, Timestamp: at.Unix()})
}
