package signature

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

// now is when the tests happen.
var now = time.Date(2030, 6, 1, 12, 0, 0, 0, time.UTC)

var (
	digest = Digest{"sha256", strings.Repeat("0123456789abcdef", 4)}
	other  = Digest{"sha256", strings.Repeat("f", 64)}
)

// person is somebody who signs.
type person struct {
	entity  *openpgp.Entity
	keyring Keyring
}

// newPerson makes a key. A lifetime of zero never ends.
func newPerson(t testing.TB, name string, made time.Time, lifetime time.Duration) person {
	t.Helper()
	entity, err := openpgp.NewEntity(name, "", name+"@example.com", &packet.Config{
		Algorithm: packet.PubKeyAlgoEdDSA, Time: func() time.Time { return made }, KeyLifetimeSecs: uint32(lifetime.Seconds()),
	})
	if err != nil {
		t.Fatal(err)
	}

	var public bytes.Buffer
	if err := entity.Serialize(&public); err != nil {
		t.Fatal(err)
	}

	keyring, err := ParseKeyring(name, public.Bytes())
	if err != nil {
		t.Fatal(err)
	}

	return person{entity, keyring}
}

// signs makes a good statement about a digest.
func (p person) signs(t testing.TB, about Digest) []byte {
	t.Helper()
	signature, err := (&Signer{p.entity}).Sign(about, SignOptions{Reference: "registry.example.com/release:1.0.0", Time: now.Add(-time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	return signature
}

// signsText makes a message of any content.
func (p person) signsText(t testing.TB, content string, config *packet.Config) []byte {
	t.Helper()
	if config == nil {
		config = &packet.Config{}
	}
	if config.Time == nil {
		config.Time = func() time.Time { return now.Add(-time.Hour) }
	}

	var message bytes.Buffer
	writer, err := openpgp.Sign(&message, p.entity, nil, config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := writer.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}

	return message.Bytes()
}

func text(kind, about, reference, more string) string {
	return fmt.Sprintf(`{"critical":{"type":%q,"image":{"docker-manifest-digest":%q},"identity":{"docker-reference":%q}},"optional":{}%s}`, kind, about, reference, more)
}

// counting counts what is read of a store.
type counting struct {
	Store
	read int
}

func (c *counting) Signatures(ctx context.Context, digest Digest) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for signature, err := range c.Store.Signatures(ctx, digest) {
			c.read++
			if !yield(signature, err) {
				return
			}
		}
	}
}

// verifier is one at the time of the tests.
func verifier(store Store, people ...person) *Statements {
	var keyrings []Keyring
	for _, p := range people {
		keyrings = append(keyrings, p.keyring)
	}
	v := NewStatements(keyrings, store)
	v.now = func() time.Time { return now }
	return v
}
