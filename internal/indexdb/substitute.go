package indexdb

import (
	"fmt"
	"maps"
	"slices"

	"github.com/blang/semver/v4"
)

// substitute applies the rebuilds among the bundles of a package (olm.substitutesFor): what
// replaced or skipped the rebuilt bundle leads to its newest rebuild, and that skips those
// before it. It gives the bundles whose edges it changed. Applied again it changes nothing,
// so that it does not matter in which order the bundles are added.
func substitute(members map[string]*member) ([]*member, error) {
	lines, err := rebuildLines(members)
	if err != nil || len(lines) == 0 {
		return nil, err
	}

	before := map[string]edges{}
	for name, m := range members {
		before[name] = edges{m.replaces, slices.Clone(m.skips)}
	}

	lineOf := map[string][]string{}
	for _, line := range lines {
		for _, name := range line {
			lineOf[name] = line
		}
	}

	for _, line := range lines {
		joinLine(members, line)
	}

	for _, name := range slices.Sorted(maps.Keys(members)) {
		m := members[name]
		if line := lineOf[m.replaces]; line != nil {
			m.replaces = line[len(line)-1]
			m.skips = slices.DeleteFunc(m.skips, func(skip string) bool { return skip == m.replaces })
		}
		for _, skip := range slices.Clone(m.skips) {
			line := lineOf[skip]
			if line == nil || slices.Contains(line, name) {
				continue
			}
			for _, rebuild := range line[slices.Index(line, skip)+1:] {
				m.addSkip(rebuild)
			}
		}
	}

	var changed []*member
	for _, name := range slices.Sorted(maps.Keys(members)) {
		m := members[name]
		if m.replaces != before[name].replaces || !slices.Equal(m.skips, before[name].skips) {
			changed = append(changed, m)
		}
	}

	return changed, nil
}

// joinLine has each bundle of a line skip those before it, and replace what the first of
// them replaces unless it says something else from outside of the line.
func joinLine(members map[string]*member, line []string) {
	for i, name := range line {
		m := members[name]
		if i == 0 || m == nil {
			continue
		}
		if m.replaces == "" || slices.Contains(line, m.replaces) {
			m.replaces = ""
			if first := members[line[0]]; first != nil && !slices.Contains(line, first.replaces) {
				m.replaces = first.replaces
			}
		}
		for _, older := range line[:i] {
			m.addSkip(older)
		}
	}
}

// addSkip adds a bundle to those that are skipped. One that is replaced need not be: what
// is both would cut off what lies below.
func (m *member) addSkip(name string) {
	if name != m.name && name != m.replaces && !slices.Contains(m.skips, name) {
		m.skips = append(m.skips, name)
	}
}

// rebuildLines returns, for each bundle with rebuilds, itself and its rebuilds in ascending
// order. A rebuild of a rebuild belongs to the line of the first.
func rebuildLines(members map[string]*member) (map[string][]string, error) {
	lines := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if members[name].substitutesFor == "" {
			continue
		}

		first := name
		seen := map[string]bool{}
		for members[first] != nil && members[first].substitutesFor != "" {
			if seen[first] {
				return nil, fmt.Errorf("cyclic substitutesFor chain detected involving %q", first)
			}
			seen[first] = true
			first = members[first].substitutesFor
		}

		lines[first] = append(lines[first], name)
	}

	for first, rebuilds := range lines {
		if err := sortRebuilds(members, rebuilds); err != nil {
			return nil, err
		}
		lines[first] = append([]string{first}, rebuilds...)
	}

	return lines, nil
}

func sortRebuilds(members map[string]*member, names []string) error {
	versions := map[string]semver.Version{}
	for _, name := range names {
		version, err := parseVersion(members[name].version)
		if err != nil {
			return fmt.Errorf("error parsing bundle %s version %s: %w", name, members[name].version, err)
		}
		versions[name] = version
	}

	slices.SortFunc(names, func(a, b string) int { return compareVersions(versions[a], versions[b]) })
	for i := range names[1:] {
		if a, b := names[i], names[i+1]; compareVersions(versions[a], versions[b]) == 0 {
			return fmt.Errorf("cannot determine latest substitution because of duplicate versions: %s and %s both have %s", a, b, versions[a])
		}
	}

	return nil
}
