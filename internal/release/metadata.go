package release

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/blang/semver/v4"
	kjson "sigs.k8s.io/json"
)

// KindMetadata is the kind of release-metadata.
const KindMetadata = "cincinnati-metadata-v0"

// Keys of Metadata.Metadata.
const (
	// MetadataURL leads to a page about the release.
	MetadataURL = "url"
	// MetadataArchitecture is "multi" when the images of the release are for more than one
	// architecture.
	MetadataArchitecture = "release.openshift.io/architecture"
	// MetadataChannels lists, with commas, the channels that the release is in.
	MetadataChannels = "io.openshift.upgrades.graph.release.channels"
)

// ArchitectureMulti is the architecture of a release for more than one, and MultiArchitecture
// how its metadata says so.
const (
	ArchitectureMulti = "Multi"
	MultiArchitecture = "multi"
)

// Metadata is what a release says of itself.
type Metadata struct {
	// Kind is KindMetadata.
	Kind string `json:"kind"`
	// Version is the semantic version of the release.
	Version string `json:"version"`
	// Previous are the versions from which a cluster may be updated to this one.
	Previous []string `json:"previous,omitempty"`
	// Next are the versions to which a cluster may be updated from this one.
	Next []string `json:"next,omitempty"`
	// Metadata are further texts by their keys. Those that this program does not know are
	// kept.
	Metadata map[string]string `json:"metadata,omitempty"`
}

// ParseMetadata reads release-metadata and checks it. Its error joins all that is wrong.
func ParseMetadata(data []byte) (Metadata, error) {
	var m Metadata
	if err := decode(data, &m); err != nil {
		return Metadata{}, err
	}
	return m, m.Check()
}

// decode reads one JSON document of a bounded size.
func decode(data []byte, into any) error {
	if len(data) > maxMetadataBytes {
		return fmt.Errorf("is larger than the %d bytes that it may have", maxMetadataBytes)
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, into); err != nil {
		return fmt.Errorf("cannot be read as JSON: %w", readable(err))
	}
	return nil
}

// decodeYAML reads one document of a bounded size, in JSON or in YAML. Text that begins as JSON is
// read as JSON.
func decodeYAML(data []byte, into any) error {
	text := bytes.TrimSpace(data)
	isJSON := bytes.HasPrefix(text, []byte("{")) || bytes.HasPrefix(text, []byte("["))
	if isJSON || len(data) > maxMetadataBytes {
		return decode(data, into)
	}

	raw, err := yamlToJSON(data)
	switch {
	case err != nil:
		return fmt.Errorf("cannot be read as YAML: %w", err)
	case raw == nil:
		return errors.New("is empty")
	case len(raw) > maxFileBytes:
		return fmt.Errorf("is larger than the %d bytes that it may have, with its aliases replaced", maxFileBytes)
	}

	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, into); err != nil {
		return fmt.Errorf("cannot be read as YAML: %w", readable(err))
	}

	return nil
}

// readable says of a value of the wrong type where it stands, without the names of this
// program's types.
func readable(err error) error {
	wrong := (*json.UnmarshalTypeError)(nil)
	switch {
	case !errors.As(err, &wrong):
		return err
	case wrong.Field == "":
		return fmt.Errorf("is a JSON %s, not a JSON object", wrong.Value)
	default:
		return fmt.Errorf("%s must not be a JSON %s", wrong.Field, wrong.Value)
	}
}

// Check joins all that is wrong with the metadata.
func (m Metadata) Check() error {
	var wrong []error
	if m.Kind != KindMetadata {
		wrong = append(wrong, fmt.Errorf("kind must be %q, not %q", KindMetadata, m.Kind))
	}
	if _, err := semver.Parse(m.Version); err != nil {
		wrong = append(wrong, fmt.Errorf("version %q is no semantic version: %w", m.Version, err))
	}

	for _, edges := range []struct {
		field    string
		versions []string
	}{{"previous", m.Previous}, {"next", m.Next}} {
		for i, version := range edges.versions {
			if _, err := semver.Parse(version); err != nil {
				wrong = append(wrong, fmt.Errorf("%s[%d] %q is no semantic version: %w", edges.field, i, version, err))
			}
		}
	}

	return errors.Join(wrong...)
}

// Encode writes the metadata as release-metadata: equal metadata gives equal bytes.
func (m Metadata) Encode() ([]byte, error) {
	if err := m.Check(); err != nil {
		return nil, err
	}
	return encode(m)
}

func encode(value any) ([]byte, error) {
	data, err := json.MarshalIndent(value, "", "  ")
	return append(data, '\n'), err
}

// URL leads to a page about the release. It is empty when the release names none.
func (m Metadata) URL() string { return m.Metadata[MetadataURL] }

// Channels are those that the release is in, sorted.
func (m Metadata) Channels() []string {
	channels := list(m.Metadata[MetadataChannels])
	slices.Sort(channels)
	return channels
}

// Architecture is the release's architecture: ArchitectureMulti, or that of the running
// process, as Go names it, when the metadata says nothing else.
func (m Metadata) Architecture(process string) string {
	if m.Metadata[MetadataArchitecture] == MultiArchitecture {
		return ArchitectureMulti
	}
	return process
}
