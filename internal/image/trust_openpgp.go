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

// checkPolicy refuses what is no policy. A misspelt key must not open a door.
func checkPolicy(data []byte) error {
	_, err := signature.NewPolicyFromBytes(data)
	return err
}

// verifySignatures evaluates the requirements that need signatures. The library reads them
// itself, from where its own rules say that they are kept.
func (c *Client) verifySignatures(ctx context.Context, data []byte, _ requirement, image subject) error {
	policy, err := signature.NewPolicyFromBytes(data)
	if err != nil {
		return faultf(KindUntrusted, "read the signature policy: %w", err)
	}

	dir, err := os.MkdirTemp("", "mainstay-signatures-")
	if err != nil {
		return fmt.Errorf("read its signatures (TMPDIR must be writable): %w", err)
	}

	defer func() { _ = os.RemoveAll(dir) }()
	unparsed, done, err := c.unparsed(ctx, image, dir)
	if err != nil {
		return err
	}

	defer done()
	evaluation, err := signature.NewPolicyContext(policy)
	if err != nil {
		return faultf(KindUntrusted, "evaluate the signature policy: %w", err)
	}

	defer func() { _ = evaluation.Destroy() }()
	if _, err = evaluation.IsRunningImageAllowed(ctx, unparsed); err == nil {
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

// unparsed returns the image as the library reads it, and refuses one that changed since it
// was read here.
func (c *Client) unparsed(ctx context.Context, image subject, dir string) (types.UnparsedImage, func(), error) {
	named, err := reference.ParseNamed(image.named.String())
	if err != nil {
		return nil, nil, faultf(KindUntrusted, "signatures of images at an IPv6 address cannot be verified; name the registry by a host name")
	}

	ref, err := docker.NewReference(named)
	if err != nil {
		return nil, nil, faultf(KindInvalid, "%w", err)
	}

	sys, err := c.librarySystem(image.named, dir)
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
		return nil, nil, badContent("compute the digest of the manifest: %w", err)
	}
	if matches, err := manifest.MatchesDigest(data, want); err != nil || !matches {
		done()
		return nil, nil, faultf(KindUnavailable, "the image was replaced while it was read")
	}

	return unparsed, done, nil
}

// librarySystem has the library reach the image as this client does. Files that are for
// the library only are written into dir.
func (c *Client) librarySystem(n name, dir string) (*types.SystemContext, error) {
	sys := c.system()
	pool, err := c.authorities()
	if err != nil {
		return nil, err
	}

	sys.BaseTLSConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	insecure, err := c.insecure(sys, n)
	if err != nil {
		return nil, err
	}
	if insecure || c.opts.SkipTLSVerify {
		sys.DockerInsecureSkipTLSVerify = types.OptionalBoolTrue
	}
	if err := c.creds.install(sys, dir); err != nil {
		return nil, err
	}
	if c.opts.Mirrors == nil {
		return sys, nil
	}

	registry, err := c.registryOf(sys, n.repository())
	if err != nil || registry == nil {
		return sys, err
	}
	if err := c.markInsecure(sys, n, registry); err != nil {
		return nil, err
	}

	helpers, err := sysregistriesv2.CredentialHelpers(sys)
	if err != nil {
		return nil, err
	}

	sys.SystemRegistriesConfPath = filepath.Join(dir, "registries.conf")
	sys.SystemRegistriesConfDirPath = filepath.Join(dir, "none")
	return sys, os.WriteFile(sys.SystemRegistriesConfPath, registriesConf(registry, helpers), 0o600)
}

// markInsecure says of each mirror whether it is one that may do without TLS.
func (c *Client) markInsecure(sys *types.SystemContext, n name, registry *sysregistriesv2.Registry) error {
	registry.Mirrors = slices.Clone(registry.Mirrors)
	for i := range registry.Mirrors {
		mirror := &registry.Mirrors[i]
		there, err := rewrite(n, registry.Prefix, mirror.Location)
		if err != nil {
			return err
		}

		insecure, err := c.insecure(sys, there)
		if err != nil {
			return err
		}

		mirror.Insecure = mirror.Insecure || insecure
	}

	return nil
}

// registriesConf writes one entry in the form of registries.conf.
func registriesConf(registry *sysregistriesv2.Registry, helpers []string) []byte {
	var b strings.Builder
	quoted := make([]string, 0, len(helpers))
	for _, helper := range helpers {
		quoted = append(quoted, fmt.Sprintf("%q", helper))
	}

	fmt.Fprintf(&b, "credential-helpers = [%s]\n", strings.Join(quoted, ", "))
	fmt.Fprintf(&b, "[[registry]]\nprefix = %q\nlocation = %q\ninsecure = %t\nblocked = %t\n",
		registry.Prefix, registry.Location, registry.Insecure, registry.Blocked)
	for _, mirror := range mirrorsOf(registry) {
		fmt.Fprintf(&b, "[[registry.mirror]]\nlocation = %q\ninsecure = %t\npull-from-mirror = %q\n",
			mirror.Location, mirror.Insecure, mirror.PullFromMirror)
	}

	return []byte(b.String())
}
