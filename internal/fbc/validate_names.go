package fbc

import (
	"errors"
	"fmt"
	"strings"
)

func isLowerAlphanumeric(c byte) bool { return 'a' <= c && c <= 'z' || isDecimalDigit(c) }
func isDecimalDigit(c byte) bool      { return '0' <= c && c <= '9' }
func isAlphanumeric(c byte) bool      { return isLowerAlphanumeric(c) || 'A' <= c && c <= 'Z' }
func isHexDigit(c byte) bool          { return isDecimalDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' }
func isTagCharacter(c byte) bool      { return isAlphanumeric(c) || c == '_' || c == '.' || c == '-' }

// Errors of image references, with the texts of github.com/distribution/reference.
var (
	errReference         = errors.New("invalid reference format")
	errUppercase         = errors.New("repository name must be lowercase")
	errRepositoryTooLong = errors.New("repository name must not be more than 255 characters")
	errDigestFormat      = errors.New("invalid checksum digest format")
	errDigestLength      = errors.New("invalid checksum digest length")
	errDigestAlgorithm   = errors.New("unsupported digest algorithm")
)

const (
	dockerHub           = "docker.io"
	maxRepositoryLength = 255
	maxTagLength        = 128
	minDigestLength     = 32
)

// digestLengths are the lengths of supported digests, in hex digits.
var digestLengths = map[string]int{"sha256": 64, "sha384": 96, "sha512": 128}

// checkImagePullSpec returns an error if text is not an image reference:
// [host[:port]/]path[:tag][@digest]. It returns the errors of ParseNormalizedNamed of
// github.com/distribution/reference, and a test compares both. That function needs regular
// expressions: 0.7 ms at program start, and 3 µs for each of the tens of thousands of images of
// a catalog.
func checkImagePullSpec(text string) error {
	if len(text) == 64 && strings.Trim(text, "0123456789abcdef") == "" {
		return fmt.Errorf("invalid repository name (%s), cannot specify 64-byte hexadecimal strings", text)
	}

	full, remainder := splitRegistry(text)
	name, _, _ := strings.Cut(remainder, ":")
	if strings.ToLower(name) != name {
		return fmt.Errorf("invalid reference format: repository name (%s) must be lowercase", name)
	}

	path, digest, ok := parseImageReference(full)
	switch {
	case !ok:
		if lower := strings.ToLower(full); lower != full {
			if _, _, ok := parseImageReference(lower); ok {
				return errUppercase
			}
		}
		return errReference
	case len(path) > maxRepositoryLength:
		return errRepositoryTooLong
	case digest != "":
		return checkDigestFormat(digest)
	}

	return nil
}

// splitRegistry returns an image reference with its registry, and the part after the registry. A
// name without a registry is on Docker Hub.
func splitRegistry(text string) (full, remainder string) {
	first, rest, ok := strings.Cut(text, "/")
	if !ok {
		return dockerHub + "/library/" + text, "library/" + text
	}

	switch {
	case first == dockerHub, first == "index."+dockerHub:
		remainder = rest
	case first == "localhost", strings.ContainsAny(first, ".:"), strings.ToLower(first) != first:
		return text, rest
	default:
		remainder = text
	}

	if !strings.Contains(remainder, "/") {
		remainder = "library/" + remainder
	}

	return dockerHub + "/" + remainder, remainder
}

// parseImageReference returns the path and the digest of host/path[:tag][@digest]. If the first
// element cannot be a host it belongs to the path. It returns false if the text is not a
// reference.
func parseImageReference(text string) (path, digest string, ok bool) {
	rest := text
	if host, after, found := strings.Cut(text, "/"); found && isRegistryHost(host) {
		rest = after
	}

	path = rest
	if end := strings.IndexAny(rest, ":@"); end >= 0 {
		path, rest = rest[:end], rest[end:]
	} else {
		rest = ""
	}

	for component := range strings.SplitSeq(path, "/") {
		if !isPathComponent(component) {
			return "", "", false
		}
	}

	rest, digest, hasDigest := strings.Cut(rest, "@")
	if hasDigest && !hasDigestFormat(digest) {
		return "", "", false
	}
	if rest != "" && !isColonAndTag(rest) {
		return "", "", false
	}

	return path, digest, true
}

// isRegistryHost reports whether a text is a host name or an IP address, with or without a port.
func isRegistryHost(text string) bool {
	if strings.HasPrefix(text, "[") {
		address, port, ok := strings.Cut(text[1:], "]")
		return ok && address != "" && everyByteMatches(address, func(c byte) bool { return isHexDigit(c) || c == ':' }) && (port == "" || isColonAndPort(port))
	}

	if colon := strings.IndexByte(text, ':'); colon >= 0 {
		if !isColonAndPort(text[colon:]) {
			return false
		}
		text = text[:colon]
	}

	for component := range strings.SplitSeq(text, ".") {
		if component == "" || component[0] == '-' || component[len(component)-1] == '-' ||
			!everyByteMatches(component, func(c byte) bool { return isAlphanumeric(c) || c == '-' }) {
			return false
		}
	}

	return true
}

func isColonAndPort(text string) bool {
	return len(text) > 1 && text[0] == ':' && everyByteMatches(text[1:], isDecimalDigit)
}

// isPathComponent reports whether a text consists of letters and digits with separators between
// them: a dot, one or two underscores, or any number of dashes.
func isPathComponent(text string) bool {
	if text == "" || !isLowerAlphanumeric(text[0]) || !isLowerAlphanumeric(text[len(text)-1]) {
		return false
	}

	for i := 0; i < len(text); {
		if isLowerAlphanumeric(text[i]) {
			i++
			continue
		}
		start := i
		for i < len(text) && !isLowerAlphanumeric(text[i]) {
			i++
		}
		switch separator := text[start:i]; {
		case separator == ".", separator == "_", separator == "__":
		case strings.Trim(separator, "-") == "":
		default:
			return false
		}
	}

	return true
}

// isColonAndTag reports whether a text is a colon followed by a tag.
func isColonAndTag(text string) bool {
	if len(text) < 2 || len(text) > 1+maxTagLength || text[0] != ':' {
		return false
	}
	return text[1] != '.' && text[1] != '-' && everyByteMatches(text[1:], isTagCharacter)
}

// hasDigestFormat reports whether a text has the format of a digest of any algorithm.
func hasDigestFormat(text string) bool {
	algorithm, hex, ok := strings.Cut(text, ":")
	if !ok || len(hex) < minDigestLength || !everyByteMatches(hex, isHexDigit) {
		return false
	}

	begins := true // The next part of the algorithm's name begins here; it starts with a letter.
	for i := range len(algorithm) {
		switch c := algorithm[i]; {
		case begins:
			if !isAlphanumeric(c) || isDecimalDigit(c) {
				return false
			}
			begins = false
		case strings.IndexByte("-_+.", c) >= 0:
			begins = true
		case !isAlphanumeric(c):
			return false
		}
	}

	return !begins
}

// checkDigestFormat returns an error if a text in the format of a digest has an unsupported
// algorithm or the wrong length.
func checkDigestFormat(digest string) error {
	algorithm, hex, _ := strings.Cut(digest, ":")
	length, known := digestLengths[algorithm]
	switch {
	case !known && strings.ToLower(algorithm) != algorithm:
		return errDigestFormat
	case !known:
		return errDigestAlgorithm
	case len(hex) != length:
		return errDigestLength
	case strings.ToLower(hex) != hex:
		return errDigestFormat
	}

	return nil
}

func everyByteMatches(text string, is func(byte) bool) bool {
	for i := range len(text) {
		if !is(text[i]) {
			return false
		}
	}
	return true
}
