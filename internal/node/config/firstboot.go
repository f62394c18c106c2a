package config

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
)

// UnknownVersion is the version of a machine that does not state which versions of the Ignition specification it reads.
const UnknownVersion = -1

// VersionError reports that a machine reads only versions of the Ignition specification that lack features of its
// configuration. The numbers are minor versions of specification 3.
type VersionError struct{ Newest, Needed int }

// Error implements error.
func (e *VersionError) Error() string {
	return fmt.Sprintf("the machine reads Ignition configurations up to version %s, and this one needs %s", versionName(e.Newest), versionName(e.Needed))
}

func versionName(minor int) string { return fmt.Sprintf("3.%d.0", minor) }

// FirstBoot returns the configuration that Ignition applies at the first boot of a new machine: the rendered configuration of its
// pool, a file with the annotations of its node, and additional files, which are a map of paths to contents. Only root can
// read the added files. They never replace a file of the rendered configuration.
//
// newest is the newest minor version of specification 3 that the machine reads. For UnknownVersion, FirstBoot returns the oldest
// version that has all used features. It returns a *VersionError if the machine reads only older versions.
func FirstBoot(rendered *mcfgv1.MachineConfig, newest int, additional map[string][]byte) ([]byte, error) {
	if err := CheckName(rendered); err != nil {
		return nil, err
	}

	c, err := Parse(rendered.Spec.Config.Raw)
	if err != nil {
		return nil, fmt.Errorf("MachineConfig %q: %w", rendered.Name, err)
	}

	needed := c.oldestVersion()
	if newest == UnknownVersion {
		newest = needed
	}
	if newest < needed {
		return nil, &VersionError{Newest: newest, Needed: needed}
	}

	c.Ignition.Version = versionName(min(newest, lastMinor))
	annotations, err := json.Marshal(map[string]string{
		mcfgv1.AnnotationCurrentConfig: rendered.Name, mcfgv1.AnnotationDesiredConfig: rendered.Name,
		mcfgv1.AnnotationState: string(mcfgv1.NodeDone),
	})
	if err != nil {
		return nil, fmt.Errorf("writing the annotations of the node: %w", err)
	}

	added := maps.Clone(additional)
	if added == nil {
		added = map[string][]byte{}
	}

	added[AnnotationsFile] = annotations
	for _, p := range slices.Sorted(maps.Keys(added)) {
		if !slices.ContainsFunc(c.Storage.Files, func(f File) bool { return f.Path == p }) {
			c.Storage.Files = append(c.Storage.Files, newRootFile(p, added[p]))
		}
	}

	return c.MarshalCanonical()
}

// newRootFile returns a file that only root can read.
func newRootFile(p string, content []byte) File {
	source, mode, overwrite := "data:;base64,"+base64.StdEncoding.EncodeToString(content), 0o600, true
	return File{Path: p, Contents: &Resource{Source: &source}, Mode: &mode, Overwrite: &overwrite}
}

// FirstBootName returns the name of the configuration that the first boot of a machine has applied. data is the content of its
// AnnotationsFile.
func FirstBootName(data []byte) (string, error) {
	var annotations map[string]string
	if err := json.Unmarshal(data, &annotations); err != nil {
		return "", fmt.Errorf("reading %s: %w", AnnotationsFile, err)
	}
	return annotations[mcfgv1.AnnotationCurrentConfig], nil
}

// oldestVersion returns the oldest minor version of specification 3 that has all features that a configuration uses.
func (c *Ignition) oldestVersion() int {
	has := func(objects []map[string]any, fields ...string) bool {
		return slices.ContainsFunc(objects, func(object map[string]any) bool {
			return slices.ContainsFunc(fields, func(field string) bool { return object[field] != nil })
		})
	}

	switch {
	case has(c.Storage.Luks, "cex"):
		return 5
	case has(c.Storage.Luks, "discard", "openOptions"), hasSpecialMode(c):
		return 4
	case len(c.KernelArguments) > 0:
		return 3
	case len(c.Storage.Luks) > 0, has(c.Passwd.Groups, "shouldExist"),
		slices.ContainsFunc(c.Passwd.Users, func(u User) bool { return u.ShouldExist != nil }):
		return 2
	case len(c.Ignition.Proxy) > 0, has(c.Storage.Filesystems, "mountOptions"), slices.ContainsFunc(c.Storage.Files, hasSHA256):
		return 1
	}

	return 0
}

// hasSpecialMode reports whether a file or directory has the setuid, setgid or sticky bit.
func hasSpecialMode(c *Ignition) bool {
	return slices.ContainsFunc(c.Storage.Files, func(f File) bool { return f.Permissions() > 0o777 }) ||
		slices.ContainsFunc(c.Storage.Directories, func(d map[string]any) bool {
			mode, ok := d["mode"].(int64)
			return ok && mode > 0o777
		})
}

// hasSHA256 reports whether the checksum of a file is one of SHA-256.
func hasSHA256(f File) bool {
	if f.Contents == nil {
		return false
	}
	hash, _ := f.Contents.Verification["hash"].(string)
	return strings.HasPrefix(hash, "sha256-")
}
