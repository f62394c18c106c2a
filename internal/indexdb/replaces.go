package indexdb

import (
	"fmt"
	"maps"
	"slices"

	"github.com/blang/semver/v4"
)

// planReplaces makes the channels of a package of what its bundles say that they replace
// and skip. The head of a channel is its highest version; from there on the bundles are
// followed down, whatever channels they name.
func planReplaces(pkg string, members map[string]*member, indexDefault string) (*plan, error) {
	rewritten, err := substitute(members)
	if err != nil {
		return nil, err
	}

	heads, defaultChannel, err := chooseHeads(pkg, members, indexDefault)
	if err != nil {
		return nil, err
	}

	p := &plan{defaultChannel: defaultChannel, channels: map[string][]row{}, rewritten: rewritten}
	for _, channel := range slices.Sorted(maps.Keys(heads)) {
		rows, err := layDown(heads[channel], func(name string) (edges, bool) {
			m, found := members[name]
			if !found || m.deprecated {
				return edges{}, found
			}
			return edges{m.replaces, m.skips}, true
		})
		if err != nil {
			return nil, err
		}
		p.channels[channel] = rows
	}

	return p, nil
}

// highest is the highest of some versions, and how many bundles have it.
type highest struct {
	bundle  string
	version semver.Version
	count   int
}

// add takes a bundle into account, and tells whether it is the highest, alone or not.
func (h *highest) add(bundle string, version semver.Version) bool {
	order := 1
	if h.count > 0 {
		order = compareVersions(version, h.version)
	}

	switch {
	case order > 0:
		*h = highest{bundle, version, 1}
	case order == 0:
		h.count++
	}

	return order >= 0
}

// chooseHeads returns the head of each channel and the default channel: the one that the
// highest version declares which declares any. What the index has counts as declared by
// the highest version in it.
func chooseHeads(pkg string, members map[string]*member, indexDefault string) (map[string]string, string, error) {
	heads := map[string]*highest{}
	var all, declaring, inIndex highest
	declared := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		m := members[name]
		if len(m.channels) == 0 {
			continue
		}

		version, err := parseVersion(m.version)
		if err != nil {
			return nil, "", fmt.Errorf("error parsing bundle %s version %s: %w", name, m.version, err)
		}

		all.add(name, version)
		for _, channel := range m.channels {
			if heads[channel] == nil {
				heads[channel] = &highest{}
			}
			heads[channel].add(name, version)
		}

		if m.defaultChannel != "" {
			declared[name] = m.defaultChannel
			declaring.add(name, version)
		}
		if !m.added {
			inIndex.add(name, version)
		}
	}

	if indexDefault != "" && inIndex.count > 0 && declaring.add(inIndex.bundle, inIndex.version) {
		declaring.bundle = inIndex.bundle
		declared[inIndex.bundle] = indexDefault
	}
	if all.count > 1 {
		return nil, "", fmt.Errorf("more than one bundle with maximum version %s", all.version)
	}

	chosen := map[string]string{}
	for channel, head := range heads {
		chosen[channel] = head.bundle
	}

	for _, channel := range slices.Sorted(maps.Keys(heads)) {
		if heads[channel].count > 1 {
			return nil, "", fmt.Errorf("more than one potential channel head for %s", channel)
		}
	}

	defaultChannel, err := chooseDefault(pkg, chosen, declared[declaring.bundle])
	return chosen, defaultChannel, err
}

func chooseDefault(pkg string, heads map[string]string, declared string) (string, error) {
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
