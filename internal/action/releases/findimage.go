package releases

import (
	"context"
	"fmt"

	"github.com/mainstay-dev/mainstay/internal/release"
)

// FindImage finds an image of a release.
type FindImage struct {
	Source
	// Image is the release: a reference, or a version that Resolver finds.
	Image string
	// PayloadDir is the root of a release image, or another folder with a payload. Empty
	// means that the release is read from its registry.
	PayloadDir string
	// Name is the name of the image in the release.
	Name string
}

// Run returns the pull spec of the image by digest.
func (a *FindImage) Run(ctx context.Context) (string, error) {
	payload, where, err := a.loadPayload(ctx, a.Image, a.PayloadDir, release.Options{})
	if err != nil {
		return "", err
	}

	pullSpec, ok := payload.Images.PullSpec(a.Name)
	if !ok {
		return "", fmt.Errorf("no image tag %q exists in the release image %s", a.Name, where)
	}

	return pullSpec, nil
}
