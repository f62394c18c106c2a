package e2e

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/mainstay-dev/mainstay/internal/testing/audit"
	"github.com/mainstay-dev/mainstay/internal/testing/cluster"
)

// shippedRoles are the roles under config/ that a component has on a cluster.
var shippedRoles = []string{
	"catalogd-manager-role", "operator-controller-manager-role", "cluster-version-operator-role",
	"machine-config-controller", "machine-config-daemon", "machine-config-server",
	"olm-operator", "catalog-operator", "marketplace-operator", "packageserver",
}

// rights is what the tests of this binary saw of the shipped roles on real nodes.
var rights = struct {
	requests audit.Requests
	bindings []audit.Binding
}{requests: audit.Requests{}}

// TestMain runs the tests. When all of them ran on a real node and passed, it fails if a shipped role allows what no
// component asked for, so that a right which is no longer used does not stay.
func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	all := flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.skip").Value.String() == "" && flag.Lookup("test.list").Value.String() == ""
	if code == 0 && all && len(rights.bindings) > 0 {
		code = checkRights()
	}
	os.Exit(code)
}

// collectRights reads the audit log of a cluster, and which accounts have the shipped roles there.
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

	if err := rights.requests.Add(log); err != nil {
		t.Error(err)
	}
	rights.bindings = append(rights.bindings, bindings...)
}

// shippedBindings returns the shipped roles that a cluster has, with the accounts that they are bound to.
func shippedBindings(ctx context.Context, c *cluster.Cluster) ([]audit.Binding, error) {
	var roles, bound struct {
		Items []struct {
			rbacv1.ClusterRole
			// Subjects and RoleRef are those of a binding.
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
		if !slices.Contains(shippedRoles, role.Name) {
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

// checkRights prints the shipped rights that nothing used and nobody explained, and the explanations that no longer
// apply. It returns the exit code of the tests.
func checkRights() int {
	merged := mergeBindings(rights.bindings)
	unused := rights.requests.Unused(merged)
	explained := make(map[string]bool, len(unusedRights))
	code := 0
	for _, right := range unused {
		name := right.String()
		if unusedRights[name] != "" {
			explained[name] = true
			continue
		}
		fmt.Printf("FAIL: no component used the right %q: remove its marker, or name in unusedRights who needs it\n", name)
		code = 1
	}
	for name := range unusedRights {
		if !explained[name] && isOfRole(name, merged) {
			fmt.Printf("FAIL: unusedRights explains %q, which is used or no longer shipped: remove the entry\n", name)
			code = 1
		}
	}

	return code
}

// mergeBindings joins what several clusters have of a role, so that a right counts as used when it was used on one.
func mergeBindings(bindings []audit.Binding) []audit.Binding {
	var merged []audit.Binding
	for _, binding := range bindings {
		i := slices.IndexFunc(merged, func(m audit.Binding) bool { return m.Role == binding.Role && sameRules(m.Rules, binding.Rules) })
		if i < 0 {
			merged = append(merged, binding)
			continue
		}
		merged[i].Accounts = append(merged[i].Accounts, binding.Accounts...)
	}

	return merged
}

func sameRules(a, b []rbacv1.PolicyRule) bool {
	return slices.EqualFunc(a, b, func(x, y rbacv1.PolicyRule) bool { return x.String() == y.String() })
}

func isOfRole(right string, bindings []audit.Binding) bool {
	role, _, _ := strings.Cut(right, ": ")
	return slices.ContainsFunc(bindings, func(b audit.Binding) bool { return b.Role == role })
}

// unusedRights explains the rights that components have and that these tests do not make them use.
var unusedRights = map[string]string{}
