package releases

import (
	"context"
	"fmt"

	"github.com/mainstay-dev/mainstay/internal/release"
)

// FindImage tells where an image of a release is.
type FindImage struct {
	Source
	// Image is the release: a reference, or a version that the resolver knows.
	Image string
	// PayloadDir is the root of a release image, or another folder with a payload. Empty: the
	// release is read from its registry.
	PayloadDir string
	// Name is what the release calls the image.
	Name string
}

// Run returns the pull spec, by digest.
func (a *FindImage) Run(ctx context.Context) (string, error) {
	payload, where, err := a.payload(ctx, a.Image, a.PayloadDir, release.Options{})
	if err != nil {
		return "", err
	}

	pullSpec, ok := payload.Images.PullSpec(a.Name)
	if !ok {
		return "", fmt.Errorf("no image tag %q exists in the release image %s", a.Name, where)
	}

	return pullSpec, nil
}
