package validate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	rbacv1 "k8s.io/api/rbac/v1"
)

// removal is a version of Kubernetes and the APIs that it no longer serves: kinds by
// apiVersion.
type removal struct {
	minor uint64
	kinds map[string][]string
}

var removals = []removal{
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

// checkRemovedAPIs finds objects of APIs that a version of Kubernetes no longer serves.
// They are errors when the bundle is to run on that version only, and else warnings.
func checkRemovedAPIs(s *subject, options Options, found *findings) {
	if s.csv == nil {
		return
	}

	for _, removed := range removals {
		level := Warning
		if atLeast(options.KubeVersion, removed.minor) || atLeast(string(s.csv.Spec.MinKubeVersion), removed.minor) {
			level = Error
		}
		if names := s.namesOf(removed); len(names) > 0 {
			found.about(level, s.csv.Name, "%s", removed.message(names))
		}
		if removed.minor != 25 {
			continue
		}
		if names := s.podSecurityPolicyRules(); len(names) > 0 {
			found.about(Warning, s.csv.Name, "%s", removed.message(names))
		}
	}
}

func atLeast(version string, minor uint64) bool {
	parsed, err := semver.ParseTolerant(version)
	return err == nil && parsed.GE(semver.Version{Major: 1, Minor: minor})
}

func (r removal) message(names map[string][]string) string {
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(names)) {
		kinds = append(kinds, fmt.Sprintf("%s: (%+q)", kind, names[kind]))
	}
	return fmt.Sprintf("this bundle is using APIs which were deprecated and removed in v1.%d. "+
		"More info: https://kubernetes.io/docs/reference/using-api/deprecation-guide/#v1-%d. Migrate the API(s) for %s",
		r.minor, r.minor, strings.Join(kinds, ","))
}

// namesOf returns the names of the objects of removed APIs, by kind.
func (s *subject) namesOf(r removal) map[string][]string {
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

// podSecurityPolicyRules returns the names of what grants rights on PodSecurityPolicies.
func (s *subject) podSecurityPolicyRules() map[string][]string {
	names := map[string][]string{}
	for _, granted := range s.grants() {
		if granted.on("policy", "podsecuritypolicies") && !slices.Contains(names[granted.kind], granted.name) {
			names[granted.kind] = append(names[granted.kind], granted.name)
		}
	}
	return names
}

// grant is a rule and the object that it stands in.
type grant struct {
	kind, name string
	rule       rbacv1.PolicyRule
}

// on reports whether the rule names a resource of a group.
func (g grant) on(group, resource string) bool {
	return slices.Contains(g.rule.APIGroups, group) && slices.Contains(g.rule.Resources, resource)
}

// allows returns the verbs among some that the rule allows.
func (g grant) allows(verbs ...string) bool {
	return slices.ContainsFunc(g.rule.Verbs, func(verb string) bool { return verb == rbacv1.VerbAll || slices.Contains(verbs, verb) })
}

// grants returns the rules of the CSV and of the bundle's roles.
func (s *subject) grants() []grant {
	var grants []grant
	if s.csv != nil {
		spec := s.csv.Spec.InstallStrategy.StrategySpec
		for _, permission := range slices.Concat(spec.Permissions, spec.ClusterPermissions) {
			for _, rule := range permission.Rules {
				grants = append(grants, grant{kindCSV, s.csv.Name, rule})
			}
		}
	}

	return append(grants, s.roleGrants()...)
}

// roleGrants returns the rules of the bundle's roles. A role that is none grants nothing.
func (s *subject) roleGrants() []grant {
	var grants []grant
	for _, o := range s.objects {
		var role struct {
			Rules []rbacv1.PolicyRule `json:"rules"`
		}
		if (o.kind != "Role" && o.kind != "ClusterRole") || o.decode(&role) != nil {
			continue
		}
		for _, rule := range role.Rules {
			grants = append(grants, grant{o.kind, o.name, rule})
		}
	}

	return grants
}
