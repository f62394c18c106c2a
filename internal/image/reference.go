package image

import (
	"go.podman.io/image/v5/docker/reference"
)

// maxReference is far above what registries accept (a name of 255 characters, a tag of
// 128, a digest of 135).
const maxReference = 1024

// parseReference reads a reference such as quay.io/org/name:tag or name@sha256:…. A name
// without registry is one of docker.io, one without tag and digest means the tag latest,
// and of a reference with both a tag and a digest the digest counts.
func parseReference(ref string) (reference.Named, error) {
	if len(ref) > maxReference {
		return nil, faultf(KindInvalid, "the reference has %d characters, at most %d are read", len(ref), maxReference)
	}
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return nil, faultf(KindInvalid, "%w; write it as registry/repository:tag or registry/repository@sha256:digest", err)
	}
	if digested, ok := named.(reference.Digested); ok {
		if algorithm := digested.Digest().Algorithm(); !algorithm.Available() {
			return nil, faultf(KindInvalid, "the digest algorithm %s is not known; use sha256", algorithm)
		}
		return reference.WithDigest(reference.TrimNamed(named), digested.Digest())
	}
	return reference.TagNameOnly(named), nil
}

// IsCanonical tells whether a reference names an image by digest, so that it can never
// mean another image.
func IsCanonical(ref string) bool {
	named, err := parseReference(ref)
	if err != nil {
		return false
	}
	_, ok := named.(reference.Digested)
	return ok
}
