package image

import (
	"context"

	"github.com/mainstay-dev/mainstay/internal/image/registry"
)

// Tags returns the tags of a repository, in the order of its registry. A tag or a digest in
// the name is ignored.
func (c *Client) Tags(ctx context.Context, repository string) ([]string, error) {
	var tags []string
	err := c.readOnce(ctx, "list the tags of", repository, func(ctx context.Context, img *Image) (err error) {
		tags, err = img.content.remote.fetchTags(ctx)
		return err
	})

	return tags, err
}

// fetchTags returns the tags of the repository.
func (r *remoteRepository) fetchTags(ctx context.Context) ([]string, error) {
	var tags []string
	err := r.tryPullSources(func(session *registry.Session, _ imageReference) error {
		ctx, cancel := r.withSourceTimeout(ctx, session)
		defer cancel()

		var err error
		tags, err = session.Tags(ctx)

		return err
	})

	return tags, err
}
