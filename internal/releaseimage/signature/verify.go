package signature

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

// maxVerified is how many digests a verifier remembers.
const maxVerified = 64

// Statements is a Verifier by OpenPGP statements: each of its keyrings must have signed one
// that is about the digest. It remembers what it verified, so that a store is asked once
// for a digest. It is safe for concurrent use.
type Statements struct {
	keyrings []Keyring
	store    Store
	now      func() time.Time

	mu       sync.Mutex
	verified map[string][][]byte
	order    []string // of the keys of verified, the oldest first
}

var _ Verifier = (*Statements)(nil)

// NewStatements makes a verifier. The keyrings' names are unique.
func NewStatements(keyrings []Keyring, store Store) *Statements {
	return &Statements{keyrings: keyrings, store: store, now: time.Now, verified: map[string][][]byte{}}
}

// Verify looks for signatures until each keyring has a good one.
func (s *Statements) Verify(ctx context.Context, text string) error {
	digest, err := ParseDigest(text)
	if err != nil {
		return err
	}
	if len(s.keyrings) == 0 {
		return errors.New("there is no keyring that a release could be verified against")
	}
	if s.known(digest) {
		return nil
	}

	var names []string
	for _, keyring := range s.keyrings {
		names = append(names, keyring.Name)
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	good, err := search[[]byte]{
		digest: digest, kind: "keyrings", store: s.store.String(), now: s.now, signers: names,
		accepts: func(signature []byte, signer int) error { return s.accepts(signature, s.keyrings[signer], digest) },
	}.run(ctx, s.store.Signatures(ctx, digest))
	if err == nil {
		s.remember(digest, good)
	}

	return err
}

func (s *Statements) accepts(signature []byte, keyring Keyring, digest Digest) error {
	content, err := keyring.open(signature, s.now())
	if err != nil {
		return err
	}
	return checkAtomic(content, digest)
}

// known reports whether a digest was verified before, by signatures that are still good.
func (s *Statements) known(digest Digest) bool {
	s.mu.Lock()
	signatures := s.verified[digest.String()]
	s.mu.Unlock()
	if len(signatures) == 0 {
		return false
	}

	for _, keyring := range s.keyrings {
		if !slices.ContainsFunc(signatures, func(signature []byte) bool { return s.accepts(signature, keyring, digest) == nil }) {
			return false
		}
	}

	return true
}

func (s *Statements) remember(digest Digest, signatures [][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := digest.String()
	s.order = append(slices.DeleteFunc(s.order, func(known string) bool { return known == key }), key)
	s.verified[key] = signatures
	for len(s.order) > maxVerified {
		delete(s.verified, s.order[0])
		s.order = s.order[1:]
	}
}

// Verified returns the signatures by which the last 64 digests were verified, by digest, to
// be kept where they are found without a network.
func (s *Statements) Verified() map[string][][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	signatures := maps.Clone(s.verified)
	for digest, of := range signatures {
		of = slices.Clone(of)
		for i := range of {
			of[i] = bytes.Clone(of[i])
		}
		signatures[digest] = of
	}

	return signatures
}
