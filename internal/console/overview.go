package console

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"github.com/mainstay-dev/mainstay/internal/action/overview"
	"github.com/mainstay-dev/mainstay/internal/console/session"
)

// registerOverview adds the summary of the cluster.
func registerOverview(api huma.API) {
	get(api, "getOverview", "/overview", "The health of the cluster, and what needs a person",
		func(ctx context.Context, user *session.Session, input *namespaceInput) (overview.Overview, error) {
			read := &overview.Read{Client: user.Client, Namespace: input.Namespace}
			return *read.Run(ctx), ctx.Err()
		})
}
