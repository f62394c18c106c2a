package install

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

// maxPhaseObjects is how many objects the API allows in a phase. maxPhases is how many phases it
// allows in a revision.
const maxPhaseObjects, maxPhases = 50, 20

// The phases of a registry+v1 bundle, in the order of their rollout. Objects that others
// need come first, objects that send traffic come last.
const (
	phaseNamespaces     = "namespaces"
	phasePolicies       = "policies"
	phaseIdentity       = "identity"
	phaseConfiguration  = "configuration"
	phaseStorage        = "storage"
	phaseCRDs           = "crds"
	phaseRoles          = "roles"
	phaseBindings       = "bindings"
	phaseInfrastructure = "infrastructure"
	phaseDeploy         = "deploy"
	phaseScaling        = "scaling"
	phasePublish        = "publish"
	phaseAdmission      = "admission"
)

var phaseOrder = []string{
	phaseNamespaces, phasePolicies, phaseIdentity, phaseConfiguration, phaseStorage, phaseCRDs, phaseRoles,
	phaseBindings, phaseInfrastructure, phaseDeploy, phaseScaling, phasePublish, phaseAdmission,
}

var phaseOfKind = map[schema.GroupKind]string{
	{Kind: "Namespace"}: phaseNamespaces,
	{Group: "networking.k8s.io", Kind: "NetworkPolicy"}:                             phasePolicies,
	{Group: "policy", Kind: "PodDisruptionBudget"}:                                  phasePolicies,
	{Group: "scheduling.k8s.io", Kind: "PriorityClass"}:                             phasePolicies,
	{Kind: "ServiceAccount"}:                                                        phaseIdentity,
	{Kind: "Secret"}:                                                                phaseConfiguration,
	{Kind: "ConfigMap"}:                                                             phaseConfiguration,
	{Kind: "PersistentVolume"}:                                                      phaseStorage,
	{Kind: "PersistentVolumeClaim"}:                                                 phaseStorage,
	{Group: "storage.k8s.io", Kind: "StorageClass"}:                                 phaseStorage,
	{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}:               phaseCRDs,
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}:                       phaseRoles,
	{Group: "rbac.authorization.k8s.io", Kind: "Role"}:                              phaseRoles,
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"}:                phaseBindings,
	{Group: "rbac.authorization.k8s.io", Kind: "RoleBinding"}:                       phaseBindings,
	{Kind: "Service"}:                                                               phaseInfrastructure,
	{Group: "cert-manager.io", Kind: "Issuer"}:                                      phaseInfrastructure,
	{Group: "cert-manager.io", Kind: "Certificate"}:                                 phaseInfrastructure,
	{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}:                         phaseScaling,
	{Group: "autoscaling.k8s.io", Kind: "VerticalPodAutoscaler"}:                    phaseScaling,
	{Group: "networking.k8s.io", Kind: "Ingress"}:                                   phasePublish,
	{Group: "route.openshift.io", Kind: "Route"}:                                    phasePublish,
	{Group: "monitoring.coreos.com", Kind: "ServiceMonitor"}:                        phasePublish,
	{Group: "monitoring.coreos.com", Kind: "PrometheusRule"}:                        phasePublish,
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"}: phaseAdmission,
	{Group: "admissionregistration.k8s.io", Kind: "MutatingWebhookConfiguration"}:   phaseAdmission,
}

// phaseForKind returns the phase of a kind. Unknown kinds belong to the phase deploy.
func phaseForKind(kind schema.GroupKind) string {
	if phase, ok := phaseOfKind[kind]; ok {
		return phase
	}
	if kind.Group == "console.openshift.io" && strings.HasPrefix(kind.Kind, "Console") {
		return phasePublish
	}
	return phaseDeploy
}

// groupIntoPhases groups objects into phases. The result does not depend on the order of the
// objects. A phase of more than maxPhaseObjects is split into <phase>, <phase>-2 and so on.
func groupIntoPhases(objects []unstructured.Unstructured) []olmv1.ClusterObjectSetPhase {
	byPhase := map[string][]olmv1.ClusterObjectSetObject{}
	sorted := slices.Clone(objects)
	slices.SortStableFunc(sorted, compareObjects)
	for i := range sorted {
		phase := phaseForKind(sorted[i].GroupVersionKind().GroupKind())
		byPhase[phase] = append(byPhase[phase], olmv1.ClusterObjectSetObject{Object: &sorted[i]})
	}

	var result []olmv1.ClusterObjectSetPhase
	for _, name := range phaseOrder {
		part := 1
		for chunk := range slices.Chunk(byPhase[name], maxPhaseObjects) {
			phase := olmv1.ClusterObjectSetPhase{Name: name, Objects: chunk}
			if part > 1 {
				phase.Name = fmt.Sprintf("%s-%d", name, part)
			}
			result = append(result, phase)
			part++
		}
	}

	return result
}

// checkPhaseCount returns an error if there are more phases than a revision can have. The error
// names the kind with the most objects.
func checkPhaseCount(phases []olmv1.ClusterObjectSetPhase) error {
	if len(phases) <= maxPhases {
		return nil
	}

	kinds := map[string]int{}
	for _, phase := range phases {
		for _, object := range phase.Objects {
			kinds[object.Object.GetKind()]++
		}
	}

	most := slices.MaxFunc(slices.Sorted(maps.Keys(kinds)), func(a, b string) int { return cmp.Compare(kinds[a], kinds[b]) })
	return fmt.Errorf("its objects need %d phases of at most %d objects, and a revision has at most %d; %d of them are of kind %s",
		len(phases), maxPhaseObjects, maxPhases, kinds[most], most)
}

func compareObjects(a, b unstructured.Unstructured) int {
	return cmp.Or(
		cmp.Compare(a.GetAPIVersion(), b.GetAPIVersion()),
		cmp.Compare(a.GetKind(), b.GetKind()),
		cmp.Compare(a.GetNamespace(), b.GetNamespace()),
		cmp.Compare(a.GetName(), b.GetName()),
	)
}
