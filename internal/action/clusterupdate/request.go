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
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
)

// Request asks for an update of the cluster, or takes the request back.
type Request struct {
	// Client reaches the cluster.
	Client client.Client

	// To is the version wanted. Empty for none.
	To string
	// ToImage is the pull spec of the release wanted. Empty for none.
	ToImage string
	// ToLatest asks for the highest version there is.
	ToLatest bool
	// ToMultiArch asks for the release that the cluster is at, with images for more than one
	// architecture.
	ToMultiArch bool
	// Clear takes back what was asked for.
	Clear bool

	// Force has the operator pass over the release's signature and whatever stands against
	// the update.
	Force bool
	// AllowNotRecommended also takes updates whose risks apply to the cluster.
	AllowNotRecommended bool
	// AllowExplicit also takes an image that the update service does not know.
	AllowExplicit bool
	// AllowWithWarnings asks although the cluster is being updated already, or fails.
	AllowWithWarnings bool
}

// ErrClearAlone says that nothing can be asked for while it is taken back.
var ErrClearAlone = errors.New("--clear may not be specified with any other flags")

// Outcome is what an operation did.
type Outcome struct {
	// Message says it in a sentence.
	Message string `json:"message"`
	// Warnings are what a person should know beside.
	Warnings []string `json:"warnings,omitempty"`
	// Changed reports whether anything was written.
	Changed bool `json:"changed"`
}

// Validate finds faults of the request that do not depend on the cluster.
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
		return r.validateImage()
	}

	return nil
}

// Asks reports whether anything is asked for at all.
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

	update, outcome, err := r.decide(cv)
	if err != nil || !outcome.Changed {
		return outcome, err
	}

	return outcome, write(ctx, r.Client, cv, desired(update))
}

// decide returns what spec.desiredUpdate shall be, and what is told of it. A nil update is
// none.
func (r *Request) decide(cv *configv1.ClusterVersion) (*configv1.Update, *Outcome, error) {
	switch {
	case r.Clear:
		update, outcome := clearing(cv)
		return update, outcome, nil
	case r.ToMultiArch:
		return r.multiArch(cv)
	case r.To != "" && r.To == cv.Status.Desired.Version:
		return nil, &Outcome{Message: "info: Cluster is already at version " + r.To}, nil
	case r.ToImage != "" && r.ToImage == cv.Status.Desired.Image:
		return nil, &Outcome{Message: "info: Cluster is already at " + r.ToImage}, nil
	}

	outcome := &Outcome{Changed: true}
	target, latest, err := r.choose(cv, outcome)
	if err != nil || latest {
		return nil, outcome, err
	}
	if err := r.guard(cv, outcome); err != nil {
		return nil, outcome, err
	}
	if warning := warnUpgradeable(cv, target); warning != "" && !r.Force {
		outcome.Warnings = append(outcome.Warnings, warning)
	}
	if r.Force {
		outcome.Warnings = append(outcome.Warnings, "--force passes over the signature of the release, and over whatever stands against the update")
	}

	update := &configv1.Update{Version: target.Version, Image: target.Image, Force: r.Force, AcceptRisks: risks(cv)}
	outcome.Message = "Requested update to " + nameOf(target)
	return update, outcome, nil
}

// nameOf names a release as people are told.
func nameOf(release configv1.Release) string {
	if release.Version != "" {
		return release.Version
	}
	return "release image " + release.Image
}

func risks(cv *configv1.ClusterVersion) []configv1.AcceptRisk {
	if cv.Spec.DesiredUpdate == nil {
		return nil
	}
	return cv.Spec.DesiredUpdate.AcceptRisks
}

// isTarget reports whether an update names a release.
func isTarget(update *configv1.Update) bool {
	return update.Version != "" || update.Image != "" || update.Architecture != ""
}

// clearing takes back what was asked for, and keeps the risks that were accepted.
func clearing(cv *configv1.ClusterVersion) (*configv1.Update, *Outcome) {
	asked, at := cv.Spec.DesiredUpdate, cv.Status.Desired
	var update *configv1.Update
	if kept := risks(cv); len(kept) > 0 {
		update = &configv1.Update{AcceptRisks: kept}
	}
	if asked == nil || update != nil && equality.Semantic.DeepEqual(asked, update) {
		return nil, &Outcome{Message: "info: No update in progress"}
	}

	reached := asked.Image == at.Image || asked.Image == "" && asked.Version == at.Version && asked.Architecture == at.Architecture
	if reached || !isTarget(asked) {
		return update, &Outcome{Changed: true, Message: "Cleared the update field, still at " + nameOf(at)}
	}

	return update, &Outcome{Changed: true, Message: "Cancelled requested upgrade to " + nameOf(configv1.Release{Version: asked.Version, Image: asked.Image})}
}

func (r *Request) multiArch(cv *configv1.ClusterVersion) (*configv1.Update, *Outcome, error) {
	if asked := cv.Spec.DesiredUpdate; asked != nil && asked.Architecture == configv1.ClusterVersionArchitectureMulti {
		return nil, nil, errors.New("info: Update to multi cluster architecture has already been requested")
	}

	outcome := &Outcome{Changed: true, Message: "Requested update to multi cluster architecture"}
	if err := r.guard(cv, outcome); err != nil {
		return nil, outcome, err
	}
	return &configv1.Update{
		Architecture: configv1.ClusterVersionArchitectureMulti, Version: cv.Status.Desired.Version, Force: r.Force, AcceptRisks: risks(cv),
	}, outcome, nil
}

// candidate is a release that the update service knows.
type candidate struct {
	configv1.Release
	// recommended is nil for one that has no risks which apply.
	recommended *finding
}

// candidates are those that may be chosen, the highest version first.
func candidates(cv *configv1.ClusterVersion) []candidate {
	var found []candidate
	for _, release := range cv.Status.AvailableUpdates {
		found = append(found, candidate{Release: release})
	}

	for _, update := range NotRecommended(cv) {
		condition := RecommendedOf(update)
		found = append(found, candidate{update.Release, &finding{string(condition.Status), condition.Reason, condition.Message}})
	}

	slices.SortStableFunc(found, func(a, b candidate) int { return compareVersions(b.Version, a.Version) })
	return found
}

// choose finds the release that is asked for. latest says that there is none above the
// cluster's.
func (r *Request) choose(cv *configv1.ClusterVersion, outcome *Outcome) (target configv1.Release, latest bool, err error) {
	all := candidates(cv)
	if r.ToLatest {
		at := slices.IndexFunc(all, func(c candidate) bool { return c.recommended == nil || r.AllowNotRecommended })
		if at >= 0 {
			return r.take(all[at], outcome)
		}
		if unretrieved(cv) != nil {
			return target, false, r.notFound(cv, all)
		}

		outcome.Changed, outcome.Message = false, "info: Cluster is already at the latest available version "+cv.Status.Desired.Version
		return target, true, nil
	}

	// A recommended one comes before the same release with risks.
	for _, wanted := range []bool{true, false} {
		for _, c := range all {
			if (c.recommended == nil) == wanted && r.is(c.Release) {
				return r.take(c, outcome)
			}
		}
	}

	if r.ToImage == "" || !r.AllowExplicit {
		return target, false, r.notFound(cv, all)
	}

	outcome.Warnings = append(outcome.Warnings,
		"The requested upgrade image is not one of the available updates. You have used --allow-explicit-upgrade for the update to proceed anyway")
	return configv1.Release{Image: r.ToImage}, false, nil
}

// is reports whether a release is the one that is asked for. The same digest in another
// repository is the same release.
func (r *Request) is(release configv1.Release) bool {
	if r.To != "" {
		return release.Version == r.To
	}
	_, wanted, byDigest := strings.Cut(r.ToImage, "@")
	_, digest, _ := strings.Cut(release.Image, "@")
	return release.Image == r.ToImage || byDigest && wanted == digest
}

// take takes a release, if its risks are accepted.
func (r *Request) take(c candidate, outcome *Outcome) (configv1.Release, bool, error) {
	if r.ToImage != "" {
		c.Image = r.ToImage // the repository that was asked for
	}

	f := c.recommended
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

// notFound says why the release cannot be taken, and what to do.
func (r *Request) notFound(cv *configv1.ClusterVersion, all []candidate) error {
	next := "--to-image to continue with the update"
	switch {
	case r.ToImage != "":
		next = "--allow-explicit-upgrade to continue with the update"
	case r.ToLatest:
		next = "--to-image to continue with an update"
	}

	if f := unretrieved(cv); f != nil {
		return sentence("cannot refresh available updates:\n%s\nspecify %s.", f, next)
	}

	var versions []string
	for _, c := range all {
		if c.recommended == nil || r.AllowNotRecommended {
			versions = append(versions, c.Version)
		}
	}

	if len(versions) > 0 {
		return sentence("the update is not one of the possible targets: %s. specify %s.", strings.Join(slices.Compact(versions), ", "), next)
	}

	kinds := "recommended"
	if r.AllowNotRecommended {
		kinds = "recommended or conditional"
	}

	return sentence("no %s updates, specify %s or wait for new updates to be available.", kinds, next)
}

// sentence makes an error that ends with a full stop: administrators know it so.
func sentence(format string, args ...any) error { return fmt.Errorf(format, args...) }

// guard refuses to ask a cluster for an update that has enough to do.
func (r *Request) guard(cv *configv1.ClusterVersion, outcome *Outcome) error {
	var against []string
	for _, g := range []struct{ condition, text string }{
		{configv1.ClusterVersionInvalid, "the cluster version object is invalid, you must correct the invalid state first:"},
		{configv1.ClusterVersionFailing, fmt.Sprintf("the cluster is experiencing an error reconciling %q:", cv.Status.Desired.Version)},
		{configv1.OperatorProgressing, "the cluster is already upgrading:"},
	} {
		if f := findingOf(cv, g.condition); f != nil && f.status == "True" {
			against = append(against, g.text+"\n\n"+f.String())
		}
	}

	if len(against) == 0 {
		return nil
	}

	text := strings.Join(against, "\n\n")
	if !r.AllowWithWarnings {
		return sentence("%s\n\nIf you want to upgrade anyway, use --allow-upgrade-with-warnings.", text)
	}

	outcome.Warnings = append(outcome.Warnings, "--allow-upgrade-with-warnings is bypassing: "+text)
	return nil
}
