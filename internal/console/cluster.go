package console

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/action/inventory"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/action/update/clusterupdate"
	"github.com/mainstay-dev/mainstay/internal/action/update/updatestatus"
	"github.com/mainstay-dev/mainstay/internal/console/session"
)

// ClusterDetails is the version of the cluster with the progress of its update.
type ClusterDetails struct {
	Settings *clusterupdate.VersionSettings `json:"settings"`
	// Progress is the progress of an update. It is nil if it cannot be read.
	Progress *updatestatus.Status `json:"progress,omitempty"`
	// Outlook is what is known about the end of an update.
	Outlook updatestatus.Outlook `json:"outlook,omitempty" enum:"Done,Unknown,Exceeded,Soon,Estimated"`
	// Pools are the pools of nodes. They are empty if the cluster does not manage nodes.
	Pools []action.PoolSummary `json:"pools,omitempty"`
	// Problems are the kinds that could not be read.
	Problems []inventory.Problem `json:"problems,omitempty"`
}

// ClusterOperators are the ClusterOperators.
type ClusterOperators struct {
	Items []clusterupdate.OperatorView `json:"items"`
}

// versionInput is a version to update to.
type versionInput struct {
	Body struct {
		Version string `json:"version" minLength:"1" maxLength:"100"`
	}
}

// updateInput is an update with what the person has confirmed.
type updateInput struct {
	Body struct {
		Version    string   `json:"version" minLength:"1" maxLength:"100"`
		Confirmed  []string `json:"confirmed,omitempty" maxItems:"20" doc:"Names of the confirmations of the plan."`
		Pause      []string `json:"pause,omitempty" maxItems:"100" doc:"Pools of nodes that are paused first."`
		Resume     []string `json:"resume,omitempty" maxItems:"100" doc:"Paused pools of nodes that are resumed first."`
		Generation int64    `json:"generation,omitempty" doc:"Generation of the ClusterVersion that the plan is about."`
	}
}

// channelInput is a channel.
type channelInput struct {
	Body struct {
		Channel       string `json:"channel" maxLength:"253" doc:"Empty removes the channel."`
		AllowExplicit bool   `json:"allowExplicit,omitempty" doc:"Allows a channel that is not known to have the present release, and none."`
		Generation    int64  `json:"generation,omitempty"`
	}
}

// risksInput are the risks to accept.
type risksInput struct {
	Body struct {
		Risks      []string `json:"risks" maxItems:"500" doc:"All accepted risks. Others are no longer accepted."`
		Generation int64    `json:"generation,omitempty"`
	}
}

// poolInput pauses or resumes a pool of nodes.
type poolInput struct {
	Name string `path:"name" maxLength:"253" pattern:"^[a-z0-9][a-z0-9.-]*$"`
	Body struct {
		Paused bool `json:"paused"`
	}
}

// initInput is a new ClusterVersion.
type initInput struct {
	Body struct {
		Channel  string `json:"channel,omitempty" maxLength:"253"`
		Upstream string `json:"upstream,omitempty" maxLength:"2048"`
	}
}

// registerCluster adds the operations about the version of the cluster.
func registerCluster(api huma.API) {
	get(api, "getCluster", "/cluster", "The version of the cluster", readCluster)
	get(api, "listClusterOperators", "/cluster/operators", "The operators of the release", listClusterOperators)
	get(api, "getClusterOperator", "/cluster/operators/{name}", "An operator of the release", readClusterOperator)
	get(api, "getUpdateGraph", "/cluster/graph", "The releases that the cluster can be updated to, as the update service knows them", readUpdateGraph)
	registerPost(api, "planUpdate", "/cluster/update/plan", "What an update would need", planUpdate)
	registerPost(api, "requestUpdate", "/cluster/update", "Update the cluster", requestUpdate)
	registerPost(api, "cancelUpdate", "/cluster/update/cancel", "Cancel the requested update", cancelUpdate)
	registerPost(api, "rollBackCluster", "/cluster/rollback", "Roll the cluster back to its previous release", rollBackCluster)
	registerPost(api, "setChannel", "/cluster/channel", "Choose the update channel", setChannel)
	registerPost(api, "acceptRisks", "/cluster/risks", "Accept known issues of updates", acceptRisks)
	registerPost(api, "pausePool", "/cluster/pools/{name}/pause", "Pause or resume a pool of nodes", pausePool)
	registerPost(api, "createClusterVersion", "/cluster/init", "Let the cluster-version-operator manage the version of the cluster", createClusterVersion)
}

// newReadProblem returns the problem of a kind that could not be read.
func newReadProblem(kind string, err error) inventory.Problem {
	return inventory.Problem{Kind: kind, Message: asSentence(err.Error()), Advice: asSentence(report.AdviceOf(err)), Forbidden: apierrors.IsForbidden(err)}
}

func readCluster(ctx context.Context, user *session.Session, _ *struct{}) (ClusterDetails, error) {
	var details ClusterDetails
	var err error
	if details.Settings, err = (&clusterupdate.Settings{Client: user.Client}).Run(ctx); err != nil || details.Settings.Absence != nil {
		return details, err
	}

	if details.Progress, err = (&updatestatus.Reader{Client: user.Client, Now: time.Now()}).Run(ctx); err != nil {
		details.Problems = append(details.Problems, newReadProblem("the progress of the update", err))
	} else if c := details.Progress.ControlPlane; c != nil {
		details.Outlook = c.Outlook()
	}

	states, err := (&action.NodesStatus{Client: user.Client}).Run(ctx)
	switch {
	case action.IsUnknownKind(err):
	case err != nil:
		details.Problems = append(details.Problems, newReadProblem("pools of nodes", err))
	default:
		for i := range states.Pools {
			details.Pools = append(details.Pools, states.Pools[i].Summarize())
		}
		for _, text := range states.Problems {
			details.Problems = append(details.Problems, newReadProblem("a part of the pools of nodes", errors.New(text)))
		}
	}
	return details, ctx.Err()
}

func listClusterOperators(ctx context.Context, user *session.Session, _ *struct{}) (ClusterOperators, error) {
	views, err := (&clusterupdate.Operators{Client: user.Client}).Run(ctx)
	if views == nil {
		views = []clusterupdate.OperatorView{}
	}
	return ClusterOperators{Items: views}, err
}

func readClusterOperator(ctx context.Context, user *session.Session, input *nameInput) (clusterupdate.OperatorView, error) {
	views, err := (&clusterupdate.Operators{Client: user.Client, Name: input.Name}).Run(ctx)
	if err != nil {
		return clusterupdate.OperatorView{}, err
	}
	return views[0], nil
}

func readUpdateGraph(ctx context.Context, user *session.Session, _ *struct{}) (clusterupdate.UpdateGraph, error) {
	graph, err := (&clusterupdate.ReadGraph{Client: user.Client}).Run(ctx)
	if err != nil {
		return clusterupdate.UpdateGraph{}, err
	}
	return *graph, nil
}

func planUpdate(ctx context.Context, user *session.Session, input *versionInput) (clusterupdate.UpdatePlan, error) {
	plan, err := (&clusterupdate.ConfirmedRequest{Client: user.Client, To: input.Body.Version}).Plan(ctx)
	if err != nil {
		return clusterupdate.UpdatePlan{}, err
	}
	return *plan, nil
}

// newRefusedProblem returns the problem of a request that a check refuses. Checks name flags of the command line.
func newRefusedProblem(err error) error {
	return newProblem(http.StatusUnprocessableEntity, asSentence(strings.TrimPrefix(err.Error(), "--")), "")
}

// outcomeOf returns the result of an operation for the page. An error without an object is the refusal of a check.
func outcomeOf(outcome *clusterupdate.Outcome, err error) (clusterupdate.Outcome, error) {
	var failed *report.Error
	switch {
	case err != nil && !errors.As(err, &failed):
		return clusterupdate.Outcome{}, newRefusedProblem(err)
	case outcome == nil:
		return clusterupdate.Outcome{}, err
	}
	return *outcome, err
}

func requestUpdate(ctx context.Context, user *session.Session, input *updateInput) (clusterupdate.Outcome, error) {
	b := &input.Body
	request := &clusterupdate.ConfirmedRequest{
		Client: user.Client, To: b.Version, Confirmed: b.Confirmed, Pause: b.Pause, Resume: b.Resume, Generation: b.Generation,
	}
	return outcomeOf(request.Run(ctx))
}

func cancelUpdate(ctx context.Context, user *session.Session, _ *struct{}) (clusterupdate.Outcome, error) {
	return outcomeOf((&clusterupdate.Request{Client: user.Client, Clear: true}).Run(ctx))
}

func rollBackCluster(ctx context.Context, user *session.Session, _ *struct{}) (clusterupdate.RollbackPlan, error) {
	plan, err := (&clusterupdate.Rollback{Client: user.Client}).Run(ctx)
	if err != nil {
		return clusterupdate.RollbackPlan{}, err
	}
	return *plan, nil
}

func setChannel(ctx context.Context, user *session.Session, input *channelInput) (clusterupdate.Outcome, error) {
	b := &input.Body
	return outcomeOf((&clusterupdate.Channel{Client: user.Client, Name: b.Channel, AllowExplicit: b.AllowExplicit, Generation: b.Generation}).Run(ctx))
}

func acceptRisks(ctx context.Context, user *session.Session, input *risksInput) (clusterupdate.Outcome, error) {
	risks := input.Body.Risks
	accept := &clusterupdate.Accept{Client: user.Client, Risks: risks, Replace: len(risks) > 0, Clear: len(risks) == 0, Generation: input.Body.Generation}
	return outcomeOf(accept.Run(ctx))
}

func pausePool(ctx context.Context, user *session.Session, input *poolInput) (clusterupdate.Outcome, error) {
	before, after, err := (&action.PoolPause{Client: user.Client, Pool: input.Name, Paused: input.Body.Paused}).Run(ctx)
	if err != nil {
		return clusterupdate.Outcome{}, err
	}
	word := "resumed"
	if after.Spec.Paused {
		word = "paused"
	}
	return clusterupdate.Outcome{Message: "Pool " + input.Name + " is " + word, Changed: before.Spec.Paused != after.Spec.Paused}, nil
}

func createClusterVersion(ctx context.Context, user *session.Session, input *initInput) (clusterupdate.Outcome, error) {
	initialize := &clusterupdate.Init{Client: user.Client, Channel: input.Body.Channel, Upstream: input.Body.Upstream}
	if err := initialize.Validate(); err != nil {
		return clusterupdate.Outcome{}, newRefusedProblem(err)
	}
	cv, err := initialize.Run(ctx)
	if err != nil {
		return clusterupdate.Outcome{}, err
	}
	return clusterupdate.Outcome{Message: "The ClusterVersion is created, with cluster ID " + cv.Spec.ClusterID, Changed: true}, nil
}
