package browse

import (
	"slices"
	"strings"
)

// SearchResult is a search result.
type SearchResult struct {
	*Package
	// Where are the fields that contain the words: "name", "display name", "keywords",
	// "kinds", "provider" and "description".
	Where []string `json:"where"`
}

// Search returns the packages that contain every word, ignoring case. Packages with a match
// in the name come first. Without words it returns all packages.
func Search(packages []*Package, words ...string) []SearchResult {
	var found []SearchResult
	for _, p := range packages {
		if where, ok := p.matchesWords(words); ok {
			found = append(found, SearchResult{Package: p, Where: where})
		}
	}

	slices.SortStableFunc(found, func(a, b SearchResult) int { return a.matchRank() - b.matchRank() })
	return found
}

// searchFields are the fields that a search covers, the most relevant first.
var searchFields = []string{"name", "display name", "keywords", "kinds", "provider", "description"}

// matchRank returns the position of the first matching field in searchFields.
func (f SearchResult) matchRank() int {
	if len(f.Where) == 0 {
		return 0
	}
	return slices.Index(searchFields, f.Where[0])
}

// matchesWords reports whether the package contains every word, and in which fields. The
// words may be in different fields.
func (p *Package) matchesWords(words []string) ([]string, bool) {
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
		found := false
		for i, text := range texts {
			if strings.Contains(text, word) {
				hit[i], found = true, true
			}
		}
		if !found {
			return nil, false
		}
	}

	var where []string
	for i, field := range searchFields {
		if hit[i] {
			where = append(where, field)
		}
	}

	return where, true
}
