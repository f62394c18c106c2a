package signature

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	pgperrors "github.com/ProtonMail/go-crypto/openpgp/errors"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
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

// open gives what a message says when a key of the keyring signed it, and the signature and
// the key are still good.
func (k Keyring) open(message []byte, now time.Time) ([]byte, error) {
	config := &packet.Config{Time: func() time.Time { return now }}
	details, err := openpgp.ReadMessage(bytes.NewReader(message), k.keys, nil, config)
	if err != nil {
		return nil, fmt.Errorf("it is no signed OpenPGP message: %w", err)
	}
	if !details.IsSigned || details.IsEncrypted {
		return nil, errors.New("it is no signed OpenPGP message")
	}
	// A compressed message may be a bomb.
	content, err := io.ReadAll(io.LimitReader(details.UnverifiedBody, MaxSignatureBytes+1))
	if err != nil {
		return nil, fmt.Errorf("the message cannot be read: %w", err)
	}
	if len(content) > MaxSignatureBytes {
		return nil, fmt.Errorf("the message holds more than the %d bytes that it may have", MaxSignatureBytes)
	}
	if details.SignedBy == nil {
		return nil, fmt.Errorf("it was made by the key %016X, which is not in the keyring", details.SignedByKeyId)
	}
	if err := details.SignatureError; err != nil {
		return nil, explain(err, details, now)
	}
	return content, nil
}

// explain says when a signature was good, if that is what is wrong with it.
func explain(err error, details *openpgp.MessageDetails, now time.Time) error {
	made := details.Signature
	if !errors.Is(err, pgperrors.ErrSignatureExpired) || made == nil {
		return fmt.Errorf("the signature is not good: %w", err)
	}
	if made.CreationTime.After(now) {
		return fmt.Errorf("signature made on %s, which is still to come", made.CreationTime.UTC().Format(time.RFC3339))
	}
	if made.SigLifetimeSecs == nil || *made.SigLifetimeSecs == 0 {
		return fmt.Errorf("the signature of the key by itself is not good: %w", err)
	}
	expired := made.CreationTime.Add(time.Duration(*made.SigLifetimeSecs) * time.Second)
	return fmt.Errorf("signature expired on %s", expired.UTC().Format(time.RFC3339))
}
