package signature

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mainstay-dev/mainstay/internal/pgp"
)

// maxVerifiedDigests is how many verified digests are remembered.
const maxVerifiedDigests = 64

// Statements is a Verifier of OpenPGP statements. Each of its keyrings must have signed a
// statement about the digest. It remembers verified digests, so that stores are searched once
// per digest. It is safe for concurrent use.
type Statements struct {
	keyrings []pgp.Keyring
	store    Store
	now      func() time.Time

	mu       sync.Mutex
	verified map[string][][]byte
	order    []string // keys of verified, oldest first
}

var _ Verifier = (*Statements)(nil)

// NewStatements returns a verifier. The names of the keyrings must be unique.
func NewStatements(keyrings []pgp.Keyring, store Store) *Statements {
	return &Statements{keyrings: keyrings, store: store, now: time.Now, verified: map[string][][]byte{}}
}

// Verify searches signatures until each keyring has a valid one.
func (s *Statements) Verify(ctx context.Context, text string) error {
	digest, err := ParseDigest(text)
	if err != nil {
		return err
	}
	if len(s.keyrings) == 0 {
		return errors.New("there is no keyring to verify a release against")
	}
	if s.isVerified(digest) {
		return nil
	}

	var names []string
	for _, keyring := range s.keyrings {
		names = append(names, keyring.Name)
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	good, err := signatureSearch[[]byte]{
		digest: digest, kind: "keyrings", store: s.store.String(), now: s.now, signers: names,
		verify: func(signature []byte, signer int) error {
			return s.verifyStatement(signature, s.keyrings[signer], digest)
		},
	}.findSignatures(ctx, s.store.Signatures(ctx, digest))
	if err == nil {
		s.rememberVerified(digest, good)
	}

	return err
}

func (s *Statements) verifyStatement(signature []byte, keyring pgp.Keyring, digest Digest) error {
	content, err := keyring.OpenMessage(signature, s.now())
	if err != nil {
		return err
	}
	return checkAtomicStatement(content, digest)
}

// isVerified reports whether a digest was verified before by signatures that are still valid.
func (s *Statements) isVerified(digest Digest) bool {
	s.mu.Lock()
	signatures := s.verified[digest.String()]
	s.mu.Unlock()
	if len(signatures) == 0 {
		return false
	}

	for _, keyring := range s.keyrings {
		if !slices.ContainsFunc(signatures, func(signature []byte) bool { return s.verifyStatement(signature, keyring, digest) == nil }) {
			return false
		}
	}

	return true
}

func (s *Statements) rememberVerified(digest Digest, signatures [][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := digest.String()
	s.order = append(slices.DeleteFunc(s.order, func(known string) bool { return known == key }), key)
	s.verified[key] = signatures
	for len(s.order) > maxVerifiedDigests {
		delete(s.verified, s.order[0])
		s.order = s.order[1:]
	}
}

// Verified returns the valid signatures of the last 64 digests, by digest, so that they can be
// stored for use without a network.
func (s *Statements) Verified() map[string][][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	signatures := maps.Clone(s.verified)
	for digest, statements := range signatures {
		statements = slices.Clone(statements)
		for i := range statements {
			statements[i] = bytes.Clone(statements[i])
		}
		signatures[digest] = statements
	}

	return signatures
}
