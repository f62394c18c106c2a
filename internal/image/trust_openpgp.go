//go:build containers_image_openpgp

package image

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"go.podman.io/image/v5/docker"
	"go.podman.io/image/v5/signature"
	"go.podman.io/image/v5/types"
)

// verifyPolicy evaluates every requirement that a policy.json can have.
func verifyPolicy(ctx context.Context, data []byte, img types.UnparsedImage) error {
	policy, err := signature.NewPolicyFromBytes(data)
	if err != nil {
		return faultf(KindUntrusted, "read the signature policy: %w", err)
	}
	evaluation, err := signature.NewPolicyContext(policy)
	if err != nil {
		return faultf(KindUntrusted, "evaluate the signature policy: %w", err)
	}
	defer func() { _ = evaluation.Destroy() }()
	if _, err = evaluation.IsRunningImageAllowed(ctx, img); err == nil {
		return nil
	}
	var refused signature.PolicyRequirementError
	if errors.As(err, &refused) {
		return faultf(KindUntrusted, "the signature policy does not accept it: %w", err)
	}
	// Signatures are read from the network, so that it can be a registry's failure.
	var transport *url.Error
	var status docker.UnexpectedHTTPStatusError
	if kindOf(err) != KindUnavailable || errors.As(err, &transport) || errors.As(err, &status) {
		return fmt.Errorf("read its signatures: %w", err)
	}
	return faultf(KindUntrusted, "verify its signatures: %w", err)
}
