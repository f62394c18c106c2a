package fbc

import (
	_ "crypto/sha256" // The library supports only digests that are linked into the program.
	_ "crypto/sha512"

	"github.com/distribution/reference"
)

// CheckPullSpec returns an error if text is not an image reference. The name may be short and may
// have a tag, a digest, or both.
func CheckPullSpec(text string) error {
	_, err := reference.ParseNormalizedNamed(text)
	return err
}
