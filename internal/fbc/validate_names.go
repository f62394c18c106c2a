package fbc

import (
	"errors"
	"fmt"
	"strings"
)

// maxLabel is the longest name of a package, in bytes: that of a label in the DNS.
const maxLabel = 63

// labelFaults says why a name cannot be a label in the DNS (RFC 1123), as Kubernetes says
// it. The rules are those of k8s.io/apimachinery/pkg/util/validation, a test compares;
// its regular expressions are not worth their start.
func labelFaults(name string) []string {
	var faults []string
	if len(name) > maxLabel {
		faults = append(faults, fmt.Sprintf("must be no more than %d characters", maxLabel))
	}
	if isLabel(name) {
		return faults
	}

	for label := range strings.SplitSeq(name, ".") {
		if !isLabel(label) {
			return append(faults, "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character "+
				"(e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')")
		}
	}

	return append(faults, "must not contain dots")
}

func isLabel(name string) bool {
	for i := range len(name) {
		if c := name[i]; !isLower(c) && (c != '-' || i == 0 || i == len(name)-1) {
			return false
		}
	}
	return name != ""
}

func isLower(c byte) bool    { return 'a' <= c && c <= 'z' || isDecimal(c) }
func isDecimal(c byte) bool  { return '0' <= c && c <= '9' }
func isAlphanum(c byte) bool { return isLower(c) || 'A' <= c && c <= 'Z' }
func isHex(c byte) bool      { return isDecimal(c) || 'a' <= c|0x20 && c|0x20 <= 'f' }
func isTag(c byte) bool      { return isAlphanum(c) || c == '_' || c == '.' || c == '-' }

// What is wrong with a reference of an image, in the words of those who define it.
var (
	errReference       = errors.New("invalid reference format")
	errUppercase       = errors.New("repository name must be lowercase")
	errRepositoryLong  = errors.New("repository name must not be more than 255 characters")
	errDigestFormat    = errors.New("invalid checksum digest format")
	errDigestLength    = errors.New("invalid checksum digest length")
	errDigestAlgorithm = errors.New("unsupported digest algorithm")
)

const (
	dockerHub     = "docker.io"
	maxRepository = 255
	maxTag        = 128
	minDigest     = 32
)

// digestLengths are the lengths of the digests that can be verified, in hex digits.
var digestLengths = map[string]int{"sha256": 64, "sha384": 96, "sha512": 128}

// checkPullSpec reports whether a text names an image: [host[:port]/]path[:tag][@digest].
// It says what ParseNormalizedNamed of github.com/distribution/reference says, a test
// compares. That needs regular expressions: 0.7 ms when a program starts, and 3 µs for
// each of the tens of thousands of images of a catalog.
func checkPullSpec(text string) error {
	if len(text) == 64 && strings.Trim(text, "0123456789abcdef") == "" {
		return fmt.Errorf("invalid repository name (%s), cannot specify 64-byte hexadecimal strings", text)
	}

	full, remainder := withDomain(text)
	name, _, _ := strings.Cut(remainder, ":")
	if strings.ToLower(name) != name {
		return fmt.Errorf("invalid reference format: repository name (%s) must be lowercase", name)
	}

	path, digest, ok := parseReference(full)
	switch {
	case !ok:
		if lower := strings.ToLower(full); lower != full {
			if _, _, ok := parseReference(lower); ok {
				return errUppercase
			}
		}
		return errReference
	case len(path) > maxRepository:
		return errRepositoryLong
	case digest != "":
		return checkDigest(digest)
	}

	return nil
}

// withDomain returns the reference of an image with its registry, and what of it is behind
// the registry. A name that has none is on Docker Hub.
func withDomain(text string) (full, remainder string) {
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

// parseReference returns the path and the digest of host/path[:tag][@digest]. If the first
// element cannot be a host it belongs to the path.
func parseReference(text string) (path, digest string, ok bool) {
	rest := text
	if host, after, found := strings.Cut(text, "/"); found && isHost(host) {
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
	if hasDigest && !isDigestLike(digest) {
		return "", "", false
	}
	if rest != "" && !isTagged(rest) {
		return "", "", false
	}

	return path, digest, true
}

// isHost reports whether a text is a name or an address, with a port or not.
func isHost(text string) bool {
	if strings.HasPrefix(text, "[") {
		address, port, ok := strings.Cut(text[1:], "]")
		return ok && address != "" && every(address, func(c byte) bool { return isHex(c) || c == ':' }) && (port == "" || isPort(port))
	}

	if colon := strings.IndexByte(text, ':'); colon >= 0 {
		if !isPort(text[colon:]) {
			return false
		}
		text = text[:colon]
	}

	for component := range strings.SplitSeq(text, ".") {
		if component == "" || component[0] == '-' || component[len(component)-1] == '-' ||
			!every(component, func(c byte) bool { return isAlphanum(c) || c == '-' }) {
			return false
		}
	}

	return true
}

func isPort(text string) bool {
	return len(text) > 1 && text[0] == ':' && every(text[1:], isDecimal)
}

// isPathComponent reports whether a text is letters and digits with separators between
// them: a dot, one or two underscores, or any number of dashes.
func isPathComponent(text string) bool {
	if text == "" || !isLower(text[0]) || !isLower(text[len(text)-1]) {
		return false
	}

	for i := 0; i < len(text); {
		if isLower(text[i]) {
			i++
			continue
		}
		start := i
		for i < len(text) && !isLower(text[i]) {
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

// isTagged reports whether a text is a colon and a tag.
func isTagged(text string) bool {
	if len(text) < 2 || len(text) > 1+maxTag || text[0] != ':' {
		return false
	}
	return text[1] != '.' && text[1] != '-' && every(text[1:], isTag)
}

// isDigestLike reports whether a text has the form of a digest of any algorithm.
func isDigestLike(text string) bool {
	algorithm, hex, ok := strings.Cut(text, ":")
	if !ok || len(hex) < minDigest || !every(hex, isHex) {
		return false
	}

	begins := true // a part of the name of the algorithm, with a letter
	for i := range len(algorithm) {
		switch c := algorithm[i]; {
		case begins:
			if !isAlphanum(c) || isDecimal(c) {
				return false
			}
			begins = false
		case strings.IndexByte("-_+.", c) >= 0:
			begins = true
		case !isAlphanum(c):
			return false
		}
	}

	return !begins
}

// checkDigest checks a text that has the form of a digest.
func checkDigest(digest string) error {
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

func every(text string, is func(byte) bool) bool {
	for i := range len(text) {
		if !is(text[i]) {
			return false
		}
	}
	return true
}
