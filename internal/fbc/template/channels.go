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

// semverChannel is a channel that is made from versions.
type semverChannel struct {
	name string
	kind string
	// rank is higher for an archetype that is trusted more.
	rank int
	// lowest version of the channel.
	lowest  semver.Version
	entries []fbc.ChannelEntry
}

// channels makes the channels of a package, by name, from the versions of its archetypes,
// which are in ascending order. It tells which of them is the default.
func (t *semverTemplate) channels(pkg string, versions map[string][]version) ([]fbc.Channel, string) {
	var made []*semverChannel
	for rank, archetype := range archetypes {
		if t.GenerateMajorChannels {
			made = append(made, channelsOf(rank, majorKind, versions[archetype])...)
		}
		if t.GenerateMinorChannels {
			made = append(made, channelsOf(rank, minorKind, versions[archetype])...)
		}
	}

	if len(made) == 0 {
		return nil, ""
	}

	byDefault := slices.MaxFunc(made, t.preference)
	slices.SortFunc(made, func(a, b *semverChannel) int { return strings.Compare(a.name, b.name) })
	var channels []fbc.Channel
	for _, channel := range made {
		channels = append(channels, fbc.Channel{Schema: fbc.SchemaChannel, Package: pkg, Name: channel.name, Entries: channel.entries})
	}

	return channels, byDefault.name
}

// preference orders channels by how well they do as default: by their archetype, by their
// lowest version, and by their kind, of which the preference of the template comes only
// now. So the newest minor channel is the default, where there is more than one, even if
// major ones are preferred; this is how the field has it.
func (t *semverTemplate) preference(a, b *semverChannel) int {
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

// channelsOf makes the channels of one kind of an archetype.
//
// Only the highest patch of each minor version has edges: it replaces that of the minor
// version before, and skips all others below it. They never cross a major version. A
// channel of a minor version has the same edges, though what is replaced is in another.
func channelsOf(rank int, kind string, versions []version) []*semverChannel {
	var channels []*semverChannel
	// replaces is the highest patch of the minor version before, and below is everything
	// of this major version that came before.
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

		name := channelName(rank, kind, v.version)
		if last := len(channels) - 1; last < 0 || channels[last].name != name {
			channels = append(channels, &semverChannel{name: name, kind: kind, rank: rank, lowest: v.version})
		}

		last := channels[len(channels)-1]
		last.entries = append(last.entries, entry)
	}

	return channels
}

func channelName(rank int, kind string, v semver.Version) string {
	if kind == majorKind {
		return fmt.Sprintf("%s-v%d", archetypes[rank], v.Major)
	}
	return fmt.Sprintf("%s-v%d.%d", archetypes[rank], v.Major, v.Minor)
}

// presentation returns what a bundle's ClusterServiceVersion says to people: a description
// and the first icon, each if there is one.
func presentation(csv []byte, bundle *fbc.Bundle) (string, *fbc.Icon) {
	if csv == nil {
		csv = csvOf(bundle)
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

// csvOf finds the ClusterServiceVersion among a bundle's objects.
func csvOf(bundle *fbc.Bundle) []byte {
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
