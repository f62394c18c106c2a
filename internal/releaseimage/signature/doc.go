// Package signature verifies that a release image is signed by trusted keys. It only uses the
// digest of the image: it searches stores for a statement about the digest that a trusted key
// signed.
//
// There are two kinds of statements. [Statements] verifies OpenPGP messages in stores:
// directories of web servers ([HTTPStore]), directories on disk ([FolderStore]) and ConfigMaps
// ([ConfigMapStore], [NewBundleStore]). [Sigstore] verifies what cosign attaches to an image, by public
// keys. [Signer.Sign] and [PrivateKey.Sign] create them.
//
// The package pulls no image and uses no Kubernetes API; its callers provide the data. It does
// not compute digests: callers that read an image must check that its digest is the verified
// one.
package signature

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"

	"github.com/mainstay-dev/mainstay/internal/excerpt"
	"github.com/mainstay-dev/mainstay/internal/pgp"
)

// Verifier verifies release images.
type Verifier interface {
	// Verify returns nil if the release image with the digest, as sha256:<hex>, is signed as
	// required. Otherwise it returns an error, which is an *Error if signatures were searched.
	// The digest is empty for an image that is named by a tag, which cannot be verified.
	Verify(ctx context.Context, digest string) error
}

// ErrNoDigest is returned for a release that is named by a tag.
var ErrNoDigest = errors.New("release images that are not accessed via digest cannot be verified")

// ErrNotPossible is returned by Reject.
var ErrNotPossible = errors.New("verification is not possible")

// Reject is the verifier of a cluster without keys. It rejects every release.
type Reject struct{}

// Verify returns ErrNotPossible.
func (Reject) Verify(context.Context, string) error { return ErrNotPossible }

// All returns a verifier that requires all given verifiers to succeed. Without verifiers it
// rejects every release.
func All(verifiers ...Verifier) Verifier {
	switch len(verifiers) {
	case 0:
		return Reject{}
	case 1:
		return verifiers[0]
	default:
		return allVerifiers(verifiers)
	}
}

type allVerifiers []Verifier

func (a allVerifiers) Verify(ctx context.Context, digest string) error {
	var failed verifierErrors
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
func (a allVerifiers) Verified() map[string][][]byte {
	signatures := map[string][][]byte{}
	for _, verifier := range a {
		if keeper, ok := verifier.(interface{ Verified() map[string][][]byte }); ok {
			maps.Copy(signatures, keeper.Verified())
		}
	}
	return signatures
}

// Digest is a parsed image digest.
type Digest struct {
	// Algorithm is sha256 or sha512.
	Algorithm string
	// Hex has 64 or 128 hexadecimal digits.
	Hex string
}

// String returns <algorithm>:<hex>.
func (d Digest) String() string { return d.Algorithm + ":" + d.Hex }

var digestPattern = regexp.MustCompile(`^(?:(sha256):([0-9a-f]{64})|(sha512):([0-9a-f]{128}))$`)

// ParseDigest parses sha256:<hex> or sha512:<hex>. It returns ErrNoDigest for an empty text.
func ParseDigest(text string) (Digest, error) {
	if text == "" {
		return Digest{}, ErrNoDigest
	}

	match := digestPattern.FindStringSubmatch(text)
	if match == nil {
		return Digest{}, fmt.Errorf("the provided release image digest has an invalid format: %q", excerpt.Line(text, maxTextBytes))
	}
	return Digest{Algorithm: match[1] + match[3], Hex: match[2] + match[4]}, nil
}

// DigestOf returns the digest of a pull spec; "" if it has none.
func DigestOf(pullSpec string) string {
	_, digest, _ := strings.Cut(pullSpec, "@")
	return digest
}

// MaxSignatureBytes is the maximum size of a signature.
const MaxSignatureBytes = pgp.MaxMessageBytes

// maxTextBytes is the maximum length of external text in an error.
const maxTextBytes = 512
