package browse

import (
	"slices"
	"strings"
)

// Found is a package that a search found.
type Found struct {
	*Package
	// Where the words stand, of "name", "display name", "keywords", "kinds", "provider" and
	// "description".
	Where []string `json:"where"`
}

// Search returns the packages in which every word stands, without regard to case, those
// first whose name has one. No words find every package.
func Search(packages []*Package, words ...string) []Found {
	var found []Found
	for _, p := range packages {
		if where, ok := p.matches(words); ok {
			found = append(found, Found{Package: p, Where: where})
		}
	}

	slices.SortStableFunc(found, func(a, b Found) int { return a.rank() - b.rank() })
	return found
}

// places are where a search looks, the most telling first.
var places = []string{"name", "display name", "keywords", "kinds", "provider", "description"}

func (f Found) rank() int {
	if len(f.Where) == 0 {
		return 0
	}
	return slices.Index(places, f.Where[0])
}

func (p *Package) matches(words []string) ([]string, bool) {
	var kinds []string
	if newest := p.Newest(); newest != nil {
		kinds = newest.Provides
	}

	texts := []string{p.Name, p.DisplayName, strings.Join(p.Keywords, "\n"), strings.Join(kinds, "\n"), p.Provider, p.Description}
	for i := range texts {
		texts[i] = strings.ToLower(texts[i])
	}

	hit := map[int]bool{}
	for _, word := range words {
		word = strings.ToLower(word)
		stands := false
		for i, text := range texts {
			if strings.Contains(text, word) {
				hit[i], stands = true, true
			}
		}
		if !stands {
			return nil, false
		}
	}

	var where []string
	for i, place := range places {
		if hit[i] {
			where = append(where, place)
		}
	}

	return where, true
}
