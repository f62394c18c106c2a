package action

import (
	"fmt"
	"slices"
	"strings"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/resolve"
)

// maxSuggestions limits the number of suggested names. maxEditDistance limits their edit
// distance from the given name.
const maxSuggestions, maxEditDistance = 3, 3

// suggestCorrection returns advice for a filter that no catalog has a bundle for: a
// package, channel or version with a similar name. It returns an empty string if it has
// none.
func suggestCorrection(filter *olmv1.CatalogFilter, found *catalogContents) string {
	if len(found.catalogs) == 0 {
		if len(found.unserved) > 0 {
			return fmt.Sprintf("wait until catalog %s is served: 'mainstay catalog list' shows it", strings.Join(found.unserved, ", "))
		}
		return "add a catalog with 'mainstay catalog add', or choose others with --catalog-selector"
	}

	if !slices.Contains(found.packages, filter.PackageName) {
		const search = "'mainstay catalog search' finds packages"
		if similar := findSimilarNames(filter.PackageName, found.packages); len(similar) > 0 {
			return fmt.Sprintf("no catalog has package %q: did you mean %s? %s", filter.PackageName, strings.Join(similar, " or "), search)
		}
		return fmt.Sprintf("no catalog has package %q: %s", filter.PackageName, search)
	}

	channels, versions := found.listChannelsAndVersions()
	for _, wanted := range filter.Channels {
		if slices.Contains(channels, wanted) {
			continue
		}
		if similar := findSimilarNames(wanted, channels); len(similar) > 0 {
			return fmt.Sprintf("package %s has no channel %q: did you mean %s? 'mainstay catalog show' lists its channels", filter.PackageName, wanted, strings.Join(similar, " or "))
		}
		return fmt.Sprintf("package %s has no channel %q: it has %s", filter.PackageName, wanted, strings.Join(channels, ", "))
	}

	_, err := resolve.Resolve(resolve.Request{
		Package: filter.PackageName, Version: filter.Version, Channels: filter.Channels, Policy: olmv1.UpgradeConstraintPolicySelfCertified,
	}, found.catalogs)
	hints := resolve.Hints(err)
	if similar := findSimilarNames(filter.Version, versions); len(similar) > 0 && len(hints) > 0 && !slices.Contains(versions, filter.Version) {
		return fmt.Sprintf("did you mean version %s? %s", strings.Join(similar, " or "), strings.Join(hints, "; "))
	}

	return strings.Join(hints, "; ")
}

// listChannelsAndVersions returns the sorted channels and versions of the package in all
// catalogs, without duplicates.
func (o *catalogContents) listChannelsAndVersions() (channels, versions []string) {
	for _, catalog := range o.catalogs {
		for i := range catalog.Content.Channels {
			channels = append(channels, catalog.Content.Channels[i].Name)
		}
		for i := range catalog.Content.Bundles {
			if version, err := catalog.Content.Bundles[i].VersionRelease(); err == nil {
				versions = append(versions, version.Version.String())
			}
		}
	}

	slices.Sort(channels)
	slices.Sort(versions)
	return slices.Compact(channels), slices.Compact(versions)
}

// findSimilarNames returns the known names with the lowest edit distance to a name, or that
// contain it. It returns at most maxSuggestions names.
func findSimilarNames(name string, known []string) []string {
	if name == "" {
		return nil
	}

	type candidate struct {
		name     string
		distance int
	}
	var candidates []candidate
	for _, other := range known {
		distance := editDistance(name, other)
		isPart := len(name) >= maxEditDistance && strings.Contains(other, name)
		if isPart || distance <= min(maxEditDistance, len(name)/2) {
			candidates = append(candidates, candidate{other, distance})
		}
	}

	slices.SortStableFunc(candidates, func(a, b candidate) int { return a.distance - b.distance })
	var names []string
	for _, c := range candidates[:min(len(candidates), maxSuggestions)] {
		names = append(names, c.name)
	}

	return names
}

// editDistance returns the number of edits that turn one name into the other. An edit
// inserts, removes or replaces a byte, or swaps two adjacent bytes.
func editDistance(a, b string) int {
	var beforeLast, last []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}

	for i := range len(a) {
		beforeLast, last, row = last, row, make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			replaced := last[j]
			if a[i] != b[j] {
				replaced++
			}
			row[j+1] = min(replaced, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], beforeLast[j-1]+1)
			}
		}
	}

	return row[len(b)]
}
