// Package signingkey generates OpenPGP keys that sign releases and images.
//
// It is only for tests. No package of the product imports it.
package signingkey

import (
	"bytes"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

// Key is a generated key.
type Key struct {
	// Entity signs with the key.
	Entity *openpgp.Entity
	// Public and Private are the serialized keys, which are not armored.
	Public, Private []byte
}

// New generates a key of a name. Its address is NAME@example.com.
func New(t testing.TB, name string, config packet.Config) Key {
	t.Helper()
	entity, err := openpgp.NewEntity(name, "", name+"@example.com", &config)
	if err != nil {
		t.Fatalf("generating the key %s: %v", name, err)
	}

	var public, private bytes.Buffer
	if err := entity.Serialize(&public); err != nil {
		t.Fatalf("writing the public key %s: %v", name, err)
	}
	if err := entity.SerializePrivate(&private, nil); err != nil {
		t.Fatalf("writing the private key %s: %v", name, err)
	}

	return Key{Entity: entity, Public: public.Bytes(), Private: private.Bytes()}
}

// NewEdDSA generates a key of the kind that signs releases, which does not expire.
func NewEdDSA(t testing.TB, name string) Key {
	t.Helper()
	return New(t, name, packet.Config{Algorithm: packet.PubKeyAlgoEdDSA})
}
