package image

import (
	"path"
	"strings"
)

// imagePrefix is the path of what is unpacked of an image: "." or a clean path without leading slash.
type imagePrefix string

// pathInImage returns the path in the image for a path below the prefix.
func (p imagePrefix) pathInImage(rel string) string { return "/" + path.Join(string(p), rel) }

// pathBelowPrefix returns the path below the prefix for a path in the image, and whether it
// is there.
func (p imagePrefix) pathBelowPrefix(name string) (string, bool) {
	switch {
	case p == ".":
		return name, true
	case name == string(p):
		return ".", true
	}
	return strings.CutPrefix(name, string(p)+"/")
}

// isAbovePrefix reports whether a path in the image is a parent of the prefix.
func (p imagePrefix) isAbovePrefix(name string) bool {
	return p != "." && (name == "." || strings.HasPrefix(string(p), name+"/"))
}

// cleanEntryPath returns the path of an entry without leading "./" and trailing "/". It
// returns an error for paths that lead outside or exceed a limit.
func (l Limits) cleanEntryPath(name string) (string, error) {
	if len(name) > l.PathBytes {
		return "", contentErrorf("the path %.64q… has %d bytes, at most %d are accepted", name, len(name), l.PathBytes)
	}
	// Some builders write the root directory as "/".
	if name == "/" {
		return ".", nil
	}
	if path.IsAbs(name) || strings.ContainsRune(name, 0) {
		return "", contentErrorf("the path %q is not relative to the image's root", name)
	}

	elements := strings.Split(name, "/")
	if len(elements) > l.Depth {
		return "", contentErrorf("the path %.64q… has %d elements, at most %d are accepted", name, len(elements), l.Depth)
	}

	for _, element := range elements {
		if element == ".." {
			return "", contentErrorf("the path %q leads upwards", name)
		}
		if len(element) > 255 {
			return "", contentErrorf("the path %.64q… has an element of %d bytes, at most 255 are accepted", name, len(element))
		}
	}

	return path.Clean(name), nil
}
