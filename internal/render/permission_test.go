package render

import (
	"crypto/sha256"
	"math/big"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// The hashes were computed from the encodings by another program.
func TestHash(t *testing.T) {
	for _, c := range []struct {
		permission v1alpha1.StrategyDeploymentPermissions
		encoded    string
		want       string
	}{
		{
			permission: v1alpha1.StrategyDeploymentPermissions{ServiceAccountName: "foo-controller", Rules: []rbacv1.PolicyRule{
				{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch"}},
				{APIGroups: []string{"example.com"}, Resources: []string{"foos"}, ResourceNames: []string{"main"}, Verbs: []string{"*"}},
			}},
			encoded: `{"serviceAccountName":"foo-controller","rules":[{"verbs":["get","list","watch"],"apiGroups":[""],"resources":["configmaps"]},` +
				`{"verbs":["*"],"apiGroups":["example.com"],"resources":["foos"],"resourceNames":["main"]}]}`,
			want: "1kepu73oco7qjiofn5v5vxsi2gk2i8oylq3cpaj31toy",
		}, {
			permission: v1alpha1.StrategyDeploymentPermissions{Rules: []rbacv1.PolicyRule{
				{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}},
				{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get", "list", "watch"}},
			}},
			encoded: `{"serviceAccountName":"","rules":[{"verbs":["get"],"apiGroups":[""],"resources":["pods"]},` +
				`{"verbs":["get","list","watch"],"apiGroups":[""],"resources":["namespaces"]}]}`,
			want: "2n9m8dyqelopfekkbsggr7umrtbeg69tppz8rlxfrr10",
		}, {
			permission: v1alpha1.StrategyDeploymentPermissions{ServiceAccountName: "a<b", Rules: []rbacv1.PolicyRule{
				{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}},
			}},
			encoded: `{"serviceAccountName":"a\u003cb","rules":[{"verbs":["get"],"nonResourceURLs":["/metrics"]}]}`,
			want:    "1cryr53bv6e4mlbbd7zujjd6y4yb8gdawpe78ol2jhhh",
		},
	} {
		sum := sha256.Sum224([]byte(c.encoded + "\n"))
		if text := new(big.Int).SetBytes(sum[:]).Text(36); text != c.want {
			t.Errorf("hash of the encoding %s: got %s, want %s", c.encoded, text, c.want)
		}
		if got := hashPermission(c.permission); got != c.want {
			t.Errorf("%s: got %s, want %s", c.encoded, got, c.want)
		}
	}
}

func TestUniqueName(t *testing.T) {
	hash := strings.Repeat("h", 44)
	for _, c := range []struct {
		base string
		want string
	}{
		{base: "short", want: "short-" + hash},
		{base: strings.Repeat("b", 18), want: strings.Repeat("b", 18) + "-" + hash},
		{base: strings.Repeat("b", 19), want: strings.Repeat("b", 19) + "-" + hash}, // 63 without the dash, 64 with it
		{base: strings.Repeat("b", 20), want: strings.Repeat("b", 18) + "-" + hash},
		{base: strings.Repeat("b", 200), want: strings.Repeat("b", 18) + "-" + hash},
	} {
		if got := uniqueName(c.base, hash); got != c.want {
			t.Errorf("base of %d: got %s, want %s", len(c.base), got, c.want)
		}
	}
}

func TestPermissionNames(t *testing.T) {
	for account, base := range map[string]string{"": "foo.v1-default-", "sa": "foo.v1-sa-"} {
		permission := v1alpha1.StrategyDeploymentPermissions{ServiceAccountName: account}
		if got, want := permissionName("foo.v1", permission), base+hashPermission(permission); got != want {
			t.Errorf("account %q: got %s, want %s", account, got, want)
		}
	}
}
