package signature

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
)

// Limits on what is read.
const (
	// MaxSignatureBytes is the size of one signature. A statement signed by RSA with 4096
	// bits has about 1 KiB.
	MaxSignatureBytes = 50 << 10
	// maxKeyringBytes is the size of a keyring: hundreds of keys.
	maxKeyringBytes = 1 << 20
)

// Keyring holds OpenPGP public keys. What any of them signed, the keyring has signed.
type Keyring struct {
	// Name is what people know it by.
	Name string
	keys openpgp.EntityList
}

// ParseKeyring reads public keys, armored or not.
func ParseKeyring(name string, data []byte) (Keyring, error) {
	keys, err := readKeys(data)
	if err != nil {
		return Keyring{}, fmt.Errorf("the keyring %s cannot be read: %w; write it as gpg --export does, with --armor or without", name, err)
	}
	return Keyring{Name: name, keys: keys}, nil
}

func readKeys(data []byte) (openpgp.EntityList, error) {
	if len(data) > maxKeyringBytes {
		return nil, fmt.Errorf("it is larger than the %d bytes that it may have", maxKeyringBytes)
	}
	if !bytes.Contains(data, []byte("-----BEGIN PGP ")) {
		keys, err := openpgp.ReadKeyRing(bytes.NewReader(data))
		return some(keys, err)
	}

	var all openpgp.EntityList
	reader := bufio.NewReader(bytes.NewReader(data))
	for {
		block, err := armor.Decode(reader)
		if errors.Is(err, io.EOF) {
			return some(all, nil)
		}
		if err != nil {
			return nil, err
		}
		if block.Type != openpgp.PublicKeyType && block.Type != openpgp.PrivateKeyType {
			return nil, fmt.Errorf("it holds a %s", shorten(block.Type))
		}

		keys, err := openpgp.ReadKeyRing(block.Body)
		if err != nil {
			return nil, err
		}

		all = append(all, keys...)
	}
}

func some(keys openpgp.EntityList, err error) (openpgp.EntityList, error) {
	if err == nil && len(keys) == 0 {
		err = errors.New("it holds no key")
	}
	return keys, err
}
