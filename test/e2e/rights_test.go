package e2e

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-dev/mainstay/internal/testing/audit"
	"github.com/mainstay-dev/mainstay/internal/testing/cluster"
)

// shippedRoles are the roles under config/ that components have on a cluster.
var shippedRoles = []string{
	"catalogd-manager-role", "operator-controller-manager-role", "cluster-version-operator-role",
	"machine-config-controller", "machine-config-daemon", "machine-config-server",
	"olm-operator", "catalog-operator", "marketplace-operator", "packageserver",
}

// seenRights has the use of the shipped roles on real nodes in the tests of this binary.
var seenRights = struct {
	requests audit.Requests
	bindings []audit.Binding
}{requests: audit.Requests{}}

// TestMain runs the tests. If all of them passed on a real node, it fails if a shipped role
// allows requests that no component sent. Unused rights are therefore found.
func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	all := flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.skip").Value.String() == "" && flag.Lookup("test.list").Value.String() == ""
	if code == 0 && all && len(seenRights.bindings) > 0 {
		code = checkRights()
	}
	os.Exit(code)
}

// collectRights reads the audit log of a cluster and the bindings of the shipped roles.
func collectRights(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	bindings, err := shippedBindings(ctx, c)
	if err != nil {
		t.Errorf("reading the shipped roles: %v", err)
		return
	}

	log, err := os.Open(c.AuditLog())
	if err != nil {
		t.Error(err)
		return
	}
	defer log.Close()

	if err := seenRights.requests.Add(log); err != nil {
		t.Error(err)
	}

	seenRights.bindings = append(seenRights.bindings, bindings...)
}

// shippedBindings returns the shipped roles of a cluster with the accounts of their bindings.
func shippedBindings(ctx context.Context, c *cluster.Cluster) ([]audit.Binding, error) {
	var roles, bound struct {
		Items []struct {
			rbacv1.ClusterRole
			// Subjects and RoleRef are the fields of a binding.
			Subjects []rbacv1.Subject `json:"subjects"`
			RoleRef  rbacv1.RoleRef   `json:"roleRef"`
		} `json:"items"`
	}
	if err := getJSON(ctx, c, "clusterroles,roles", &roles); err != nil {
		return nil, err
	}
	if err := getJSON(ctx, c, "clusterrolebindings,rolebindings", &bound); err != nil {
		return nil, err
	}

	var bindings []audit.Binding
	for i := range roles.Items {
		role := &roles.Items[i]
		if !slices.Contains(shippedRoles, role.Name) || isOfOperatorCondition(role) {
			continue
		}

		binding := audit.Binding{Role: role.Name, Rules: role.Rules}
		for j := range bound.Items {
			if ref := bound.Items[j].RoleRef; ref.Name == role.Name && ref.Kind == role.Kind {
				binding.Accounts = append(binding.Accounts, accountNames(bound.Items[j].Subjects)...)
			}
		}

		bindings = append(bindings, binding)
	}

	return bindings, nil
}

// isOfOperatorCondition reports whether olm-operator created a role for the operator of an
// OperatorCondition. The role has the name of the operator, such as packageserver.
func isOfOperatorCondition(role metav1.Object) bool {
	return slices.ContainsFunc(role.GetOwnerReferences(), func(owner metav1.OwnerReference) bool { return owner.Kind == "OperatorCondition" })
}

func getJSON(ctx context.Context, c *cluster.Cluster, kinds string, into any) error {
	out, err := c.Kubectl(ctx, "get", kinds, "-A", "-o", "json")
	if err != nil {
		return err
	}

	return json.Unmarshal([]byte(out), into)
}

// accountNames returns the user names of the service accounts among subjects.
func accountNames(subjects []rbacv1.Subject) []string {
	var names []string
	for _, subject := range subjects {
		if subject.Kind == rbacv1.ServiceAccountKind {
			names = append(names, "system:serviceaccount:"+subject.Namespace+":"+subject.Name)
		}
	}

	return names
}

// checkRights prints the resources of shipped roles whose rights were not used and are not
// explained. It also prints explanations for resources that are in no shipped role. It returns
// the exit code of the tests.
func checkRights() int {
	merged := mergeBindings(seenRights.bindings)
	code := 0
	for _, resource := range seenRights.requests.UnusedResources(merged) {
		if unusedRights[resource.String()] == "" {
			fmt.Printf("FAIL: no component used a right on %q: remove its marker, or name in unusedRights who needs it\n", resource)
			code = 1
		}
	}

	shipped := map[string]bool{}
	for _, resource := range (audit.Requests{}).UnusedResources(merged) {
		shipped[resource.String()] = true
	}

	for name := range unusedRights {
		if !shipped[name] {
			fmt.Printf("FAIL: unusedRights explains %q, which no shipped role names: remove the entry\n", name)
			code = 1
		}
	}

	return code
}

// mergeBindings merges the bindings of a role on several clusters, so that a right counts as used
// if it was used on one.
func mergeBindings(bindings []audit.Binding) []audit.Binding {
	var merged []audit.Binding
	for _, binding := range bindings {
		i := slices.IndexFunc(merged, func(m audit.Binding) bool { return m.Role == binding.Role && equalRules(m.Rules, binding.Rules) })
		if i < 0 {
			merged = append(merged, binding)
			continue
		}
		merged[i].Accounts = append(merged[i].Accounts, binding.Accounts...)
	}

	return merged
}

func equalRules(a, b []rbacv1.PolicyRule) bool {
	return slices.EqualFunc(a, b, func(x, y rbacv1.PolicyRule) bool { return x.String() == y.String() })
}

// Reasons why components have rights that these tests do not make them use.
const (
	inPlans      = "bundles may bring it, and an InstallPlan creates it without a service account of its OperatorGroup"
	inMetrics    = "a monitoring stack reads the metrics, which authenticates and authorizes it"
	inEvents     = "something goes wrong that an event reports"
	inBlockOwner = "the API server has the admission plugin OwnerReferencesPermissionEnforcement"
	inConsoles   = "the platform has a console"
	inDrains     = "a node is drained; the only node here is not"
)

// unusedRights explains, by "ROLE: RESOURCE.GROUP", when a component needs rights that these
// tests do not make it use.
var unusedRights = map[string]string{
	"catalog-operator: clusterrolebindings.rbac.authorization.k8s.io":                            inPlans,
	"catalog-operator: clusterroles.rbac.authorization.k8s.io":                                   inPlans,
	"catalog-operator: consoleclidownloads.console.openshift.io":                                 inPlans,
	"catalog-operator: consolelinks.console.openshift.io":                                        inPlans,
	"catalog-operator: consoleplugins.console.openshift.io":                                      inPlans,
	"catalog-operator: consolequickstarts.console.openshift.io":                                  inPlans,
	"catalog-operator: consoleyamlsamples.console.openshift.io":                                  inPlans,
	"catalog-operator: poddisruptionbudgets.policy":                                              inPlans,
	"catalog-operator: podmonitors.monitoring.coreos.com":                                        inPlans,
	"catalog-operator: priorityclasses.scheduling.k8s.io":                                        inPlans,
	"catalog-operator: prometheusrules.monitoring.coreos.com":                                    inPlans,
	"catalog-operator: secrets":                                                                  inPlans,
	"catalog-operator: servicemonitors.monitoring.coreos.com":                                    inPlans,
	"catalog-operator: verticalpodautoscalers.autoscaling.k8s.io":                                inPlans,
	"catalog-operator: events.events.k8s.io":                                                     inEvents,
	"catalogd-manager-role: events.events.k8s.io":                                                inEvents,
	"machine-config-daemon: events.events.k8s.io":                                                inEvents,
	"operator-controller-manager-role: events.events.k8s.io":                                     inEvents,
	"operator-controller-manager-role: clusterextensionrevisions.olm.operatorframework.io":       "the cluster comes from another implementation of OLM v1",
	"cluster-version-operator-role: subjectaccessreviews.authorization.k8s.io":                   inMetrics,
	"cluster-version-operator-role: tokenreviews.authentication.k8s.io":                          inMetrics,
	"packageserver: tokenreviews.authentication.k8s.io":                                          inMetrics,
	"cluster-version-operator-role: featuregates.config.openshift.io":                            "the platform has the kind FeatureGate",
	"cluster-version-operator-role: proxies.config.openshift.io":                                 "the platform has the kind Proxy",
	"olm-operator: proxies.config.openshift.io":                                                  "the platform has the kind Proxy",
	"olm-operator: consoleclidownloads.console.openshift.io":                                     inConsoles,
	"olm-operator: consolelinks.console.openshift.io":                                            inConsoles,
	"olm-operator: consoleplugins.console.openshift.io":                                          inConsoles,
	"olm-operator: consolequickstarts.console.openshift.io":                                      inConsoles,
	"olm-operator: consoleyamlsamples.console.openshift.io":                                      inConsoles,
	"cluster-version-operator-role: secrets":                                                     "its service account names a pull secret",
	"machine-config-controller: machineconfigpools/finalizers.machineconfiguration.openshift.io": inBlockOwner,
	"olm-operator: clusterserviceversions/finalizers.operators.coreos.com":                       inBlockOwner,
	"operator-controller-manager-role: clusterextensions/finalizers.olm.operatorframework.io":    inBlockOwner,
	"operator-controller-manager-role: clusterobjectsets/finalizers.olm.operatorframework.io":    inBlockOwner,
	"machine-config-controller: pods":                                                            inDrains,
	"machine-config-controller: pods/eviction":                                                   inDrains,
}
