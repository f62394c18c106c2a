package template

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/blang/semver/v4"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// semverChannel is a channel that is generated from versions.
type semverChannel struct {
	name string
	kind string
	// rank is higher for more stable archetypes.
	rank int
	// lowest is the lowest version of the channel.
	lowest  semver.Version
	entries []fbc.ChannelEntry
}

// generateChannels generates the channels of a package, sorted by name, and returns the name of
// the default channel. The versions of each archetype must be in ascending order.
func (t *semverTemplate) generateChannels(pkg string, versions map[string][]bundleVersion) ([]fbc.Channel, string) {
	var generated []*semverChannel
	for rank, archetype := range archetypes {
		if t.GenerateMajorChannels {
			generated = append(generated, generateChannelsOfKind(rank, majorKind, versions[archetype])...)
		}
		if t.GenerateMinorChannels {
			generated = append(generated, generateChannelsOfKind(rank, minorKind, versions[archetype])...)
		}
	}

	if len(generated) == 0 {
		return nil, ""
	}

	byDefault := slices.MaxFunc(generated, t.compareDefaultPreference)
	slices.SortFunc(generated, func(a, b *semverChannel) int { return strings.Compare(a.name, b.name) })
	var channels []fbc.Channel
	for _, channel := range generated {
		channels = append(channels, fbc.Channel{Schema: fbc.SchemaChannel, Package: pkg, Name: channel.name, Entries: channel.entries})
	}

	return channels, byDefault.name
}

// compareDefaultPreference orders channels by their suitability as the default channel: by
// archetype, by lowest version, and by kind. The preference of the template only affects the last
// criterion. If there is more than one minor channel, the newest one is therefore the default
// even if major channels are preferred. opm behaves the same way.
func (t *semverTemplate) compareDefaultPreference(a, b *semverChannel) int {
	preferred := func(c *semverChannel) int {
		switch c.kind {
		case t.DefaultChannelTypePreference:
			return 2
		case minorKind:
			return 1
		}
		return 0
	}

	return cmp.Or(cmp.Compare(a.rank, b.rank), a.lowest.Compare(b.lowest), cmp.Compare(preferred(a), preferred(b)))
}

// generateChannelsOfKind generates the channels of one kind of an archetype.
//
// Only the highest patch of each minor version has edges. It replaces the highest patch of the
// previous minor version and skips all other lower versions. Edges never cross a major version. A
// minor channel has the same edges, although the replaced bundle is in another channel.
func generateChannelsOfKind(rank int, kind string, versions []bundleVersion) []*semverChannel {
	var channels []*semverChannel
	// replaces is the highest patch of the previous minor version. below are all lower
	// bundles of the same major version.
	replaces, below := "", map[string]bool{}
	for i, v := range versions {
		entry := fbc.ChannelEntry{Name: v.name}
		sameMajor := i+1 < len(versions) && versions[i+1].version.Major == v.version.Major
		sameMinor := sameMajor && versions[i+1].version.Minor == v.version.Minor
		if !sameMinor {
			entry.Replaces = replaces
			delete(below, replaces)
			entry.Skips = slices.Sorted(maps.Keys(below))
			if replaces != "" {
				below[replaces] = true
			}
		}

		switch {
		case !sameMajor:
			replaces, below = "", map[string]bool{}
		case !sameMinor:
			replaces = v.name
			below[v.name] = true
		default:
			below[v.name] = true
		}

		name := formatChannelName(rank, kind, v.version)
		if last := len(channels) - 1; last < 0 || channels[last].name != name {
			channels = append(channels, &semverChannel{name: name, kind: kind, rank: rank, lowest: v.version})
		}

		last := channels[len(channels)-1]
		last.entries = append(last.entries, entry)
	}

	return channels
}

func formatChannelName(rank int, kind string, v semver.Version) string {
	if kind == majorKind {
		return fmt.Sprintf("%s-v%d", archetypes[rank], v.Major)
	}
	return fmt.Sprintf("%s-v%d.%d", archetypes[rank], v.Major, v.Minor)
}

// readPresentation returns the description and the first icon of a bundle's
// ClusterServiceVersion. Either may be empty.
func readPresentation(csv []byte, bundle *fbc.Bundle) (string, *fbc.Icon) {
	if csv == nil {
		csv = findClusterServiceVersion(bundle)
	}

	var content struct {
		Spec struct {
			Description string `json:"description"`
			Icon        []struct {
				Data      string `json:"base64data"`
				MediaType string `json:"mediatype"`
			} `json:"icon"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(csv, &content); err != nil || len(content.Spec.Icon) == 0 {
		return content.Spec.Description, nil
	}

	icon := content.Spec.Icon[0]
	data, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(icon.Data), ""))
	if err != nil || len(data) == 0 {
		return content.Spec.Description, nil
	}

	return content.Spec.Description, &fbc.Icon{Data: data, MediaType: icon.MediaType}
}

// findClusterServiceVersion returns the ClusterServiceVersion among the objects of a bundle, or
// nil.
func findClusterServiceVersion(bundle *fbc.Bundle) []byte {
	for _, p := range bundle.Properties {
		if p.Type != fbc.PropertyBundleObject {
			continue
		}
		var object struct {
			Data []byte `json:"data"`
		}
		var manifest struct {
			Kind string `json:"kind"`
		}
		if json.Unmarshal(p.Value, &object) == nil && json.Unmarshal(object.Data, &manifest) == nil && manifest.Kind == "ClusterServiceVersion" {
			return object.Data
		}
	}

	return nil
}
