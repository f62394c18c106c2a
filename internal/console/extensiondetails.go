package console

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/console/session"
)

// ExtensionHistory are the revisions of an extension, the oldest first.
type ExtensionHistory struct {
	Revisions []action.RevisionRecord `json:"revisions"`
}

type extensionDiffInput struct {
	ExtensionRef

	From int64 `query:"from" minimum:"0" doc:"Zero means the revision before To."`
	To   int64 `query:"to" minimum:"0" doc:"Zero means the newest revision."`
}

// registerExtensionDetails adds the operations about the history of an extension.
func registerExtensionDetails(api huma.API) {
	get(api, "listExtensionRevisions", "/extensions/{name}/revisions", "The revisions of an extension",
		func(ctx context.Context, user *session.Session, input *nameInput) (ExtensionHistory, error) {
			revisions, err := (&action.ExtensionHistory{Client: user.Client, Name: input.Name}).Run(ctx)
			return ExtensionHistory{Revisions: revisions}, err
		})
	get(api, "diffExtensionRevisions", "/extensions/{name}/diff", "The difference between two revisions of an extension",
		func(ctx context.Context, user *session.Session, input *extensionDiffInput) (*action.RevisionDiff, error) {
			diff := &action.ExtensionDiff{Client: user.Client, Name: input.Name, From: input.From, To: input.To}
			return diff.Run(ctx)
		})
}
