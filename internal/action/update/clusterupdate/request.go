package clusterupdate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
)

// Request requests an update of the cluster, or cancels a request.
type Request struct {
	// Client is the client of the cluster.
	Client client.Client

	// To is the requested version. Empty means none.
	To string
	// ToImage is the pull spec of the requested release. Empty means none.
	ToImage string
	// ToLatest requests the highest available version.
	ToLatest bool
	// ToMultiArch requests the current release with images for several architectures.
	ToMultiArch bool
	// Clear cancels the requested update.
	Clear bool

	// Force makes the operator ignore the release's signature and all conditions that block
	// the update.
	Force bool
	// AllowNotRecommended allows updates whose risks apply to the cluster.
	AllowNotRecommended bool
	// AllowExplicit allows an image that the update service does not list.
	AllowExplicit bool
	// AllowWithWarnings allows the request while the cluster is updating or failing.
	AllowWithWarnings bool
}

// ErrClearAlone reports that Clear was combined with another option.
var ErrClearAlone = errors.New("--clear may not be specified with any other flags")

// Outcome is the result of an operation.
type Outcome struct {
	// Message describes the result in one sentence.
	Message string `json:"message"`
	// Warnings are messages for the administrator.
	Warnings []string `json:"warnings,omitempty"`
	// Changed reports whether anything was written.
	Changed bool `json:"changed"`
}

// Validate checks the parts of the request that do not depend on the cluster.
func (r *Request) Validate() error {
	targets := 0
	for _, set := range []bool{r.To != "", r.ToImage != "", r.ToLatest} {
		if set {
			targets++
		}
	}

	switch {
	case r.Clear && (targets > 0 || r.ToMultiArch || r.Force || r.AllowNotRecommended || r.AllowExplicit || r.AllowWithWarnings):
		return ErrClearAlone
	case r.ToMultiArch && targets > 0:
		return errors.New("--to-multi-arch may not be used with --to, --to-image, or --to-latest")
	case r.To != "" && r.ToImage != "":
		return errors.New("only one of --to or --to-image may be provided")
	case r.ToLatest && targets > 1:
		return errors.New("--to-latest may not be used with --to or --to-image")
	}

	if r.To != "" {
		if _, err := semver.Parse(r.To); err != nil {
			return fmt.Errorf("--to must be a semantic version (e.g. 4.0.1 or 4.1.0-nightly-20181104): %w", err)
		}
	}

	if r.ToImage != "" {
		return r.validateTargetImage()
	}

	return nil
}

// Asks reports whether anything is requested.
func (r *Request) Asks() bool {
	return r.To != "" || r.ToImage != "" || r.ToLatest || r.ToMultiArch || r.Clear
}

// Run reads the ClusterVersion, decides, and writes the request.
func (r *Request) Run(ctx context.Context) (*Outcome, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}

	cv, err := Read(ctx, r.Client)
	if err != nil {
		return nil, err
	}

	update, outcome, err := r.decideUpdate(cv)
	if err != nil || !outcome.Changed {
		return outcome, err
	}

	return outcome, patchSpec(ctx, r.Client, cv, desiredUpdatePatch(update))
}

// decideUpdate returns the new spec.desiredUpdate and the outcome to report. A nil update
// removes the field.
func (r *Request) decideUpdate(cv *configv1.ClusterVersion) (*configv1.Update, *Outcome, error) {
	switch {
	case r.Clear:
		update, outcome := clearUpdate(cv)
		return update, outcome, nil
	case r.ToMultiArch:
		return r.requestMultiArch(cv)
	case r.To != "" && r.To == cv.Status.Desired.Version:
		return nil, &Outcome{Message: "info: Cluster is already at version " + r.To}, nil
	case r.ToImage != "" && r.ToImage == cv.Status.Desired.Image:
		return nil, &Outcome{Message: "info: Cluster is already at " + r.ToImage}, nil
	}

	outcome := &Outcome{Changed: true}
	target, latest, err := r.selectTarget(cv, outcome)
	if err != nil || latest {
		return nil, outcome, err
	}
	if err := r.checkClusterState(cv, outcome); err != nil {
		return nil, outcome, err
	}
	if warning := upgradeableWarning(cv, target); warning != "" && !r.Force {
		outcome.Warnings = append(outcome.Warnings, warning)
	}
	if r.Force {
		outcome.Warnings = append(outcome.Warnings, "--force skips the verification of the release's signature and ignores all conditions that block the update")
	}

	update := &configv1.Update{Version: target.Version, Image: target.Image, Force: r.Force, AcceptRisks: acceptedRisks(cv)}
	outcome.Message = "Requested update to " + describeRelease(target)
	return update, outcome, nil
}

// describeRelease returns the name of a release for messages.
func describeRelease(release configv1.Release) string {
	if release.Version != "" {
		return release.Version
	}
	return "release image " + release.Image
}

// acceptedRisks returns the risks that the spec accepts.
func acceptedRisks(cv *configv1.ClusterVersion) []configv1.AcceptRisk {
	if cv.Spec.DesiredUpdate == nil {
		return nil
	}
	return cv.Spec.DesiredUpdate.AcceptRisks
}

// namesRelease reports whether an update names a release: a version, an image or an
// architecture.
func namesRelease(update *configv1.Update) bool {
	return update.Version != "" || update.Image != "" || update.Architecture != ""
}

// clearUpdate returns a spec.desiredUpdate without a release. It keeps the accepted risks.
func clearUpdate(cv *configv1.ClusterVersion) (*configv1.Update, *Outcome) {
	requested, at := cv.Spec.DesiredUpdate, cv.Status.Desired
	var update *configv1.Update
	if kept := acceptedRisks(cv); len(kept) > 0 {
		update = &configv1.Update{AcceptRisks: kept}
	}
	if requested == nil || update != nil && equality.Semantic.DeepEqual(requested, update) {
		return nil, &Outcome{Message: "info: No update in progress"}
	}

	reached := requested.Image == at.Image || requested.Image == "" && requested.Version == at.Version && requested.Architecture == at.Architecture
	if reached || !namesRelease(requested) {
		return update, &Outcome{Changed: true, Message: "Cleared the update field, still at " + describeRelease(at)}
	}

	return update, &Outcome{Changed: true, Message: "Cancelled requested upgrade to " + describeRelease(configv1.Release{Version: requested.Version, Image: requested.Image})}
}

// requestMultiArch returns an update to the current version for several architectures.
func (r *Request) requestMultiArch(cv *configv1.ClusterVersion) (*configv1.Update, *Outcome, error) {
	if requested := cv.Spec.DesiredUpdate; requested != nil && requested.Architecture == configv1.ClusterVersionArchitectureMulti {
		return nil, nil, errors.New("info: Update to multi cluster architecture has already been requested")
	}

	outcome := &Outcome{Changed: true, Message: "Requested update to multi cluster architecture"}
	if err := r.checkClusterState(cv, outcome); err != nil {
		return nil, outcome, err
	}
	return &configv1.Update{
		Architecture: configv1.ClusterVersionArchitectureMulti, Version: cv.Status.Desired.Version, Force: r.Force, AcceptRisks: acceptedRisks(cv),
	}, outcome, nil
}

// updateCandidate is a release that the update service knows.
type updateCandidate struct {
	configv1.Release
	// notRecommended is the condition Recommended if it is not true. It is nil for a
	// recommended release.
	notRecommended *conditionSummary
}

// listCandidates returns the available and conditional updates, the highest version first.
func listCandidates(cv *configv1.ClusterVersion) []updateCandidate {
	var found []updateCandidate
	for _, release := range cv.Status.AvailableUpdates {
		found = append(found, updateCandidate{Release: release})
	}

	for _, update := range NotRecommended(cv) {
		condition := RecommendedOf(update)
		found = append(found, updateCandidate{update.Release, &conditionSummary{string(condition.Status), condition.Reason, condition.Message}})
	}

	slices.SortStableFunc(found, func(a, b updateCandidate) int { return compareVersions(b.Version, a.Version) })
	return found
}

// selectTarget returns the requested release. The result latest is true if no release is
// higher than the cluster's.
func (r *Request) selectTarget(cv *configv1.ClusterVersion, outcome *Outcome) (target configv1.Release, latest bool, err error) {
	all := listCandidates(cv)
	if r.ToLatest {
		at := slices.IndexFunc(all, func(c updateCandidate) bool { return c.notRecommended == nil || r.AllowNotRecommended })
		if at >= 0 {
			return r.acceptCandidate(all[at], outcome)
		}
		if updateServiceFailure(cv) != nil {
			return target, false, r.targetNotFoundError(cv, all)
		}

		outcome.Changed, outcome.Message = false, "info: Cluster is already at the latest available version "+cv.Status.Desired.Version
		return target, true, nil
	}

	// A recommended update takes precedence over the same release with risks.
	for _, wanted := range []bool{true, false} {
		for _, c := range all {
			if (c.notRecommended == nil) == wanted && r.matchesRelease(c.Release) {
				return r.acceptCandidate(c, outcome)
			}
		}
	}

	if r.ToImage == "" || !r.AllowExplicit {
		return target, false, r.targetNotFoundError(cv, all)
	}

	outcome.Warnings = append(outcome.Warnings,
		"The requested upgrade image is not one of the available updates. You have used --allow-explicit-upgrade for the update to proceed anyway")
	return configv1.Release{Image: r.ToImage}, false, nil
}

// matchesRelease reports whether a release is the requested one. The same digest in another
// repository is the same release.
func (r *Request) matchesRelease(release configv1.Release) bool {
	if r.To != "" {
		return release.Version == r.To
	}
	_, wanted, byDigest := strings.Cut(r.ToImage, "@")
	_, digest, _ := strings.Cut(release.Image, "@")
	return release.Image == r.ToImage || byDigest && wanted == digest
}

// acceptCandidate returns the release of a candidate, or an error if its risks are not
// accepted.
func (r *Request) acceptCandidate(c updateCandidate, outcome *Outcome) (configv1.Release, bool, error) {
	if r.ToImage != "" {
		c.Image = r.ToImage // the requested repository
	}

	f := c.notRecommended
	if f == nil {
		return c.Release, false, nil
	}
	if !r.AllowNotRecommended {
		return c.Release, false, fmt.Errorf("the update %s is not one of the recommended updates, but is available as a conditional update. "+
			"To accept the Recommended=%s risk and to proceed with update use --allow-not-recommended.\n%s", cmp.Or(c.Version, c.Image), f.status, f)
	}

	outcome.Warnings = append(outcome.Warnings, fmt.Sprintf("with --allow-not-recommended you have accepted the risks with %s and bypassed Recommended=%s %s: %s",
		cmp.Or(c.Version, c.Image), f.status, f.reason, f.message))
	return c.Release, false, nil
}

// targetNotFoundError returns an error that says why the release cannot be requested and
// what to do.
func (r *Request) targetNotFoundError(cv *configv1.ClusterVersion, all []updateCandidate) error {
	next := "--to-image to continue with the update"
	switch {
	case r.ToImage != "":
		next = "--allow-explicit-upgrade to continue with the update"
	case r.ToLatest:
		next = "--to-image to continue with an update"
	}

	if f := updateServiceFailure(cv); f != nil {
		return newSentenceError("cannot refresh available updates:\n%s\nspecify %s.", f, next)
	}

	var versions []string
	for _, c := range all {
		if c.notRecommended == nil || r.AllowNotRecommended {
			versions = append(versions, c.Version)
		}
	}

	if len(versions) > 0 {
		return newSentenceError("the update is not one of the possible targets: %s. specify %s.", strings.Join(slices.Compact(versions), ", "), next)
	}

	kinds := "recommended"
	if r.AllowNotRecommended {
		kinds = "recommended or conditional"
	}

	return newSentenceError("no %s updates, specify %s or wait for new updates to be available.", kinds, next)
}

// newSentenceError returns an error that ends with a full stop, as administrators know
// these messages.
func newSentenceError(format string, args ...any) error { return fmt.Errorf(format, args...) }

// stateProblem is a condition of the ClusterVersion that speaks against an update.
type stateProblem struct {
	condition, text string
	found           *conditionSummary
}

// findStateProblems returns what speaks against any update: the cluster is invalid, failing or updating.
func findStateProblems(cv *configv1.ClusterVersion) []stateProblem {
	var problems []stateProblem
	for _, p := range []stateProblem{
		{configv1.ClusterVersionInvalid, "the cluster version object is invalid, you must correct the invalid state first:", nil},
		{configv1.ClusterVersionFailing, fmt.Sprintf("the cluster is experiencing an error reconciling %q:", cv.Status.Desired.Version), nil},
		{configv1.OperatorProgressing, "the cluster is already upgrading:", nil},
	} {
		if p.found = conditionWithStatus(cv, p.condition, metav1.ConditionTrue); p.found != nil {
			problems = append(problems, p)
		}
	}
	return problems
}

// checkClusterState refuses a request while the cluster is invalid, failing or updating. If
// AllowWithWarnings is set, it adds a warning instead.
func (r *Request) checkClusterState(cv *configv1.ClusterVersion, outcome *Outcome) error {
	var problems []string
	for _, p := range findStateProblems(cv) {
		problems = append(problems, p.text+"\n\n"+p.found.String())
	}

	if len(problems) == 0 {
		return nil
	}

	text := strings.Join(problems, "\n\n")
	if !r.AllowWithWarnings {
		return newSentenceError("%s\n\nIf you want to upgrade anyway, use --allow-upgrade-with-warnings.", text)
	}

	outcome.Warnings = append(outcome.Warnings, "--allow-upgrade-with-warnings is bypassing: "+text)
	return nil
}
