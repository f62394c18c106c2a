package csv

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csv/webhook"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/membership"
)

// factReader reads the facts about ClusterServiceVersions.
type factReader struct {
	// client reads from the cache.
	client client.Client
	// live reads from the API server without the cache, so that decisions see the latest writes.
	live         client.Reader
	clock        clock.PassiveClock
	requirements *requirementReader
	installation *installationReader
}

// facts determine what must be done for a ClusterServiceVersion.
type facts struct {
	// members are the OperatorGroups, and admission what they mean for the ClusterServiceVersion.
	members   Membership
	admission Admission
	// phase are the facts that the phase needs; nil when the ClusterServiceVersion is not admitted.
	phase *Facts
}

// gatherFacts reads the OperatorGroups and, if they admit the ClusterServiceVersion, the facts that its phase needs. It
// reads nothing if no phase is decided in this pass.
func (r *factReader) gatherFacts(ctx context.Context, csv *v1alpha1.ClusterServiceVersion) (*facts, error) {
	f := &facts{}
	if !hasPhaseDecision(csv) {
		if _, err := csvinfo.APILabels(csv); err != nil {
			log.FromContext(ctx).Info("Skipping a ClusterServiceVersion whose APIs cannot be parsed", "reason", err.Error())
		}
		return f, nil
	}

	var siblings v1alpha1.ClusterServiceVersionList
	if err := r.client.List(ctx, &siblings, client.InNamespace(csv.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return f, fmt.Errorf("listing the ClusterServiceVersions of namespace %s: %w", csv.Namespace, err)
	}

	var err error
	if f.members, err = r.readMembership(ctx, csv.Namespace, siblings.Items); err != nil {
		return f, err
	}

	f.admission = Admit(csv, f.members)
	if f.admission.Stop {
		return f, nil
	}

	f.phase, err = r.gatherPhaseFacts(ctx, csv, siblings.Items, f.members.Group)
	return f, err
}

// readMembership reads the OperatorGroup of a namespace with the given ClusterServiceVersions, and all OperatorGroups of the
// cluster.
func (r *factReader) readMembership(ctx context.Context, namespace string, csvs []v1alpha1.ClusterServiceVersion) (Membership, error) {
	m := Membership{CSVs: csvs}
	m.Group, m.Err = membership.OnlyGroupOf(ctx, r.client, namespace)
	if m.Err != nil && !errors.Is(m.Err, membership.ErrNone) && !errors.Is(m.Err, membership.ErrSeveral) {
		return m, m.Err
	}

	var all operatorsv1.OperatorGroupList
	if err := r.client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return m, fmt.Errorf("listing OperatorGroups: %w", err)
	}

	m.All = all.Items
	return m, nil
}

// gatherPhaseFacts reads the facts that the phase needs.
func (r *factReader) gatherPhaseFacts(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, siblings []v1alpha1.ClusterServiceVersion, g *operatorsv1.OperatorGroup) (*Facts, error) {
	f := &Facts{Now: r.clock.Now(), FailForward: g.Spec.UpgradeStrategy == operatorsv1.UpgradeStrategyUnsafeFailForward}
	f.setReplacements(csv, siblings)
	var err error
	switch csv.Status.Phase {
	case v1alpha1.CSVPhaseNone, v1alpha1.CSVPhasePending:
		err = r.gatherPendingFacts(ctx, csv, siblings, f)
	case v1alpha1.CSVPhaseInstalling:
		err = r.installation.gatherInstallation(ctx, csv, g, f)
	case v1alpha1.CSVPhaseSucceeded, v1alpha1.CSVPhaseFailed:
		if f.Replacement != nil && f.LastReplacementErr == nil && (csv.Status.Phase == v1alpha1.CSVPhaseSucceeded || f.FailForward) {
			return f, nil // It is replaced regardless of any other fact.
		}
		f.CRDOwner = findCRDOwnerConflict(csv, siblings)
		f.WebhooksErr = webhook.Validate(csv)
		if err = r.requirements.gatherRequirements(ctx, csv, siblings, f); err == nil {
			err = r.installation.gatherInstallation(ctx, csv, g, f)
		}
	case v1alpha1.CSVPhaseReplacing:
		err = r.gatherReplacingFacts(ctx, csv, f)
	}

	return f, err
}

// setReplacements sets the facts about the ClusterServiceVersions that replace csv.
func (f *Facts) setReplacements(csv *v1alpha1.ClusterServiceVersion, siblings []v1alpha1.ClusterServiceVersion) {
	f.Replacement = csvinfo.Replacement(csv, siblings)
	f.LastReplacement, f.LastReplacementErr = csvinfo.LastReplacement(csv, siblings)
}

// gatherReplacingFacts reads the replaced ClusterServiceVersion. It confirms with the API server that there is no replacement.
// With an outdated cache, the former operator would be installed in addition to the new one.
func (r *factReader) gatherReplacingFacts(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, f *Facts) error {
	if f.Replacement == nil {
		var siblings v1alpha1.ClusterServiceVersionList
		if err := r.live.List(ctx, &siblings, client.InNamespace(csv.Namespace)); err != nil {
			return fmt.Errorf("listing the ClusterServiceVersions of namespace %s: %w", csv.Namespace, err)
		}
		f.setReplacements(csv, siblings.Items)
	}

	var err error
	f.Replaced, err = r.readReplacedCSV(ctx, csv)
	return err
}

func (r *factReader) gatherPendingFacts(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, siblings []v1alpha1.ClusterServiceVersion, f *Facts) error {
	var err error
	if f.Replaced, err = r.readReplacedCSV(ctx, csv); err != nil {
		return err
	}

	if f.Replaced != nil {
		if f.Blocked, err = UpgradeBlockedReason(ctx, r.live, csv.Namespace, csv.Spec.Replaces); err != nil {
			return err
		}
	}

	f.WebhooksErr, f.CRDOwner = webhook.Validate(csv), findCRDOwnerConflict(csv, siblings)
	if err := r.requirements.gatherRequirements(ctx, csv, siblings, f); err != nil {
		return err
	}
	if len(csv.Spec.APIServiceDefinitions.Owned) == 0 {
		return nil
	}

	state, err := r.installation.newServingServer(r.client).Read(ctx, csv)
	if err != nil {
		return err
	}

	f.NotAdoptable = state.CheckAdoptable(r.installation.adoptionCheck(ctx, csv))
	return nil
}

// readReplacedCSV returns the ClusterServiceVersion that csv replaces; nil when there is none. It
// reads from the API server, because with a stale cache both operators could run at the same time.
func (r *factReader) readReplacedCSV(ctx context.Context, csv *v1alpha1.ClusterServiceVersion) (*v1alpha1.ClusterServiceVersion, error) {
	if csv.Spec.Replaces == "" || csv.Spec.Replaces == csv.Name {
		return nil, nil
	}

	found := &v1alpha1.ClusterServiceVersion{}
	key := client.ObjectKey{Namespace: csv.Namespace, Name: csv.Spec.Replaces}
	if err := r.live.Get(ctx, key, found); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading ClusterServiceVersion %s, which %s replaces: %w", key, csv.Name, err)
	}

	if csvinfo.IsCopied(found) {
		return nil, nil
	}

	return found, nil
}

// findCRDOwnerConflict returns the name of another ClusterServiceVersion in the namespace that owns
// one of the CRDs and is neither an earlier nor a later version of csv.
func findCRDOwnerConflict(csv *v1alpha1.ClusterServiceVersion, siblings []v1alpha1.ClusterServiceVersion) string {
	chain := csvinfo.ReplacementChain(csv, siblings)
	for i := range siblings {
		other := &siblings[i]
		if chain.Has(other.Name) || csvinfo.IsCopied(other) {
			continue
		}
		for _, crd := range csv.Spec.CustomResourceDefinitions.Owned {
			if slices.ContainsFunc(other.Spec.CustomResourceDefinitions.Owned, func(d v1alpha1.CRDDescription) bool { return d.Name == crd.Name }) {
				return other.Name
			}
		}
	}

	return ""
}
