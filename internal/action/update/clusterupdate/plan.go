package clusterupdate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/action/report"
)

// Names of what a person has to confirm before an update. The others are names of conditions of the ClusterVersion.
const (
	// ConfirmNotRecommended confirms the known issues of an update.
	ConfirmNotRecommended = "NotRecommended"
	// ConfirmUpgradeable confirms that the operator refuses the update while the cluster reports Upgradeable=False.
	ConfirmUpgradeable = IssueUpgradeable
)

// Confirmation is a fact that a person has to confirm before an update is requested.
type Confirmation struct {
	Name string `json:"name"`
	// Text is a sentence for people. Reason and Message are those of the condition behind it.
	Text    string `json:"text"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// UpdatePlan is what the request of an update would do.
type UpdatePlan struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Image and URL are those of the requested release.
	Image string `json:"image,omitempty"`
	URL   string `json:"url,omitempty"`
	// Message states what would be requested, or why nothing would.
	Message string `json:"message"`
	// Changed reports whether anything would be written.
	Changed bool `json:"changed"`
	// Confirmations are what a person has to confirm first.
	Confirmations []Confirmation `json:"confirmations,omitempty"`
	// Generation is the generation of the ClusterVersion that was read.
	Generation int64 `json:"generation"`
}

// ConfirmedRequest requests an update to a version with the confirmations of a person. It makes the checks of Request,
// but lists them in a plan first.
type ConfirmedRequest struct {
	// Client is the client of the cluster.
	Client client.Client
	// To is the requested version.
	To string
	// Confirmed are the names of what a person has confirmed.
	Confirmed []string
	// Pause are the pools of nodes that stay at their version: they are paused first. Resume are paused pools that are to
	// be updated too. The pool of the control plane can be in neither.
	Pause, Resume []string
	// Generation is the generation of the ClusterVersion that the person has seen. Zero means any.
	Generation int64
}

// Plan returns what Run would do. It writes nothing.
func (r *ConfirmedRequest) Plan(ctx context.Context) (*UpdatePlan, error) {
	cv, err := r.readClusterVersion(ctx)
	if err != nil {
		return nil, err
	}
	_, plan, err := planUpdate(cv, r.To)
	return plan, err
}

// Run requests the update. It returns an error if a confirmation is missing.
func (r *ConfirmedRequest) Run(ctx context.Context) (*Outcome, error) {
	cv, err := r.readClusterVersion(ctx)
	if err != nil {
		return nil, err
	}

	update, plan, err := planUpdate(cv, r.To)
	if err != nil {
		return nil, err
	}
	if !plan.Changed {
		return &Outcome{Message: plan.Message}, nil
	}

	var missing []string
	for _, c := range plan.Confirmations {
		if !slices.Contains(r.Confirmed, c.Name) {
			missing = append(missing, c.Text)
		}
	}
	if len(missing) > 0 {
		return nil, &report.Error{
			Object: clusterVersionObject, Err: fmt.Errorf("the update to %s needs your confirmation: %s", r.To, strings.Join(missing, " ")),
			Advice: "read the plan of the update again, and confirm what it lists",
		}
	}

	if err := r.changePools(ctx); err != nil {
		return nil, err
	}
	return &Outcome{Message: plan.Message, Changed: true}, patchSpec(ctx, r.Client, cv, desiredUpdatePatch(update))
}

// changePools pauses and resumes the pools. Nothing is requested if that fails.
func (r *ConfirmedRequest) changePools(ctx context.Context) error {
	names := slices.Concat(r.Pause, r.Resume)
	if slices.Contains(names, mcfgv1.PoolMaster) {
		return &report.Error{
			Object: fmt.Sprintf("machineconfigpool %q", mcfgv1.PoolMaster), Err: errors.New("the nodes of the control plane are part of every update"),
			Advice: "choose other pools to pause",
		}
	}

	for i, name := range names {
		pause := action.PoolPause{Client: r.Client, Pool: name, Paused: i < len(r.Pause)}
		if _, _, err := pause.Run(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (r *ConfirmedRequest) readClusterVersion(ctx context.Context) (*configv1.ClusterVersion, error) {
	if _, err := semver.Parse(r.To); err != nil {
		return nil, &report.Error{Object: clusterVersionObject, Err: fmt.Errorf("%q is not a semantic version: %w", r.To, err), Advice: "choose one of the available updates"}
	}
	return readGeneration(ctx, r.Client, r.Generation)
}

// readGeneration returns the ClusterVersion. It returns a conflict if its generation is not the expected one. Zero expects
// any.
func readGeneration(ctx context.Context, c client.Client, generation int64) (*configv1.ClusterVersion, error) {
	cv, err := Read(ctx, c)
	if err != nil {
		return nil, err
	}
	if generation != 0 && cv.Generation != generation {
		conflict := apierrors.NewConflict(schema.GroupResource{Group: configv1.GroupVersion.Group, Resource: "clusterversions"}, cv.Name,
			errors.New("its spec has changed since you read it"))
		return nil, &report.Error{Object: clusterVersionObject, Err: conflict, Advice: "look at the present settings, and try again"}
	}
	return cv, nil
}

// planUpdate returns the new spec.desiredUpdate for an update to a version, and the plan that describes it.
func planUpdate(cv *configv1.ClusterVersion, version string) (*configv1.Update, *UpdatePlan, error) {
	request := &Request{To: version, AllowNotRecommended: true, AllowWithWarnings: true}
	update, outcome, err := request.decideUpdate(cv)
	if err != nil {
		return nil, nil, &report.Error{Object: clusterVersionObject, Err: err, Advice: "choose one of the available updates"}
	}

	plan := &UpdatePlan{From: cv.Status.Desired.Version, To: version, Message: outcome.Message, Changed: outcome.Changed, Generation: cv.Generation}
	if !outcome.Changed {
		return update, plan, nil
	}

	plan.Image = update.Image
	for _, c := range listCandidates(cv) {
		if c.Version != version {
			continue
		}
		plan.URL = c.URL
		if f := c.notRecommended; f != nil && !isRecommended(cv, version) {
			text := "The update to %s is not recommended for this cluster."
			if f.status != "False" {
				text = "It is not known whether the known issues of %s apply to this cluster."
			}
			plan.addConfirmation(ConfirmNotRecommended, fmt.Sprintf(text, version), f)
		}
		break
	}
	for _, problem := range findStateProblems(cv) {
		plan.addConfirmation(problem.condition, formatStateProblem(problem.text), problem.found)
	}
	if f := upgradeableCondition(cv); f != nil && isMinorUpdate(cv.Status.Desired.Version, version) {
		plan.addConfirmation(ConfirmUpgradeable, fmt.Sprintf("The cluster-version-operator will refuse the update to %s, because the cluster reports Upgradeable=False.", version), f)
	}
	return update, plan, nil
}

// isRecommended reports whether a version is one of the recommended updates.
func isRecommended(cv *configv1.ClusterVersion, version string) bool {
	return slices.ContainsFunc(cv.Status.AvailableUpdates, func(r configv1.Release) bool { return r.Version == version })
}

func (p *UpdatePlan) addConfirmation(name, text string, f *conditionSummary) {
	p.Confirmations = append(p.Confirmations, Confirmation{Name: name, Text: text, Reason: f.reason, Message: f.message})
}

// formatStateProblem returns the text of a problem as a sentence.
func formatStateProblem(text string) string {
	text = strings.TrimSuffix(text, ":") + "."
	return strings.ToUpper(text[:1]) + text[1:]
}
