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

	"github.com/mainstay-dev/mainstay/internal/pgp"
	"github.com/mainstay-dev/mainstay/internal/testing/signingkey"
)

// now is the current time in the tests.
var now = time.Date(2030, 6, 1, 12, 0, 0, 0, time.UTC)

var (
	digest = Digest{"sha256", strings.Repeat("0123456789abcdef", 4)}
	other  = Digest{"sha256", strings.Repeat("f", 64)}
)

// testSigner signs statements.
type testSigner struct {
	entity  *openpgp.Entity
	keyring pgp.Keyring
}

// newTestSigner creates a key. A lifetime of zero means that it does not expire.
func newTestSigner(t testing.TB, name string, made time.Time, lifetime time.Duration) testSigner {
	t.Helper()
	return newTestSignerOf(t, name, packet.Config{
		Algorithm: packet.PubKeyAlgoEdDSA, Time: func() time.Time { return made }, KeyLifetimeSecs: uint32(lifetime.Seconds()),
	})
}

// newTestSignerOf creates a key of any kind.
func newTestSignerOf(t testing.TB, name string, config packet.Config) testSigner {
	t.Helper()
	key := signingkey.New(t, name, config)
	keyring, err := pgp.ParseKeyring(name, key.Public)
	if err != nil {
		t.Fatal(err)
	}
	return testSigner{key.Entity, keyring}
}

// sign returns a valid statement about a digest.
func (p testSigner) sign(t testing.TB, about Digest) []byte {
	t.Helper()
	signature, err := (&Signer{p.entity}).Sign(about, SignOptions{Reference: "registry.example.com/release:1.0.0", Time: now.Add(-time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	return signature
}

// signText returns a signed message with any content.
func (p testSigner) signText(t testing.TB, content string, config *packet.Config) []byte {
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

func statementJSON(kind, about, reference, more string) string {
	return fmt.Sprintf(`{"critical":{"type":%q,"image":{"docker-manifest-digest":%q},"identity":{"docker-reference":%q}},"optional":{}%s}`, kind, about, reference, more)
}

// countingStore counts the signatures that are read.
type countingStore struct {
	Store
	read int
}

func (c *countingStore) Signatures(ctx context.Context, digest Digest) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for signature, err := range c.Store.Signatures(ctx, digest) {
			c.read++
			if !yield(signature, err) {
				return
			}
		}
	}
}

// newVerifier returns a verifier at the time of the tests.
func newVerifier(store Store, people ...testSigner) *Statements {
	var keyrings []pgp.Keyring
	for _, p := range people {
		keyrings = append(keyrings, p.keyring)
	}
	v := NewStatements(keyrings, store)
	v.now = func() time.Time { return now }
	return v
}
