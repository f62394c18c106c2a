package clusterupdate

import (
	"errors"
	"fmt"
	"strings"

	"github.com/distribution/reference"
)

// validateTargetImage checks the pull spec. A tag requires --force because it may point to
// another release later.
func (r *Request) validateTargetImage() error {
	const what = "--to-image must be a valid image pull spec: %w"
	parsed, err := reference.Parse(r.ToImage)
	if err != nil {
		return fmt.Errorf(what, err)
	}

	named, ok := parsed.(reference.Named)
	if !ok || !strings.Contains(reference.Domain(named), ".") && !strings.Contains(reference.Domain(named), ":") && reference.Domain(named) != "localhost" {
		return fmt.Errorf(what, errors.New("no registry or repository specified"))
	}

	_, byDigest := parsed.(reference.Digested)
	_, byTag := parsed.(reference.Tagged)
	switch {
	case !byDigest && !byTag:
		return fmt.Errorf(what, errors.New("no tag or digest specified"))
	case !byDigest && !r.Force:
		return errors.New("--to-image must be a by-digest pull spec, unless --force is also set, because release images by tag cannot be verified: " +
			"name it as repository@sha256:digest")
	}

	return nil
}
