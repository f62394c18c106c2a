package image

import (
	"context"

	"github.com/mainstay-dev/mainstay/internal/image/registry"
)

// Tags returns the tags of a repository, in the order of its registry. A tag or a digest in
// the name is ignored.
func (c *Client) Tags(ctx context.Context, repository string) ([]string, error) {
	tags, err := c.listTags(ctx, repository)
	if err != nil {
		return nil, wrapOperationError("list the tags of", repository, err, c.secretsToRedact()...)
	}
	return tags, nil
}

func (c *Client) listTags(ctx context.Context, repository string) ([]string, error) {
	named, err := parseReference(repository)
	if err != nil {
		return nil, err
	}

	ctx, cancel := c.withOpenTimeout(ctx)
	defer cancel()

	remote, err := c.openRepository(named)
	if err != nil {
		return nil, err
	}
	defer remote.Close()

	var tags []string
	err = remote.tryPullSources(func(session *registry.Session, _ imageReference) error {
		ctx, cancel := remote.withSourceTimeout(ctx, session)
		defer cancel()

		var err error
		tags, err = session.Tags(ctx)

		return err
	})

	return tags, err
}
