package requirements

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/rbac"
)

// checkServiceAccounts checks every service account of the strategy and its rights. It returns an error for an invalid
// rule.
func (r *Result) checkServiceAccounts(csv *v1alpha1.ClusterServiceVersion, cluster *ClusterState) error {
	spec := csv.Spec.InstallStrategy.StrategySpec
	policy := cluster.Policy
	if policy == nil {
		policy = &rbac.Policy{}
	}

	for _, p := range slices.Concat(spec.Permissions, spec.ClusterPermissions) {
		for i := range p.Rules {
			if err := validateRule(&p.Rules[i]); err != nil {
				return fmt.Errorf("rule %d of ServiceAccount %q: %w", i+1, csvinfo.AccountName(p), err)
			}
		}
	}

	for _, name := range AccountNames(csv) {
		status := newAccountStatus(name)
		account := cluster.Accounts[name]
		switch {
		case account == nil:
			status.Status, status.Message = v1alpha1.RequirementNotPresent, "Service account does not exist"
			r.add(false, status)
			continue
		case isOwnedByAnotherCSV(csv, account):
			status.Status, status.Message = v1alpha1.RequirementPresentNotSatisfied, "Service account is owned by another ClusterServiceVersion"
			r.add(false, status)
			continue
		}

		granted := policy.Granted(rbac.ServiceAccount(csv.Namespace, name))
		local, ok := checkAccountRules(granted, spec.Permissions, name, csv.Namespace)
		wide, okWide := checkAccountRules(granted, spec.ClusterPermissions, name, "")
		status.Dependents = slices.Concat(local, wide)
		status.Status = v1alpha1.RequirementPresent
		if !ok || !okWide {
			r.LacksRights = true
			status.Status, status.Message = v1alpha1.RequirementPresentNotSatisfied, "Policy rule not satisfied for service account"
		}

		r.add(ok && okWide, status)
	}

	return nil
}

// checkAccountRules returns the status of each rule of an account in a namespace, or in the whole cluster when namespace
// is empty. met is true when all rules are granted.
func checkAccountRules(granted *rbac.Granted, permissions []v1alpha1.StrategyDeploymentPermissions, account, namespace string) (found []v1alpha1.DependentStatus, met bool) {
	met = true
	scope := "namespaced"
	if namespace == "" {
		scope = "cluster"
	}

	for _, p := range permissions {
		if csvinfo.AccountName(p) != account {
			continue
		}
		for i := range p.Rules {
			status := v1alpha1.DependentStatus{Group: rbacv1.GroupName, Version: "v1", Kind: "PolicyRule", Status: v1alpha1.DependentSatisfied}
			if !granted.Covers(namespace, &p.Rules[i]) {
				status.Status, met = v1alpha1.DependentNotSatisfied, false
			}

			encoded, err := json.Marshal(p.Rules[i])
			if err != nil {
				status.Status, status.Message, met = v1alpha1.DependentNotSatisfied, "rule unmarshallable", false
			} else {
				status.Message = scope + " rule:" + string(encoded)
			}

			found = append(found, status)
		}
	}

	return found, met
}

// validateRule returns an error for a rule that no role can contain.
func validateRule(rule *rbacv1.PolicyRule) error {
	switch {
	case len(rule.Verbs) == 0:
		return errors.New("policy rules must have at least one verb")
	case len(rule.NonResourceURLs) > 0 && (len(rule.Resources) > 0 || len(rule.APIGroups) > 0):
		return errors.New("rule cannot apply to both regular resources and non-resource URLs")
	default:
		return nil
	}
}

// isOwnedByAnotherCSV reports whether an account is owned by ClusterServiceVersions, but not by this one.
func isOwnedByAnotherCSV(csv *v1alpha1.ClusterServiceVersion, account *metav1.PartialObjectMetadata) bool {
	owned := slices.ContainsFunc(account.OwnerReferences, func(o metav1.OwnerReference) bool {
		return o.Kind == v1alpha1.ClusterServiceVersionKind
	})
	return owned && !csvinfo.IsOwner(account.OwnerReferences, csv)
}
