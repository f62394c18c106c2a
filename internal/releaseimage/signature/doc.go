// Package signature decides whether a release image was signed by those whose keys are
// trusted, by nothing but its digest: a statement about the digest is looked for in
// stores, and believed when a trusted key signed it.
//
// There are two kinds of statements. [Statements] verifies OpenPGP messages, which lie in
// stores: folders on web servers ([HTTPStore]), folders on disk ([FolderStore]) and
// ConfigMaps ([ConfigMapStore], [StoreOf]). [Sigstore] verifies what cosign writes beside
// an image, by public keys. [Sign] and [PrivateKey.Sign] make them.
//
// It pulls no image and asks no Kubernetes API: what lies there is given to it by its
// callers. It does not compute digests: whoever reads an image checks that it has the
// digest that was verified.
package signature

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"
)

// Verifier reports whether a release may be trusted.
type Verifier interface {
	// Verify returns nil when the release image with the digest, as sha256:<hex>, is signed as
	// the verifier demands, and otherwise an error that says what is missing: an *Error
	// when signatures were looked for. An empty digest is that of an image that was named
	// by a tag, which nobody can verify.
	Verify(ctx context.Context, digest string) error
}

// ErrNoDigest is about a release that is named by a tag.
var ErrNoDigest = errors.New("release images that are not accessed via digest cannot be verified")

// ErrNotPossible is what Reject says.
var ErrNotPossible = errors.New("verification is not possible")

// Reject is the verifier of a cluster that knows no keys: it trusts nothing.
type Reject struct{}

// Verify returns ErrNotPossible.
func (Reject) Verify(context.Context, string) error { return ErrNotPossible }

// All returns a verifier that trusts what each of the verifiers trusts. Without any it trusts
// nothing.
func All(verifiers ...Verifier) Verifier {
	switch len(verifiers) {
	case 0:
		return Reject{}
	case 1:
		return verifiers[0]
	default:
		return all(verifiers)
	}
}

type all []Verifier

func (a all) Verify(ctx context.Context, digest string) error {
	var failed refusals
	for _, verifier := range a {
		if err := verifier.Verify(ctx, digest); err != nil {
			failed = append(failed, err)
		}
	}

	if len(failed) == 0 {
		return nil
	}
	return failed
}

// Verified returns the signatures that the verifiers remember, by digest.
func (a all) Verified() map[string][][]byte {
	signatures := map[string][][]byte{}
	for _, verifier := range a {
		if keeper, ok := verifier.(interface{ Verified() map[string][][]byte }); ok {
			maps.Copy(signatures, keeper.Verified())
		}
	}
	return signatures
}

// Digest is the digest of an image in its parts.
type Digest struct {
	// Algorithm is sha256 or sha512.
	Algorithm string
	// Hex has 64 or 128 digits.
	Hex string
}

// String returns <algorithm>:<hex>.
func (d Digest) String() string { return d.Algorithm + ":" + d.Hex }

var digestPattern = regexp.MustCompile(`^(?:(sha256):([0-9a-f]{64})|(sha512):([0-9a-f]{128}))$`)

// ParseDigest reads sha256:<hex> or sha512:<hex>. Its error is ErrNoDigest for an empty
// text.
func ParseDigest(text string) (Digest, error) {
	if text == "" {
		return Digest{}, ErrNoDigest
	}

	match := digestPattern.FindStringSubmatch(text)
	if match == nil {
		return Digest{}, fmt.Errorf("the provided release image digest has an invalid format: %q", shorten(text))
	}
	return Digest{Algorithm: match[1] + match[3], Hex: match[2] + match[4]}, nil
}

// DigestOf returns the digest of a pull spec, to be verified. It is empty when the pull spec
// has none.
func DigestOf(pullSpec string) string {
	_, digest, _ := strings.Cut(pullSpec, "@")
	return digest
}

// maxText bounds what a store or a statement may put into an error.
const maxText = 512

// shorten makes a text from outside safe to show: one line of bounded length.
func shorten(text string) string {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }), " ")
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return text
}
