package clusterupdate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/action/report"
)

// clusterVersionObject is the name of the ClusterVersion in errors.
const clusterVersionObject = `clusterversion "version"`

// Read returns the ClusterVersion of the cluster.
func Read(ctx context.Context, c client.Reader) (*configv1.ClusterVersion, error) {
	cv := &configv1.ClusterVersion{}
	err := c.Get(ctx, client.ObjectKey{Name: configv1.ClusterVersionName}, cv)
	switch {
	case err == nil:
		return cv, nil
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return nil, &report.Error{
			Object: clusterVersionObject,
			Err:    &report.Reworded{Text: "No cluster version information available - you must be connected to a cluster whose version is managed to fetch the current version", Cause: err},
			Advice: "choose another cluster with --context, or let Mainstay manage the version of this one: see 'mainstay cluster init --help'",
		}
	case apierrors.IsForbidden(err):
		return nil, &report.Error{Object: clusterVersionObject, Err: err, Advice: "ask an administrator of the cluster for the permission, or choose another user with --context"}
	}

	return nil, &report.Error{Object: clusterVersionObject, Err: err}
}

// patchSpec writes fields of the spec of the ClusterVersion as a merge patch.
func patchSpec(ctx context.Context, c client.Client, cv *configv1.ClusterVersion, spec map[string]any) error {
	patch, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		return err
	}

	if err := c.Patch(ctx, cv.DeepCopy(), client.RawPatch(types.MergePatchType, patch)); err != nil {
		e := &report.Error{Object: clusterVersionObject, Err: err}
		if apierrors.IsForbidden(err) {
			e.Advice = "ask an administrator of the cluster for the permission, or choose another user with --context"
		}
		return e
	}

	return nil
}

// desiredUpdatePatch returns the part of a merge patch that sets spec.desiredUpdate to
// update. Fields that are not set are removed.
func desiredUpdatePatch(update *configv1.Update) map[string]any {
	if update == nil {
		return map[string]any{"desiredUpdate": nil}
	}

	fields := map[string]any{"version": nil, "image": nil, "architecture": nil, "force": nil, "acceptRisks": nil}
	for name, value := range map[string]string{"version": update.Version, "image": update.Image, "architecture": string(update.Architecture)} {
		if value != "" {
			fields[name] = value
		}
	}

	if update.Force {
		fields["force"] = true
	}
	if len(update.AcceptRisks) > 0 {
		fields["acceptRisks"] = update.AcceptRisks
	}

	return map[string]any{"desiredUpdate": fields}
}

// conditionSummary is the content of a condition.
type conditionSummary struct{ status, reason, message string }

// String returns reason and message on a line each. Further lines of the message are
// indented too.
func (f *conditionSummary) String() string {
	return "  Reason: " + f.reason + "\n  Message: " + Indent(f.message)
}

// Indent indents all lines except the first by two spaces. Empty lines remain empty.
func Indent(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "\n", "\n  "), "\n  \n", "\n\n")
}

// findCondition returns a condition of the ClusterVersion, or nil if it does not exist.
func findCondition(cv *configv1.ClusterVersion, name string) *conditionSummary {
	c := configv1.FindCondition(cv.Status.Conditions, name)
	if c == nil {
		return nil
	}
	return &conditionSummary{string(c.Status), c.Reason, c.Message}
}

// updateServiceFailure returns the condition RetrievedUpdates if it is not true, and nil
// otherwise.
func updateServiceFailure(cv *configv1.ClusterVersion) *conditionSummary {
	if f := findCondition(cv, configv1.ClusterVersionRetrievedUpdates); f != nil && f.status != string(metav1.ConditionTrue) {
		return f
	}
	return nil
}

// NotRecommended returns the conditional updates whose condition Recommended is not true,
// the highest version first.
func NotRecommended(cv *configv1.ClusterVersion) []configv1.ConditionalUpdate {
	var found []configv1.ConditionalUpdate
	for _, update := range cv.Status.ConditionalUpdates {
		if RecommendedOf(update).Status != metav1.ConditionTrue {
			found = append(found, update)
		}
	}

	slices.SortStableFunc(found, func(a, b configv1.ConditionalUpdate) int {
		return compareVersions(b.Release.Version, a.Release.Version)
	})
	return found
}

// RecommendedOf returns the condition Recommended of a conditional update. Its status is
// Unknown if the condition does not exist yet.
func RecommendedOf(update configv1.ConditionalUpdate) metav1.Condition {
	if c := meta.FindStatusCondition(update.Conditions, configv1.ConditionalUpdateRecommended); c != nil {
		return *c
	}
	return metav1.Condition{Status: metav1.ConditionUnknown, Reason: "NotEvaluated", Message: "whether its risks apply to this cluster is not known yet"}
}

// Recommended returns the updates without applicable risks, the highest version first.
func Recommended(cv *configv1.ClusterVersion) []configv1.Release {
	found := slices.Clone(cv.Status.AvailableUpdates)
	slices.SortStableFunc(found, func(a, b configv1.Release) int { return compareVersions(b.Version, a.Version) })
	return found
}

// compareVersions compares two versions. Texts that are not semantic versions sort first.
func compareVersions(a, b string) int {
	left, errLeft := semver.Parse(a)
	right, errRight := semver.Parse(b)
	switch {
	case errLeft != nil && errRight != nil:
		return cmp.Compare(a, b)
	case errLeft != nil:
		return -1
	case errRight != nil:
		return 1
	}

	return left.Compare(right)
}

// formatChannels returns the names of channels as a list in parentheses.
func formatChannels(names []string) string { return fmt.Sprintf("(%s)", strings.Join(names, ", ")) }
