//go:build containers_image_openpgp

package image

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	"go.podman.io/image/v5/docker"
	"go.podman.io/image/v5/docker/reference"
	libimage "go.podman.io/image/v5/image"
	"go.podman.io/image/v5/manifest"
	"go.podman.io/image/v5/pkg/sysregistriesv2"
	"go.podman.io/image/v5/signature"
	"go.podman.io/image/v5/types"
)

// validatePolicy returns an error if data is not a valid policy. Unknown fields are errors,
// because a misspelt key must not weaken the policy.
func validatePolicy(data []byte) error {
	_, err := signature.NewPolicyFromBytes(data)
	return err
}

// verifySignatures evaluates the policy, of which rules need signatures of the image. The
// library reads the signatures from the locations that its own configuration names.
func (p signaturePolicy) verifySignatures(ctx context.Context, data []byte, rules []policyRequirement, image verificationSubject) error {
	dir, err := os.MkdirTemp("", "mainstay-signatures-")
	if err != nil {
		return fmt.Errorf("read its signatures (TMPDIR must be writable): %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()

	unparsed, done, err := p.openUnparsedImage(ctx, image, dir)
	if err != nil {
		return err
	}
	defer done()

	if err := evaluatePolicy(ctx, data, unparsed); err != nil {
		return err
	}

	for _, rule := range rules {
		if rule.kind != "signedBy" {
			continue
		}
		if err := requireStrongSignature(ctx, rule, unparsed); err != nil {
			return err
		}
	}

	return nil
}

// evaluatePolicy returns an error unless the library accepts an image by a policy.
func evaluatePolicy(ctx context.Context, data []byte, image types.UnparsedImage) error {
	policy, err := signature.NewPolicyFromBytes(data)
	if err != nil {
		return kindErrorf(KindUntrusted, "read the signature policy: %w", err)
	}

	evaluation, err := signature.NewPolicyContext(policy)
	if err != nil {
		return kindErrorf(KindUntrusted, "evaluate the signature policy: %w", err)
	}
	defer func() { _ = evaluation.Destroy() }()

	if _, err = evaluation.IsRunningImageAllowed(ctx, image); err == nil {
		return nil
	}

	var refused signature.PolicyRequirementError
	if errors.As(err, &refused) {
		return kindErrorf(KindUntrusted, "the signature policy does not accept it: %w", err)
	}

	// Signatures are read from the network, so a registry may have failed.
	var transport *url.Error
	var status docker.UnexpectedHTTPStatusError
	if kindOfError(err) != KindUnavailable || errors.As(err, &transport) || errors.As(err, &status) {
		return fmt.Errorf("read its signatures: %w", err)
	}

	return kindErrorf(KindUntrusted, "verify its signatures: %w", err)
}

// openUnparsedImage opens the image with the library. It returns an error if the image has
// changed since its manifest was read. The caller calls the returned function.
func (p signaturePolicy) openUnparsedImage(ctx context.Context, image verificationSubject, dir string) (types.UnparsedImage, func(), error) {
	named, err := reference.ParseNamed(image.named.String())
	if err != nil {
		return nil, nil, kindErrorf(KindUntrusted, "signatures of images at an IPv6 address cannot be verified; name the registry by a host name")
	}

	ref, err := docker.NewReference(named)
	if err != nil {
		return nil, nil, kindErrorf(KindInvalid, "%w", err)
	}

	sys, err := p.librarySystemContext(image.named, dir)
	if err != nil {
		return nil, nil, err
	}

	source, err := ref.NewImageSource(ctx, sys)
	if err != nil {
		return nil, nil, fmt.Errorf("read its signatures: %w", err)
	}

	done := func() { _ = source.Close() }
	var instance *digest.Digest
	if image.instance != "" {
		instance = &image.instance
	}

	unparsed := libimage.UnparsedInstance(source, instance)
	data, _, err := unparsed.Manifest(ctx)
	if err != nil {
		done()
		return nil, nil, fmt.Errorf("read its signatures: %w", err)
	}

	want, err := manifest.Digest(image.manifest)
	if err != nil {
		done()
		return nil, nil, contentErrorf("compute the digest of the manifest: %w", err)
	}
	if matches, err := manifest.MatchesDigest(data, want); err != nil || !matches {
		done()
		return nil, nil, kindErrorf(KindUnavailable, "the image was replaced while it was read")
	}

	return unparsed, done, nil
}

// librarySystemContext returns the library's configuration for reaching the image in the
// same way as this client. Files for the library are written into dir.
func (p signaturePolicy) librarySystemContext(n imageReference, dir string) (*types.SystemContext, error) {
	sys := p.registries.systemContext()
	pool, err := p.registries.loadCertPool()
	if err != nil {
		return nil, err
	}

	sys.BaseTLSConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	insecure, err := p.registries.allowsInsecureAccess(sys, n)
	if err != nil {
		return nil, err
	}
	if insecure || p.registries.opts.SkipTLSVerify {
		sys.DockerInsecureSkipTLSVerify = types.OptionalBoolTrue
	}
	if err := p.registries.creds.writeAuthFile(sys, dir); err != nil {
		return nil, err
	}
	if p.registries.opts.Mirrors == nil {
		return sys, nil
	}

	registry, err := p.registries.findRegistryConfig(sys, n.repository())
	if err != nil || registry == nil {
		return sys, err
	}
	if err := p.markInsecureMirrors(sys, n, registry); err != nil {
		return nil, err
	}

	helpers, err := sysregistriesv2.CredentialHelpers(sys)
	if err != nil {
		return nil, err
	}

	sys.SystemRegistriesConfPath = filepath.Join(dir, "registries.conf")
	sys.SystemRegistriesConfDirPath = filepath.Join(dir, "none")
	return sys, os.WriteFile(sys.SystemRegistriesConfPath, encodeRegistriesConf(registry, helpers), 0o600)
}

// markInsecureMirrors sets the insecure field of each mirror that may be reached without
// TLS.
func (p signaturePolicy) markInsecureMirrors(sys *types.SystemContext, n imageReference, registry *sysregistriesv2.Registry) error {
	registry.Mirrors = slices.Clone(registry.Mirrors)
	for i := range registry.Mirrors {
		mirror := &registry.Mirrors[i]
		rewritten, err := rewriteReference(n, registry.Prefix, mirror.Location)
		if err != nil {
			return err
		}

		insecure, err := p.registries.allowsInsecureAccess(sys, rewritten)
		if err != nil {
			return err
		}

		mirror.Insecure = mirror.Insecure || insecure
	}

	return nil
}

// encodeRegistriesConf returns a registries.conf with one entry.
func encodeRegistriesConf(registry *sysregistriesv2.Registry, helpers []string) []byte {
	var b strings.Builder
	quoted := make([]string, 0, len(helpers))
	for _, helper := range helpers {
		quoted = append(quoted, fmt.Sprintf("%q", helper))
	}

	fmt.Fprintf(&b, "credential-helpers = [%s]\n", strings.Join(quoted, ", "))
	fmt.Fprintf(&b, "[[registry]]\nprefix = %q\nlocation = %q\ninsecure = %t\nblocked = %t\n",
		registry.Prefix, registry.Location, registry.Insecure, registry.Blocked)
	for _, mirror := range mirrorsOfRegistry(registry) {
		fmt.Fprintf(&b, "[[registry.mirror]]\nlocation = %q\ninsecure = %t\npull-from-mirror = %q\n",
			mirror.Location, mirror.Insecure, mirror.PullFromMirror)
	}

	return []byte(b.String())
}
