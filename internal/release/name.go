package release

import (
	"regexp"
	"strconv"
)

// namePattern matches the name of a manifest file. A component consists of words with dashes
// between them, so it ends at the second underscore.
var namePattern = regexp.MustCompile(`^0000_([0-9]+)_([a-zA-Z0-9]+(?:-[a-zA-Z0-9]+)*)_(.*)$`)

// extensionPattern matches the extension of manifest files.
var extensionPattern = regexp.MustCompile(`\.(?:yaml|yml|json)$`)

// FileName is the parsed name of a manifest file, 0000_<runlevel>_<component>_<name>.yaml. It
// determines when the manifests are applied.
type FileName struct {
	// Runlevel orders the manifests of an update: a runlevel is complete before a higher one
	// starts.
	Runlevel int
	// Component is the owner of the manifest. Components of a runlevel do not wait for each
	// other.
	Component string
	// Name orders the manifests of a component. It has no extension.
	Name string
}

// ParseFileName parses a file name without directories. It returns false if the name states
// neither runlevel nor component. Manifests of such a file are also applied: alone, at their
// position.
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

// IsManifestFile reports whether a file contains manifests, by its extension: .yaml, .yml or
// .json. Other files are ignored.
func IsManifestFile(name string) bool { return extensionPattern.MatchString(name) }
