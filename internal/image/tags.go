package image

import (
	"context"

	"github.com/mainstay-dev/mainstay/internal/image/registry"
)

// Tags lists the tags of a repository, in the order of its registry. A tag or a digest in
// the name means nothing here.
func (c *Client) Tags(ctx context.Context, repository string) ([]string, error) {
	tags, err := c.tags(ctx, repository)
	if err != nil {
		return nil, fail("list the tags of", repository, err, c.secrets()...)
	}
	return tags, nil
}

func (c *Client) tags(ctx context.Context, repository string) ([]string, error) {
	named, err := parseReference(repository)
	if err != nil {
		return nil, err
	}

	ctx, cancel := c.openContext(ctx)
	defer cancel()
	remote, err := c.remote(named)
	if err != nil {
		return nil, err
	}

	defer remote.Close()
	var tags []string
	err = remote.try(func(session *registry.Session, _ name) error {
		ctx, cancel := remote.share(ctx, session)
		defer cancel()
		var err error
		tags, err = session.Tags(ctx)

		return err
	})

	return tags, err
}
