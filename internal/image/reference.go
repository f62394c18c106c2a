package image

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/opencontainers/go-digest"
	"go.podman.io/image/v5/docker/reference"
)

// maxReference is far above what registries accept (a name of 255 characters, a tag of
// 128, a digest of 135).
const maxReference = 1024

// name is a reference in its parts. It has a digest or a tag.
type name struct {
	domain string // host[:port]; an IPv6 address stands in brackets
	path   string
	tag    string
	digest digest.Digest
}

// repository is the name without tag and digest.
func (n name) repository() string { return n.domain + "/" + n.path }

// String returns the reference.
func (n name) String() string {
	if n.digest != "" {
		return n.repository() + "@" + n.digest.String()
	}
	return n.repository() + ":" + n.tag
}

// version is what a registry is asked for: the digest, or the tag.
func (n name) version() string {
	if n.digest != "" {
		return n.digest.String()
	}
	return n.tag
}

// at returns the name with another version.
func (n name) at(d digest.Digest) name {
	n.tag, n.digest = "", d
	return n
}

// parseReference reads a reference such as quay.io/org/name:tag or name@sha256:…. A name
// without registry is one of docker.io, one without tag and digest means the tag latest,
// and of a reference with both a tag and a digest the digest counts.
func parseReference(ref string) (name, error) {
	if len(ref) > maxReference {
		return name{}, faultf(KindInvalid, "the reference has %d characters, at most %d are read", len(ref), maxReference)
	}

	host, rest, err := cutIPv6(ref)
	if err != nil {
		return name{}, err
	}
	if host != "" {
		rest = "ipv6.invalid/" + rest // The library knows no IPv6 addresses.
	}

	named, err := reference.ParseNormalizedNamed(rest)
	if err != nil {
		return name{}, faultf(KindInvalid, "%w; write it as registry/repository:tag or registry/repository@sha256:digest", err)
	}

	n := name{domain: reference.Domain(named), path: reference.Path(named)}
	if host != "" {
		n.domain = host
	}
	// The library takes a first part with a point for a registry, and then leaves it in the
	// path if it can be none.
	if n.domain == "" {
		registry, _, _ := strings.Cut(ref, "/")
		return name{}, faultf(KindInvalid, "%q is no name of a registry; write it as registry/repository:tag or registry/repository@sha256:digest", registry)
	}

	if digested, ok := named.(reference.Digested); ok {
		if algorithm := digested.Digest().Algorithm(); !algorithm.Available() {
			return name{}, faultf(KindInvalid, "the digest algorithm %s is not known; use sha256", algorithm)
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

// cutIPv6 splits a registry such as [::1] or [2001:db8::1]:5000 from a reference. The host
// is empty when there is none.
func cutIPv6(ref string) (host, rest string, err error) {
	if !strings.HasPrefix(ref, "[") {
		return "", ref, nil
	}

	host, rest, _ = strings.Cut(ref, "/")
	address, port, bracket := strings.Cut(host[1:], "]")
	ip, err := netip.ParseAddr(address)
	valid := err == nil && bracket && ip.Is6() && ip.Zone() == ""
	if number, ok := strings.CutPrefix(port, ":"); ok {
		_, err := strconv.ParseUint(number, 10, 16)
		valid = valid && err == nil
	} else {
		valid = valid && port == ""
	}

	if !valid {
		return "", "", faultf(KindInvalid, "its registry is no IPv6 address in brackets; write it as [2001:db8::1]:5000")
	}

	return host, rest, nil
}

// IsCanonical reports whether a reference names an image by digest, so that it can never
// mean another image.
func IsCanonical(ref string) bool {
	n, err := parseReference(ref)
	return err == nil && n.digest != ""
}

// RegistryOf returns the host, with the port if there is one, of the registry that a
// reference names, before any mirror. It is empty for an invalid reference.
func RegistryOf(ref string) string {
	n, err := parseReference(ref)
	if err != nil {
		return ""
	}
	return n.domain
}
