package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// Bounds of a list of tags.
const (
	// maxTags is how many tags a repository may have: more than ten times those of the
	// largest public one.
	maxTags = 200_000
	// maxTagsBytes bounds one answer, in bytes: a page of 1,000 tags of 128 characters has
	// 130 KiB, and some registries give all of them at once.
	maxTagsBytes = 32 << 20
	// tagsOfPage is how many are asked for at once.
	tagsOfPage = "1000"
)

// Tags lists the tags of the repository, in the order of the registry.
func (s *Session) Tags(ctx context.Context) ([]string, error) {
	list := (&url.URL{Path: "/v2/" + s.opts.Repository + "/tags/list"}).EscapedPath()
	var tags []string
	for query := "n=" + tagsOfPage; query != ""; {
		page, next, err := s.tags(ctx, list+"?"+query)
		if err != nil {
			return nil, err
		}
		if tags = append(tags, page...); len(tags) > maxTags {
			return nil, fmt.Errorf("list the tags: there are more than %d", maxTags)
		}
		if next == query || len(page) == 0 {
			break // The registry would give the same again.
		}

		query = next
	}

	return tags, nil
}

// tags reads a page, and gives the query of the next one, which is empty after the last.
func (s *Session) tags(ctx context.Context, path string) ([]string, string, error) {
	const what = "list the tags"
	resp, err := s.do(ctx, request{what: what, method: http.MethodGet, path: path, want: []int{http.StatusOK}})
	if err != nil {
		return nil, "", err
	}

	defer func() { _ = resp.Body.Close() }() // It was only read.
	data, err := readAtMost(resp.Body, maxTagsBytes, "the list of tags")
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", what, err)
	}

	var page struct {
		Tags []string `json:"tags"`
	}
	if err := json.Unmarshal(data, &page); err != nil {
		return nil, "", fmt.Errorf("%s: the answer cannot be read: %w", what, err)
	}

	return page.Tags, nextPage(resp.Header), nil
}

// nextPage returns the query of the link to the next page. Only that of the link counts: the
// registry does not choose who is asked.
func nextPage(header http.Header) string {
	for _, link := range header.Values("Link") {
		target, params, ok := strings.Cut(link, ">")
		if !ok || !strings.Contains(strings.ReplaceAll(params, `"`, ""), "rel=next") {
			continue
		}
		next, err := url.Parse(strings.TrimPrefix(strings.TrimSpace(target), "<"))
		if err == nil {
			return next.RawQuery
		}
	}

	return ""
}
