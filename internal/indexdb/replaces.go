package indexdb

import (
	"fmt"
	"maps"
	"slices"

	"github.com/blang/semver/v4"
)

// planReplaces plans the channels of a package from the replaces and skips of its bundles.
// The head of a channel is its highest version. From there the replaced bundles follow,
// regardless of the channels that they name.
func planReplaces(pkg string, members map[string]*packageMember, indexDefault string) (*packagePlan, error) {
	rewritten, err := applySubstitutions(members)
	if err != nil {
		return nil, err
	}

	heads, defaultChannel, err := chooseChannelHeads(pkg, members, indexDefault)
	if err != nil {
		return nil, err
	}

	p := &packagePlan{defaultChannel: defaultChannel, channels: map[string][]channelRow{}, rewritten: rewritten}
	for _, channel := range slices.Sorted(maps.Keys(heads)) {
		rows, err := layOutChannel(heads[channel], func(name string) (updateEdges, bool) {
			m, found := members[name]
			if !found || m.deprecated {
				return updateEdges{}, found
			}
			return updateEdges{m.replaces, m.skips}, true
		})
		if err != nil {
			return nil, err
		}
		p.channels[channel] = rows
	}

	return p, nil
}

// highestVersion is the highest of some versions, and how many bundles have it.
type highestVersion struct {
	bundle  string
	version semver.Version
	count   int
}

// addCandidate updates h with a bundle, and reports whether the bundle has the highest
// version, alone or with others.
func (h *highestVersion) addCandidate(bundle string, version semver.Version) bool {
	order := 1
	if h.count > 0 {
		order = compareVersions(version, h.version)
	}

	switch {
	case order > 0:
		*h = highestVersion{bundle, version, 1}
	case order == 0:
		h.count++
	}

	return order >= 0
}

// chooseChannelHeads returns the head of each channel and the default channel: the one that
// the highest version with a declaration declares. The default channel of the index counts
// as declared by the highest version in the index.
func chooseChannelHeads(pkg string, members map[string]*packageMember, indexDefault string) (map[string]string, string, error) {
	found := highestVersions{channels: map[string]*highestVersion{}, declared: map[string]string{}}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		m := members[name]
		if len(m.channels) == 0 {
			continue
		}

		version, err := parseBundleVersion(m.version)
		if err != nil {
			return nil, "", fmt.Errorf("error parsing bundle %s version %s: %w", name, m.version, err)
		}
		found.addMember(name, m, version)
	}

	declaring, inIndex := found.declaring, found.inIndex
	if indexDefault != "" && inIndex.count > 0 && declaring.addCandidate(inIndex.bundle, inIndex.version) {
		declaring.bundle = inIndex.bundle
		found.declared[inIndex.bundle] = indexDefault
	}
	if found.all.count > 1 {
		return nil, "", fmt.Errorf("more than one bundle with maximum version %s", found.all.version)
	}

	heads := map[string]string{}
	for _, channel := range slices.Sorted(maps.Keys(found.channels)) {
		if found.channels[channel].count > 1 {
			return nil, "", fmt.Errorf("more than one potential channel head for %s", channel)
		}
		heads[channel] = found.channels[channel].bundle
	}

	defaultChannel, err := chooseDefaultChannel(pkg, heads, found.declared[declaring.bundle])
	return heads, defaultChannel, err
}

// highestVersions are the highest versions of a package.
type highestVersions struct {
	all      highestVersion
	channels map[string]*highestVersion
	// declaring is the highest version of the bundles that declare a default channel. declared are
	// these channels by bundle.
	declaring highestVersion
	declared  map[string]string
	// inIndex is the highest version in the index.
	inIndex highestVersion
}

func (h *highestVersions) addMember(name string, m *packageMember, version semver.Version) {
	h.all.addCandidate(name, version)
	for _, channel := range m.channels {
		if h.channels[channel] == nil {
			h.channels[channel] = &highestVersion{}
		}
		h.channels[channel].addCandidate(name, version)
	}

	if m.defaultChannel != "" {
		h.declared[name] = m.defaultChannel
		h.declaring.addCandidate(name, version)
	}
	if !m.added {
		h.inIndex.addCandidate(name, version)
	}
}

func chooseDefaultChannel(pkg string, heads map[string]string, declared string) (string, error) {
	if len(heads) == 1 {
		for channel := range heads {
			return channel, nil
		}
	}

	if declared == "" {
		return "", fmt.Errorf("no default channel specified for %s", pkg)
	}
	if _, found := heads[declared]; !found {
		return "", fmt.Errorf("unable to determine default channel among channel heads: %q is declared, there are %q", declared, slices.Sorted(maps.Keys(heads)))
	}
	return declared, nil
}
