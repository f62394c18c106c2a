package image

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
)

// maxReferenceLength is the length of the longest reference that is parsed. It is far above
// what registries accept (a name of 255 characters, a tag of 128, a digest of 135).
const maxReferenceLength = 1024

// ExampleReference is a valid reference, for errors about others.
const ExampleReference = "registry.example.com/team/image:v1"

// imageReference is a parsed reference. It has either a digest or a tag.
type imageReference struct {
	domain string // host[:port]; an IPv6 address is in brackets
	path   string
	tag    string
	digest digest.Digest
}

// repository returns the reference without its tag and digest.
func (n imageReference) repository() string { return n.domain + "/" + n.path }

// String returns the reference as text.
func (n imageReference) String() string {
	if n.digest != "" {
		return n.repository() + "@" + n.digest.String()
	}
	return n.repository() + ":" + n.tag
}

// tagOrDigest returns what a manifest is requested by: the digest, or else the tag.
func (n imageReference) tagOrDigest() string {
	if n.digest != "" {
		return n.digest.String()
	}
	return n.tag
}

// withDigest returns the reference with d in place of its tag or digest.
func (n imageReference) withDigest(d digest.Digest) imageReference {
	n.tag, n.digest = "", d
	return n
}

// parseReference parses a reference such as quay.io/org/name:tag or name@sha256:…. A name
// without a registry is a name of docker.io. Without a tag and a digest, the tag is latest.
// The digest wins when a reference has both a tag and a digest.
func parseReference(ref string) (imageReference, error) {
	if len(ref) > maxReferenceLength {
		return imageReference{}, kindErrorf(KindInvalid, "the reference has %d characters, at most %d are read", len(ref), maxReferenceLength)
	}

	if err := checkIPv6Registry(ref); err != nil {
		return imageReference{}, err
	}

	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return imageReference{}, kindErrorf(KindInvalid, "%w; a valid reference is %s", err, ExampleReference)
	}

	n := imageReference{domain: reference.Domain(named), path: reference.Path(named)}
	// The library takes a first part with a dot for a registry, and then leaves it in the
	// path if it is not a valid one.
	if n.domain == "" {
		registry, _, _ := strings.Cut(ref, "/")
		return imageReference{}, kindErrorf(KindInvalid, "%q is not a registry name; a valid reference is %s", registry, ExampleReference)
	}

	if digested, ok := named.(reference.Digested); ok {
		if algorithm := digested.Digest().Algorithm(); !algorithm.Available() {
			return imageReference{}, kindErrorf(KindInvalid, "the digest algorithm %s is not known; use sha256", algorithm)
		}
		n.digest = digested.Digest()
		return n, nil
	}

	n.tag = "latest"
	if tagged, ok := named.(reference.Tagged); ok {
		n.tag = tagged.Tag()
	}

	return n, nil
}

// checkIPv6Registry returns an error if a reference begins with a bracket, but not with a
// registry such as [::1] or [2001:db8::1]:5000. The library accepts any hexadecimal digits
// and colons as the address.
func checkIPv6Registry(ref string) error {
	if !strings.HasPrefix(ref, "[") {
		return nil
	}

	registry, _, _ := strings.Cut(ref, "/")
	address, port, bracket := strings.Cut(registry[1:], "]")
	ip, err := netip.ParseAddr(address)
	valid := err == nil && bracket && ip.Is6() && ip.Zone() == ""
	if number, ok := strings.CutPrefix(port, ":"); ok {
		_, err := strconv.ParseUint(number, 10, 16)
		valid = valid && err == nil
	} else {
		valid = valid && port == ""
	}

	if !valid {
		return kindErrorf(KindInvalid, "its registry is not an IPv6 address in brackets; write it as [2001:db8::1]:5000")
	}

	return nil
}

// IsCanonical reports whether a reference names an image by digest, so that it always means
// the same image.
func IsCanonical(ref string) bool {
	n, err := parseReference(ref)
	return err == nil && n.digest != ""
}

// RegistryOf returns the host, with the port if there is one, of the registry that a
// reference names. Mirrors are not considered. It is empty for an invalid reference.
func RegistryOf(ref string) string {
	n, err := parseReference(ref)
	if err != nil {
		return ""
	}
	return n.domain
}
