package indexdb

import (
	"fmt"
	"maps"
	"slices"

	"github.com/blang/semver/v4"
)

// applySubstitutions applies the rebuilds among the bundles of a package
// (olm.substitutesFor). Bundles that replaced or skipped the original then lead to its
// newest rebuild, which skips the older ones. It returns the bundles whose edges have
// changed. It is idempotent, so that the order in which bundles are added does not matter.
func applySubstitutions(members map[string]*packageMember) ([]*packageMember, error) {
	lines, err := collectRebuildLines(members)
	if err != nil || len(lines) == 0 {
		return nil, err
	}

	before := map[string]updateEdges{}
	for name, m := range members {
		before[name] = updateEdges{m.replaces, slices.Clone(m.skips)}
	}

	lineOf := map[string][]string{}
	for _, line := range lines {
		for _, name := range line {
			lineOf[name] = line
		}
	}

	for _, line := range lines {
		linkRebuildLine(members, line)
	}

	for _, name := range slices.Sorted(maps.Keys(members)) {
		members[name].followRebuildLines(name, lineOf)
	}

	var changed []*packageMember
	for _, name := range slices.Sorted(maps.Keys(members)) {
		m := members[name]
		if m.replaces != before[name].replaces || !slices.Equal(m.skips, before[name].skips) {
			changed = append(changed, m)
		}
	}

	return changed, nil
}

// followRebuildLines makes a member replace the newest rebuild of the bundle that it replaces, and
// skip the rebuilds of the bundles that it skips. The lines are given by each of their bundles.
func (m *packageMember) followRebuildLines(name string, lineOf map[string][]string) {
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

// linkRebuildLine makes each bundle of a line skip the ones before it. Each also replaces
// the bundle that the first one replaces, unless it replaces another bundle outside of the
// line.
func linkRebuildLine(members map[string]*packageMember, line []string) {
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

// addSkip adds a skipped bundle. A replaced bundle is not added, because that would cut off
// the bundles below it.
func (m *packageMember) addSkip(name string) {
	if name != m.name && name != m.replaces && !slices.Contains(m.skips, name) {
		m.skips = append(m.skips, name)
	}
}

// collectRebuildLines returns, for each bundle with rebuilds, itself and its rebuilds in
// ascending order. A rebuild of a rebuild belongs to the line of the original.
func collectRebuildLines(members map[string]*packageMember) (map[string][]string, error) {
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

func sortRebuilds(members map[string]*packageMember, names []string) error {
	versions := map[string]semver.Version{}
	for _, name := range names {
		version, err := parseBundleVersion(members[name].version)
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
