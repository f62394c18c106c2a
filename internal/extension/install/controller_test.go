package install_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

func TestMain(m *testing.M) { os.Exit(env.Run(m)) }

const digest = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// TestJourney installs, updates and removes an extension. The
// rollout is simulated: the controller of revisions is tested in its own package.
func TestJourney(t *testing.T) {
	w := newFixture(t)
	w.createNamespace("journey")
	catalog := w.createCatalog("journey", "1.0.0")
	w.CreateForTest(newExtension("journey", "journey"))

	set := w.waitForRevision("journey-1")
	w.expectCondition("journey", olmv1.TypeProgressing, "True RollingOut revision journey-1 is about to be rolled out")
	w.expectCondition("journey", olmv1.TypeInstalled, "False Failed No bundle installed")
	if got := set.Annotations[olmv1.AnnotationBundleReference]; got != "quay.io/example/hello:1.0.0"+digest {
		t.Errorf("got the bundle %q of the revision", got)
	}

	want := []string{"identity", "crds", "roles", "bindings", "infrastructure", "deploy"}
	var got []string
	for _, phase := range set.Spec.Phases {
		got = append(got, phase.Name)
	}

	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("phases (-want +got):\n%s", diff)
	}

	w.markSucceeded(set)
	w.expectCondition("journey", olmv1.TypeProgressing, "True Succeeded desired state reached")
	w.expectCondition("journey", olmv1.TypeInstalled, "True Succeeded Installed bundle quay.io/example/hello:1.0.0"+digest+" successfully")
	w.expectCondition("journey", olmv1.TypeAvailable, "True ProbesSucceeded all objects are ready")
	w.expectCondition("journey", olmv1.TypeDeprecated, "False Deprecated ")
	ext := w.getExtension("journey")
	if diff := cmp.Diff([]string{olmv1.FinalizerCleanupUnpackCache, olmv1.FinalizerCleanupContentManagerCache}, ext.Finalizers); diff != "" {
		t.Errorf("finalizers (-want +got):\n%s", diff)
	}

	var order []string
	for _, c := range ext.Status.Conditions {
		order = append(order, c.Type)
	}

	wantOrder := []string{"Deprecated", "PackageDeprecated", "ChannelDeprecated", "BundleDeprecated", "Installed", "Progressing", "Available", "DeletesCRDs"}
	if diff := cmp.Diff(wantOrder, order); diff != "" {
		t.Errorf("order of the conditions (-want +got):\n%s", diff)
	}

	// The catalog offers an update.
	w.setCatalogVersions(catalog, "1.0.0", "1.1.0")
	second := w.waitForRevision("journey-2")
	w.Eventually("two revisions are active", func() error {
		if n := len(w.getExtension("journey").Status.ActiveRevisions); n != 2 {
			return fmt.Errorf("got %d active revisions", n)
		}
		return nil
	})
	if bundle := w.getExtension("journey").Status.Install.Bundle; bundle.Version != "1.0.0" {
		t.Errorf("version %s counts as installed before its rollout is complete", bundle.Version)
	}
	w.markSucceeded(second)
	w.Eventually("the first revision is archived", func() error {
		if state := w.waitForRevision("journey-1").Spec.LifecycleState; state != olmv1.LifecycleStateArchived {
			return fmt.Errorf("got state %s", state)
		}
		return nil
	})
	w.expectCondition("journey", olmv1.TypeInstalled, "True Succeeded Installed bundle quay.io/example/hello:1.1.0"+digest+" successfully")

	// A version that does not exist changes nothing.
	ext = w.getExtension("journey")
	w.PatchObject(ext, func() { ext.Spec.Source.Catalog.Version = "9.x" })
	w.expectCondition("journey", olmv1.TypeProgressing, `True Retrying error upgrading from currently installed version "1.1.0": `+
		`no bundles found for package "hello-operator" matching version "9.x"`)
	ext = w.getExtension("journey")
	installed := meta.FindStatusCondition(ext.Status.Conditions, olmv1.TypeInstalled)
	deprecated := meta.FindStatusCondition(ext.Status.Conditions, olmv1.TypeDeprecated)
	if installed.Status != metav1.ConditionTrue || installed.ObservedGeneration != ext.Generation || ext.Status.Install.Bundle.Version != "1.1.0" {
		t.Errorf("a failed request changed the installed bundle: %+v", installed)
	}
	if deprecated.ObservedGeneration == ext.Generation {
		t.Error("the deprecation conditions were observed at a generation that was not resolved")
	}

	w.deleteAndWait("journey")
}

// TestBadInput expects each cause in the right condition, and recovery
// when the cause is removed.
func TestBadInput(t *testing.T) {
	w := newFixture(t)
	w.createNamespace("bad")
	cases := []struct {
		name    string
		catalog func(name string)
		change  func(*olmv1.ClusterExtension)
		want    string
		mend    func(name string)
	}{
		{
			name:   "no-namespace",
			change: func(e *olmv1.ClusterExtension) { e.Spec.Namespace = "absent" },
			want:   `True Retrying namespace "absent" does not exist: create it, the extension's namespaced objects go there`,
			mend:   func(string) { w.createNamespace("absent") },
		},
		{
			name: "no-account",
			change: func(e *olmv1.ClusterExtension) {
				e.Spec.ServiceAccount = &olmv1.ServiceAccountReference{Name: "installer"}
			},
			want: `True Retrying installation cannot proceed due to missing ServiceAccount: create ServiceAccount "installer" in namespace "bad"`,
			mend: func(string) {
				w.CreateForTest(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "installer", Namespace: "bad"}})
			},
		},
		{
			name:    "no-package",
			catalog: func(name string) { w.createCatalog(name) },
			want:    `True Retrying no bundles found for package "hello-operator"`,
			mend:    func(name string) { w.setCatalogVersions(w.getCatalog(name), "1.0.0") },
		},
		{
			name:    "no-catalog",
			catalog: func(string) {},
			want:    `True Retrying no bundles found for package "hello-operator"`,
			mend:    func(name string) { w.createCatalog(name, "1.0.0") },
		},
		{
			name: "ambiguous",
			catalog: func(name string) {
				w.createCatalog(name, "1.0.0")
				w.createCatalog(name+"-two", "1.0.0")
				w.labelCatalog(name+"-two", name)
			},
			want: `True Retrying found bundles for package "hello-operator" in multiple catalogs with the same priority [ambiguous ambiguous-two]`,
			mend: func(name string) {
				catalog := w.getCatalog(name)
				w.PatchObject(catalog, func() { catalog.Spec.Priority = 10 })
			},
		},
		{
			name:    "no-csv",
			catalog: func(name string) { w.createCatalog(name, "broken") },
			want:    "False Blocked",
			mend:    func(name string) { w.setCatalogVersions(w.getCatalog(name), "1.0.0") },
		},
		{
			name:    "unreachable-registry",
			catalog: func(name string) { w.createCatalog(name, "unreachable") },
			want:    `True Retrying bundle "hello-operator.vunreachable": registry quay.io does not answer; it is tried again in 1s`,
			mend:    func(name string) { w.setCatalogVersions(w.getCatalog(name), "1.0.0") },
		},
		{
			name: "bad-configuration",
			change: func(e *olmv1.ClusterExtension) {
				e.Annotations = map[string]string{olmv1.AnnotationWatchNamespace: "Not_A_Name"}
			},
			want: "False InvalidConfiguration",
			mend: func(name string) {
				ext := w.getExtension(name)
				w.PatchObject(ext, func() { ext.Annotations = nil })
			},
		},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			w.useSubtest(t)
			ext := newExtension(tc.name, "bad")
			if tc.change != nil {
				tc.change(ext)
			}
			if tc.catalog == nil {
				w.createCatalog(tc.name, "1.0.0")
			} else {
				tc.catalog(tc.name)
			}
			w.CreateForTest(ext)
			w.expectCondition(tc.name, olmv1.TypeProgressing, tc.want)
			tc.mend(tc.name)
			w.waitForRevision(tc.name + "-1")
		})
	}
}
