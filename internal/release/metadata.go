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
	// MetadataURL is the URL of a page about the release.
	MetadataURL = "url"
	// MetadataArchitecture is "multi" for a multi-architecture release.
	MetadataArchitecture = "release.openshift.io/architecture"
	// MetadataChannels is the comma-separated list of the release's channels.
	MetadataChannels = "io.openshift.upgrades.graph.release.channels"
)

// ArchitectureMulti is the architecture of a multi-architecture release, and MultiArchitecture
// its value in the metadata.
const (
	ArchitectureMulti = "Multi"
	MultiArchitecture = "multi"
)

// Metadata is the metadata of a release.
type Metadata struct {
	// Kind is KindMetadata.
	Kind string `json:"kind"`
	// Version is the semantic version of the release.
	Version string `json:"version"`
	// Previous are the versions from which a cluster may be updated to this one.
	Previous []string `json:"previous,omitempty"`
	// Next are the versions to which a cluster may be updated from this one.
	Next []string `json:"next,omitempty"`
	// Metadata are additional values by key. Unknown keys are kept.
	Metadata map[string]string `json:"metadata,omitempty"`
}

// ParseMetadata parses and validates release-metadata. Its error joins all problems.
func ParseMetadata(data []byte) (Metadata, error) {
	var m Metadata
	if err := decodeJSON(data, &m); err != nil {
		return Metadata{}, err
	}
	return m, m.Check()
}

// decodeJSON decodes a JSON document of limited size.
func decodeJSON(data []byte, into any) error {
	if len(data) > maxMetadataBytes {
		return fmt.Errorf("is larger than the %d bytes that it may have", maxMetadataBytes)
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, into); err != nil {
		return fmt.Errorf("cannot be read as JSON: %w", describeJSONError(err))
	}
	return nil
}

// decodeYAML decodes a JSON or YAML document of limited size. Text that starts like JSON is
// decoded as JSON.
func decodeYAML(data []byte, into any) error {
	text := bytes.TrimSpace(data)
	isJSON := bytes.HasPrefix(text, []byte("{")) || bytes.HasPrefix(text, []byte("["))
	if isJSON || len(data) > maxMetadataBytes {
		return decodeJSON(data, into)
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
		return fmt.Errorf("cannot be read as YAML: %w", describeJSONError(err))
	}

	return nil
}

// describeJSONError returns the path of a value with the wrong type, without names of Go types.
func describeJSONError(err error) error {
	typeErr := (*json.UnmarshalTypeError)(nil)
	switch {
	case !errors.As(err, &typeErr):
		return err
	case typeErr.Field == "":
		return fmt.Errorf("is a JSON %s, not a JSON object", typeErr.Value)
	default:
		return fmt.Errorf("%s must not be a JSON %s", typeErr.Field, typeErr.Value)
	}
}

// Check joins all errors of the metadata.
func (m Metadata) Check() error {
	var errs []error
	if m.Kind != KindMetadata {
		errs = append(errs, fmt.Errorf("kind must be %q, not %q", KindMetadata, m.Kind))
	}
	if _, err := semver.Parse(m.Version); err != nil {
		errs = append(errs, fmt.Errorf("version %q is not a semantic version: %w", m.Version, err))
	}

	for _, edges := range []struct {
		field    string
		versions []string
	}{{"previous", m.Previous}, {"next", m.Next}} {
		for i, version := range edges.versions {
			if _, err := semver.Parse(version); err != nil {
				errs = append(errs, fmt.Errorf("%s[%d] %q is not a semantic version: %w", edges.field, i, version, err))
			}
		}
	}

	return errors.Join(errs...)
}

// Encode encodes the metadata as release-metadata. Equal metadata has equal encodings.
func (m Metadata) Encode() ([]byte, error) {
	if err := m.Check(); err != nil {
		return nil, err
	}
	return encodeJSON(m)
}

func encodeJSON(value any) ([]byte, error) {
	data, err := json.MarshalIndent(value, "", "  ")
	return append(data, '\n'), err
}

// URL returns the URL of a page about the release; "" if the release states none.
func (m Metadata) URL() string { return m.Metadata[MetadataURL] }

// Channels returns the channels of the release, sorted.
func (m Metadata) Channels() []string {
	channels := splitCommaList(m.Metadata[MetadataChannels])
	slices.Sort(channels)
	return channels
}

// Architecture returns the architecture of the release: ArchitectureMulti, or otherwise process,
// which is the GOARCH value of the running process.
func (m Metadata) Architecture(process string) string {
	if m.Metadata[MetadataArchitecture] == MultiArchitecture {
		return ArchitectureMulti
	}
	return process
}
