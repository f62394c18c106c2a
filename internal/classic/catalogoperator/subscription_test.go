package catalogoperator_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/catalogoperator"
	"github.com/mainstay-dev/mainstay/internal/testing/catalogserver"
)

// operators is a catalog with two versions of an operator, including their manifests.
func operators(t *testing.T) string {
	t.Helper()
	const bundle = `---
schema: olm.bundle
package: pear
name: pear.v%[1]s
properties:
- type: olm.package
  value: {packageName: pear, version: %[1]s}
- type: olm.bundle.object
  value:
    data: %[2]s
`

	csv := func(version string) string {
		return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, `{"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion","metadata":{"name":"pear.v%s"},"spec":{
			"displayName":"Pear","version":%q,"install":{"strategy":"deployment","spec":{"deployments":[],
			"permissions":[{"serviceAccountName":"pear","rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}]}}}}`, version, version))
	}
	var text strings.Builder
	text.WriteString("schema: olm.package\nname: pear\ndefaultChannel: stable\n---\nschema: olm.channel\npackage: pear\nname: stable\n" +
		"entries: [{name: pear.v1.0.0}, {name: pear.v1.1.0, replaces: pear.v1.0.0}]\n")
	for _, version := range []string{"1.0.0", "1.1.0"} {
		fmt.Fprintf(&text, bundle, version, csv(version))
	}

	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "catalog.yaml"), []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}

	return dir
}

// A Subscription installs the operator and its update with all their objects. The component has the permissions
// of its release.
func TestSubscriptionInstallsOperator(t *testing.T) {
	f := newFixture(t, catalogoperator.Options{InstallPlanRetryTimeout: time.Minute})
	f.catalog("fruit", v1alpha1.CatalogSourceSpec{SourceType: v1alpha1.SourceTypeGrpc, Address: catalogserver.ServeFolder(t, operators(t))})
	group := &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "group"}}
	f.Must(f.Create(t.Context(), group))
	now := metav1.Now()
	group.Status = operatorsv1.OperatorGroupStatus{Namespaces: []string{f.namespace}, LastUpdated: &now}
	f.Must(f.Status().Update(t.Context(), group))
	sub := &v1alpha1.Subscription{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "pear"},
		Spec:       v1alpha1.SubscriptionSpec{CatalogSource: "fruit", CatalogSourceNamespace: f.namespace, Package: "pear", StartingCSV: "pear.v1.0.0"},
	}
	f.CreateForTest(sub)
	for _, version := range []string{"1.0.0", "1.1.0"} {
		csv := &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "pear.v" + version}}
		f.eventually(func() error { return f.get(csv) })
		if want := map[string]string{"1.0.0": "", "1.1.0": "pear.v1.0.0"}[version]; csv.Spec.Replaces != want {
			t.Errorf("%s replaces %q, want %q", csv.Name, csv.Spec.Replaces, want)
		}

		f.PatchStatus(csv, func() { csv.Status.Phase = v1alpha1.CSVPhaseSucceeded }) // as olm-operator does
	}

	var plans v1alpha1.InstallPlanList
	f.eventually(func() error {
		if err := f.get(sub); err != nil {
			return err
		}
		if s := sub.Status; s.InstalledCSV != "pear.v1.1.0" || s.State != v1alpha1.SubscriptionStateAtLatest {
			return fmt.Errorf("got the status %+v", s)
		}
		if err := f.List(t.Context(), &plans, client.InNamespace(f.namespace)); err != nil {
			return err
		}

		for _, plan := range plans.Items {
			if plan.Status.Phase != v1alpha1.InstallPlanPhaseComplete {
				return fmt.Errorf("plan %s of %v is in phase %q: %s", plan.Name, plan.Spec.ClusterServiceVersionNames, plan.Status.Phase, plan.Status.Message)
			}
		}

		return nil
	})
	if len(plans.Items) != 2 {
		t.Errorf("got %d InstallPlans", len(plans.Items))
	}

	f.Must(f.get(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "pear"}}))
	var roles rbacv1.RoleList
	f.Must(f.List(t.Context(), &roles, client.InNamespace(f.namespace)))
	if len(roles.Items) != 2 {
		t.Errorf("got %d Roles", len(roles.Items))
	}
}
