package run

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// The error of a server whose kind is not served includes advice.
func TestExplainMissingKind(t *testing.T) {
	c := env.Client(t, apiextensionsv1.AddToScheme)
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "operatorhubs.config.openshift.io"}}
	if err := c.Delete(t.Context(), crd); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}

	env.EventuallyTrue(t, "the CRD is deleted", func() bool {
		return apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(crd), crd))
	}, nil)

	cmd := NewCommand("v1.2.3")
	cmd.SetArgs([]string{"marketplace", "--kubeconfig", kubeconfig(t), "--health-probe-bind-address", "0", "--metrics-bind-address", "0"})
	err := cmd.ExecuteContext(t.Context())
	const want = "the cluster does not serve a kind that marketplace requires: apply the CustomResourceDefinitions in its manifests and restart it: "
	if err == nil || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), "OperatorHub") {
		t.Errorf("got error\n%v\nwant\n%s…", err, want)
	}
}

// The servers of OLM v1 use the leases of other implementations in the same namespace, so that they wait for these.
func TestLeaderLease(t *testing.T) {
	want := map[string]string{"catalogd": "catalogd-operator-lock", "operator-controller": "9c4404e7.operatorframework.io", "olm-operator": "olm-operator.olm.operatorframework.io"}
	for _, s := range newServers() {
		if got := s.newOptions("v1", &cobra.Command{}).leaderLease(s.name); want[s.name] != "" && got != want[s.name] {
			t.Errorf("%s: got the lease %s, want %s", s.name, got, want[s.name])
		}
	}
}
