package validate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	rbacv1 "k8s.io/api/rbac/v1"
)

// removedAPIs are the APIs that a version of Kubernetes no longer serves: kinds by
// apiVersion.
type removedAPIs struct {
	minor uint64
	kinds map[string][]string
}

var removals = []removedAPIs{
	{22, map[string][]string{
		"admissionregistration.k8s.io/v1beta1": {"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"},
		"apiregistration.k8s.io/v1beta1":       {"APIService"},
		"authentication.k8s.io/v1beta1":        {"TokenReview"},
		"authorization.k8s.io/v1beta1":         {"LocalSubjectAccessReview", "SelfSubjectAccessReview", "SelfSubjectRulesReview", "SubjectAccessReview"},
		"certificates.k8s.io/v1beta1":          {"CertificateSigningRequest"},
		"coordination.k8s.io/v1beta1":          {"Lease"},
		"extensions/v1beta1":                   {"Ingress"},
		"networking.k8s.io/v1beta1":            {"Ingress", "IngressClass"},
		"rbac.authorization.k8s.io/v1beta1":    {"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"},
		"scheduling.k8s.io/v1beta1":            {"PriorityClass"},
		"storage.k8s.io/v1beta1":               {"CSIDriver", "CSINode", "StorageClass", "VolumeAttachment"},
	}},
	{25, map[string][]string{
		"autoscaling/v2beta1":      {"HorizontalPodAutoscaler"},
		"batch/v1beta1":            {"CronJob"},
		"discovery.k8s.io/v1beta1": {"EndpointSlice"},
		"events.k8s.io/v1beta1":    {"Event"},
		"node.k8s.io/v1beta1":      {"RuntimeClass"},
		"policy/v1beta1":           {"PodDisruptionBudget", "PodSecurityPolicy"},
	}},
	{26, map[string][]string{
		"autoscaling/v2beta2": {"HorizontalPodAutoscaler"},
	}},
}

// checkRemovedAPIs reports objects of APIs that a version of Kubernetes no longer serves.
// They are errors if the bundle only runs on that version or a later one, and otherwise
// warnings.
func checkRemovedAPIs(s *decodedBundle, options Options, found *findings) {
	if s.csv == nil {
		return
	}

	for _, removed := range removals {
		level := Warning
		if isAtLeastMinor(options.KubeVersion, removed.minor) || isAtLeastMinor(string(s.csv.Spec.MinKubeVersion), removed.minor) {
			level = Error
		}
		if names := s.namesOfRemoved(removed); len(names) > 0 {
			found.addAboutValue(level, s.csv.Name, "%s", removed.formatMessage(names))
		}
		if removed.minor != 25 {
			continue
		}
		if names := s.podSecurityPolicyGrants(); len(names) > 0 {
			found.addAboutValue(Warning, s.csv.Name, "%s", removed.formatMessage(names))
		}
	}
}

func isAtLeastMinor(version string, minor uint64) bool {
	parsed, err := semver.ParseTolerant(version)
	return err == nil && parsed.GE(semver.Version{Major: 1, Minor: minor})
}

func (r removedAPIs) formatMessage(names map[string][]string) string {
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(names)) {
		kinds = append(kinds, fmt.Sprintf("%s: (%+q)", kind, names[kind]))
	}
	return fmt.Sprintf("this bundle is using APIs which were deprecated and removed in v1.%d. "+
		"More info: https://kubernetes.io/docs/reference/using-api/deprecation-guide/#v1-%d. Migrate the API(s) for %s",
		r.minor, r.minor, strings.Join(kinds, ","))
}

// namesOfRemoved returns the names of the objects of removed APIs, by kind.
func (s *decodedBundle) namesOfRemoved(r removedAPIs) map[string][]string {
	names := map[string][]string{}
	for _, crd := range s.crds {
		if crd.v1beta1 && r.minor == 22 {
			names["CRD"] = append(names["CRD"], crd.name)
		}
	}

	for _, o := range s.objects {
		if slices.Contains(r.kinds[o.apiVersion], o.kind) {
			names[o.kind] = append(names[o.kind], o.name)
		}
	}
	return names
}

// podSecurityPolicyGrants returns the names of the objects that grant permissions on
// PodSecurityPolicies, by kind.
func (s *decodedBundle) podSecurityPolicyGrants() map[string][]string {
	names := map[string][]string{}
	for _, granted := range s.collectGrants() {
		if granted.coversResource("policy", "podsecuritypolicies") && !slices.Contains(names[granted.kind], granted.name) {
			names[granted.kind] = append(names[granted.kind], granted.name)
		}
	}
	return names
}

// grant is a policy rule with the object that contains it.
type grant struct {
	kind, name string
	rule       rbacv1.PolicyRule
}

// coversResource reports whether the rule names a resource of a group. It may name one of the two
// by "*". A rule for everything names none: it says nothing about what the bundle uses.
func (g grant) coversResource(group, resource string) bool {
	hasGroup, hasResource := slices.Contains(g.rule.APIGroups, group), slices.Contains(g.rule.Resources, resource)
	return hasGroup && hasResource ||
		hasGroup && slices.Contains(g.rule.Resources, rbacv1.ResourceAll) ||
		hasResource && slices.Contains(g.rule.APIGroups, rbacv1.APIGroupAll)
}

// allowsAnyVerb reports whether the rule allows any of the verbs.
func (g grant) allowsAnyVerb(verbs ...string) bool {
	return slices.ContainsFunc(g.rule.Verbs, func(verb string) bool { return verb == rbacv1.VerbAll || slices.Contains(verbs, verb) })
}

// collectGrants returns the rules of the CSV and of the bundle's roles.
func (s *decodedBundle) collectGrants() []grant {
	var grants []grant
	if s.csv != nil {
		spec := s.csv.Spec.InstallStrategy.StrategySpec
		for _, permission := range slices.Concat(spec.Permissions, spec.ClusterPermissions) {
			for _, rule := range permission.Rules {
				grants = append(grants, grant{kindCSV, s.csv.Name, rule})
			}
		}
	}

	return append(grants, s.collectRoleGrants()...)
}

// collectRoleGrants returns the rules of the bundle's roles. A role that cannot be decoded
// grants nothing.
func (s *decodedBundle) collectRoleGrants() []grant {
	var grants []grant
	for _, o := range s.objects {
		var role struct {
			Rules []rbacv1.PolicyRule `json:"rules"`
		}
		if (o.kind != "Role" && o.kind != "ClusterRole") || o.decodeInto(&role) != nil {
			continue
		}
		for _, rule := range role.Rules {
			grants = append(grants, grant{o.kind, o.name, rule})
		}
	}

	return grants
}
