package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// Limits of a list of tags.
const (
	// maxTags is how many tags a repository may have: more than ten times those of the
	// largest public one.
	maxTags = 200_000
	// maxTagsResponseBytes bounds one response. A page of 1,000 tags of 128 characters has
	// 130 KiB, and some registries return all tags at once.
	maxTagsResponseBytes = 32 << 20
	// tagsPerPage is the number of tags of one request.
	tagsPerPage = "1000"
)

// Tags returns the tags of the repository, in the order of the registry.
func (s *Session) Tags(ctx context.Context) ([]string, error) {
	list := repositoryPath(s.opts.Repository) + "tags/list"
	var tags []string
	for query := "n=" + tagsPerPage; query != ""; {
		page, next, err := s.fetchTagsPage(ctx, list+"?"+query)
		if err != nil {
			return nil, err
		}
		if tags = append(tags, page...); len(tags) > maxTags {
			return nil, fmt.Errorf("list the tags: there are more than %d", maxTags)
		}
		if next == query || len(page) == 0 {
			break // The registry would return the same page again.
		}

		query = next
	}

	return tags, nil
}

// fetchTagsPage reads a page of tags. It returns them with the query of the next page,
// which is empty after the last page.
func (s *Session) fetchTagsPage(ctx context.Context, path string) ([]string, string, error) {
	const what = "list the tags"
	resp, err := s.sendExpecting(ctx, request{operation: what, method: http.MethodGet, path: path, expectedStatuses: []int{http.StatusOK}})
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = resp.Body.Close() }() // It was only read.

	data, err := readAtMost(resp.Body, maxTagsResponseBytes, "the list of tags")
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", what, err)
	}

	var page struct {
		Tags []string `json:"tags"`
	}
	if err := json.Unmarshal(data, &page); err != nil {
		return nil, "", fmt.Errorf("%s: the answer cannot be read: %w", what, err)
	}

	return page.Tags, parseNextPageQuery(resp.Header), nil
}

// parseNextPageQuery returns the query of the link to the next page. It ignores the rest of
// the link, because the registry must not choose the host of the request.
func parseNextPageQuery(header http.Header) string {
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
