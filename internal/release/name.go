package release

import (
	"regexp"
	"strconv"
)

// namePattern is what the name of a manifest begins with. A component is of words with
// dashes between them, so that the second underscore ends it.
var namePattern = regexp.MustCompile(`^0000_([0-9]+)_([a-zA-Z0-9]+(?:-[a-zA-Z0-9]+)*)_(.*)$`)

// extensionPattern is what the name of a file with manifests ends with.
var extensionPattern = regexp.MustCompile(`\.(?:yaml|yml|json)$`)

// FileName is the name of a file with manifests, 0000_<runlevel>_<component>_<name>.yaml,
// taken apart. It says when the manifests are applied.
type FileName struct {
	// Runlevel orders the manifests of an update: a lower one is complete before a higher
	// one begins.
	Runlevel int
	// Component owns the manifest. Components of one runlevel do not wait for each other.
	Component string
	// Name orders the manifests of a component. It has no extension.
	Name string
}

// ParseFileName takes a file name without folders apart. It is not ok when the name says
// neither runlevel nor component. Manifests of such a file are applied too: alone, in
// their place.
func ParseFileName(name string) (parsed FileName, ok bool) {
	match := namePattern.FindStringSubmatch(name)
	if match == nil {
		return FileName{}, false
	}

	runlevel, err := strconv.Atoi(match[1])
	if err != nil {
		return FileName{}, false
	}

	return FileName{Runlevel: runlevel, Component: match[2], Name: extensionPattern.ReplaceAllString(match[3], "")}, true
}

// IsManifestFile reports whether a file holds manifests, by the extension of its name:
// .yaml, .yml or .json. All other files are passed over.
func IsManifestFile(name string) bool { return extensionPattern.MatchString(name) }
