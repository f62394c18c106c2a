package group

import (
	"context"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

// FieldManager is the field manager for server-side apply.
const FieldManager = "mainstay"

// roleWriter applies ClusterRoles that differ from the desired ones.
type roleWriter struct {
	client client.Client
	// cache has the ClusterRoles that are labelled as managed by OLM.
	cache client.Reader
}

// ensureRoles applies the ClusterRoles that differ.
func (r *roleWriter) ensureRoles(ctx context.Context, wanted []rbacv1.ClusterRole) error {
	for i := range wanted {
		if err := r.ensureRole(ctx, &wanted[i]); err != nil {
			return err
		}
	}
	return nil
}

// ensureRole applies a ClusterRole if it differs. It keeps labels and owner references that others have set.
func (r *roleWriter) ensureRole(ctx context.Context, wanted *rbacv1.ClusterRole) error {
	found := &rbacv1.ClusterRole{}
	err := r.cache.Get(ctx, client.ObjectKeyFromObject(wanted), found)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading ClusterRole %s: %w", wanted.Name, err)
	}
	if err == nil && isUpToDate(found, wanted) {
		return nil
	}
	if err := r.client.Apply(ctx, newApplyConfiguration(wanted), client.FieldOwner(FieldManager), client.ForceOwnership); err != nil {
		return fmt.Errorf("writing ClusterRole %s: %w", wanted.Name, err)
	}

	return nil
}

// isUpToDate reports whether a ClusterRole has the wanted labels, owners and rules. It ignores aggregated rules.
func isUpToDate(found, wanted *rbacv1.ClusterRole) bool {
	isOwned := func(owner metav1.OwnerReference) bool {
		return slices.ContainsFunc(found.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == owner.UID })
	}
	return csvinfo.HasLabels(found.Labels, wanted.Labels) &&
		!slices.ContainsFunc(wanted.OwnerReferences, func(o metav1.OwnerReference) bool { return !isOwned(o) }) &&
		equality.Semantic.DeepEqual(found.AggregationRule, wanted.AggregationRule) &&
		(len(wanted.Rules) == 0 || equality.Semantic.DeepEqual(found.Rules, wanted.Rules))
}

func newApplyConfiguration(role *rbacv1.ClusterRole) *rbacv1ac.ClusterRoleApplyConfiguration {
	ac := rbacv1ac.ClusterRole(role.Name).WithLabels(role.Labels)
	for _, o := range role.OwnerReferences {
		ac.WithOwnerReferences(metav1ac.OwnerReference().WithAPIVersion(o.APIVersion).WithKind(o.Kind).WithName(o.Name).WithUID(o.UID))
	}

	if role.AggregationRule != nil {
		rule := rbacv1ac.AggregationRule()
		for _, s := range role.AggregationRule.ClusterRoleSelectors {
			rule.WithClusterRoleSelectors(metav1ac.LabelSelector().WithMatchLabels(s.MatchLabels))
		}
		ac.WithAggregationRule(rule)
	}

	for _, r := range role.Rules {
		rule := rbacv1ac.PolicyRule().WithVerbs(r.Verbs...).WithAPIGroups(r.APIGroups...).WithResources(r.Resources...)
		if len(r.ResourceNames) > 0 {
			rule.WithResourceNames(r.ResourceNames...)
		}
		ac.WithRules(rule)
	}

	return ac
}
