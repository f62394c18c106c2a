package signature

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

// creator is what statements name as their maker.
const creator = "mainstay"

// Signer is an OpenPGP key that signs releases.
type Signer struct {
	entity *openpgp.Entity
}

// ParseSigner reads a private key, armored or not, as gpg --export-secret-keys writes it.
// There must be one only. The passphrase opens it if it is locked.
func ParseSigner(data, passphrase []byte) (*Signer, error) {
	keys, err := readKeys(data)
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

// SignOptions are what a signature says beside the digest.
type SignOptions struct {
	// Reference is what the image is called: a pull spec by tag. It is part of what is
	// signed, and must not be empty.
	Reference string
	// Time when it is signed.
	Time time.Time
	// Lifetime after which the signature is not good any more, in whole seconds. Zero: it
	// is good as long as the key.
	Lifetime time.Duration
}

// Sign makes a statement about a release image: an OpenPGP message, which a store keeps.
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
		return nil, fmt.Errorf("a signature cannot be good for %s: it must be between a second and 136 years", options.Lifetime)
	}

	if key, ok := s.entity.SigningKey(options.Time); ok {
		if err := checkKeyStrength(key.PublicKey); err != nil {
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

// Statement writes what Sign signs, for a program that signs it elsewhere.
func Statement(digest Digest, reference string, at time.Time) ([]byte, error) {
	return newStatement(typeAtomic, digest, reference, optional{Creator: creator, Timestamp: at.Unix()})
}
