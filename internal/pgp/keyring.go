// Package pgp verifies OpenPGP messages by keyrings. It refuses signatures by weak keys and with broken hashes, which the OpenPGP
// library accepts in messages.
//
// It decides nothing about the content of a message: callers check what was signed.
package pgp

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"

	"github.com/mainstay-dev/mainstay/internal/excerpt"
)

// Limits of messages and keyrings.
const (
	// MaxMessageBytes is the maximum size of a message, and of its content. A statement about an
	// image, signed by a 4096-bit RSA key, has about 1 KiB.
	MaxMessageBytes = 50 << 10
	// maxKeyringBytes is the maximum size of a keyring: hundreds of keys.
	maxKeyringBytes = 1 << 20
	// maxTextBytes is the maximum length of external text in an error.
	maxTextBytes = 512
)

// Keyring is a set of OpenPGP public keys. A signature by any of them counts as a signature of
// the keyring.
type Keyring struct {
	// Name is a name for messages.
	Name string
	keys openpgp.EntityList
}

// ParseKeyring parses public keys, armored or not.
func ParseKeyring(name string, data []byte) (Keyring, error) {
	keys, err := ReadKeys(data)
	if err != nil {
		return Keyring{}, fmt.Errorf("the keyring %s cannot be read: %w; write it as gpg --export does, with --armor or without", name, err)
	}
	return Keyring{Name: name, keys: keys}, nil
}

// ReadKeys parses OpenPGP keys, armored or not. Private keys are keys too.
func ReadKeys(data []byte) (openpgp.EntityList, error) {
	if len(data) > maxKeyringBytes {
		return nil, fmt.Errorf("it is larger than the %d bytes that it may have", maxKeyringBytes)
	}
	if !bytes.Contains(data, []byte("-----BEGIN PGP ")) {
		keys, err := openpgp.ReadKeyRing(bytes.NewReader(data))
		return requireKeys(keys, err)
	}

	var all openpgp.EntityList
	reader := bufio.NewReader(bytes.NewReader(data))
	for {
		block, err := armor.Decode(reader)
		if errors.Is(err, io.EOF) {
			return requireKeys(all, nil)
		}
		if err != nil {
			return nil, err
		}
		if block.Type != openpgp.PublicKeyType && block.Type != openpgp.PrivateKeyType {
			return nil, fmt.Errorf("it holds a %s", excerpt.Line(block.Type, maxTextBytes))
		}

		keys, err := openpgp.ReadKeyRing(block.Body)
		if err != nil {
			return nil, err
		}

		all = append(all, keys...)
	}
}

func requireKeys(keys openpgp.EntityList, err error) (openpgp.EntityList, error) {
	if err == nil && len(keys) == 0 {
		err = errors.New("it holds no key")
	}
	return keys, err
}
