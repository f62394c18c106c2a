package clusteroperator

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

func TestMain(m *testing.M) { os.Exit(env.Run(m)) }

const (
	olmName     = "operator-lifecycle-manager"
	catalogName = "operator-lifecycle-manager-catalog"
	serverName  = "operator-lifecycle-manager-packageserver"
)

// fixture is a cluster with reporters.
type fixture struct {
	*env.Fixture
	syncs *Syncs
	stop  func()
}

func newFixture(t *testing.T, namespaces ...string) *fixture {
	t.Helper()
	w := &fixture{Fixture: env.NewFixture(t, clientgoscheme.AddToScheme, configv1.AddToScheme, v1alpha1.AddToScheme)}
	for _, name := range namespaces {
		w.EnsureNamespace(name)
	}

	t.Cleanup(func() {
		if w.stop != nil {
			w.stop()
		}
		for _, name := range namespaces {
			if err := w.DeleteAllOf(context.Background(), &v1alpha1.ClusterServiceVersion{}, client.InNamespace(name)); err != nil {
				t.Error(err)
			}
		}
		if err := w.DeleteAllOf(context.Background(), &configv1.ClusterOperator{}); err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})

	return w
}

// run starts a reporter.
func (f *fixture) run(setup func(manager.Manager, Options) error, name string) {
	f.T.Helper()
	if f.stop != nil {
		f.stop()
	}

	f.syncs = &Syncs{}
	_, f.stop = f.StartManager(env.Manager{Setup: func(mgr ctrl.Manager) error {
		return setup(mgr, Options{Name: name, Namespace: "olm", Release: "4.18.3", Program: "v1.2.3", Syncs: f.syncs})
	}})
}

// until waits until the status of a ClusterOperator, formatted as lines, contains some lines.
func (f *fixture) until(name string, lines ...string) {
	f.T.Helper()
	f.Eventually("ClusterOperator "+name, func() error {
		operator := &configv1.ClusterOperator{}
		if err := f.Get(f.T.Context(), client.ObjectKey{Name: name}, operator); err != nil {
			return err
		}

		status := formatStatus(&operator.Status)
		for _, line := range lines {
			if !strings.Contains(status, line+"\n") {
				return fmt.Errorf("got\n%s\nwant\n%s", status, strings.Join(lines, "\n"))
			}
		}

		return nil
	})
}

// install creates a ClusterServiceVersion with properties as those of csv.
func (f *fixture) install(namespace, name string, properties ...string) *v1alpha1.ClusterServiceVersion {
	f.T.Helper()
	of := csv(name, properties...)
	object := &v1alpha1.ClusterServiceVersion{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: of.Annotations},
		Spec: v1alpha1.ClusterServiceVersionSpec{
			DisplayName: name, Version: "1.0.0",
			InstallStrategy: v1alpha1.NamedInstallStrategy{StrategyName: "deployment"},
		},
	}
	if err := f.Create(f.T.Context(), object); err != nil {
		f.T.Fatal(err)
	}

	return object
}

const (
	allWork   = "Upgradeable=True [AsExpected] No installed ClusterServiceVersion declares that it does not support the next minor version of the cluster"
	blocked   = "Upgradeable=False [IncompatibleOperatorsInstalled] ClusterServiceVersions blocking minor version upgrades to 4.19:"
	available = "Available=True [AsExpected] The controllers work"
)

func TestSetupOLM(t *testing.T) {
	f := newFixture(t, "olm", "operators")
	f.run(SetupOLM, olmName)
	f.syncs.Record(nil)
	f.until(olmName, "version operator 4.18.3", "version "+olmName+" v1.2.3", "Progressing=False [AsExpected] Deployed v1.2.3", available, allWork, "related namespaces /olm")

	limiting := f.install("operators", "limiting", maxVersion, `"4.18"`)
	f.until(olmName, blocked, "- maximum supported OCP version for operators/limiting is 4.18")
	limiting.Annotations[csvinfo.AnnotationProperties] = strings.ReplaceAll(limiting.Annotations[csvinfo.AnnotationProperties], "4.18", "4.19")
	if err := f.Update(t.Context(), limiting); err != nil {
		t.Fatal(err)
	}

	f.until(olmName, allWork)

	// Copied CSVs do not count. The objects in the namespace of OLM are related objects.
	own := f.install("olm", "packageserver")
	f.until(olmName, allWork, "related clusterserviceversions olm/packageserver")
	copied := f.install("operators", "copied", maxVersion, `"4.18"`)
	copied.Labels = map[string]string{csvinfo.LabelCopiedFrom: "elsewhere"}
	if err := f.Update(t.Context(), copied); err != nil {
		t.Fatal(err)
	}

	f.until(olmName, allWork)
	if err := f.Delete(t.Context(), own); err != nil {
		t.Fatal(err)
	}

	f.untilNot(olmName, "related clusterserviceversions")

	// A report that was deleted or changed is restored.
	if err := f.Delete(t.Context(), &configv1.ClusterOperator{ObjectMeta: metav1.ObjectMeta{Name: olmName}}); err != nil {
		t.Fatal(err)
	}

	f.until(olmName, available, allWork)
	operator := &configv1.ClusterOperator{}
	if err := f.Get(t.Context(), client.ObjectKey{Name: olmName}, operator); err != nil {
		t.Fatal(err)
	}

	operator.Status.Conditions = nil
	if err := f.Status().Update(t.Context(), operator); err != nil {
		t.Fatal(err)
	}

	f.until(olmName, available, allWork)
}

// untilNot waits until the status of a ClusterOperator no longer contains a line.
func (f *fixture) untilNot(name, text string) {
	f.T.Helper()
	f.Eventually("ClusterOperator "+name, func() error {
		operator := &configv1.ClusterOperator{}
		if err := f.Get(f.T.Context(), client.ObjectKey{Name: name}, operator); err != nil {
			return err
		}
		if status := formatStatus(&operator.Status); strings.Contains(status, text) {
			return fmt.Errorf("got\n%s\nwant it without %q", status, text)
		}
		return nil
	})
}

// The report of an earlier process stays until this one has results.
func TestNoReportBeforeHealthIsKnown(t *testing.T) {
	f := newFixture(t, "olm")
	operator := &configv1.ClusterOperator{ObjectMeta: metav1.ObjectMeta{Name: catalogName}}
	if err := f.Create(t.Context(), operator); err != nil {
		t.Fatal(err)
	}

	f.run(SetupCatalog, catalogName)
	see(f.syncs, "++++-----") // nine passes
	f.syncs.Record(nil)       // the tenth, and the fifth success
	f.until(catalogName, "version operator 4.18.3", "version "+catalogName+" v1.2.3", available, "Upgradeable=True [AsExpected] "+messageNotBlocking)
	see(f.syncs, "----------")
	f.until(catalogName, "Available=False [UpdateNotInEffect] No reconciliation succeeds; see the log of the program for the reason", "version operator 4.18.3")
	see(f.syncs, "+")
	f.until(catalogName, available)
}

func TestSetupPackageServer(t *testing.T) {
	f := newFixture(t, "olm", "operators")
	f.run(SetupPackageServer, serverName)
	f.until(serverName, "Available=False [ClusterServiceVersionNotSucceeded] The ClusterServiceVersion does not exist yet")
	other := f.install("operators", "other")
	set := func(csv *v1alpha1.ClusterServiceVersion, phase v1alpha1.ClusterServiceVersionPhase) {
		t.Helper()
		csv.Status.Phase = phase
		if err := f.Status().Update(t.Context(), csv); err != nil {
			t.Fatal(err)
		}
	}

	set(other, v1alpha1.CSVPhaseFailed)
	server := f.install("olm", "packageserver")
	server.Labels = map[string]string{LabelName: serverName}
	if err := f.Update(t.Context(), server); err != nil {
		t.Fatal(err)
	}

	f.until(serverName, "Progressing=True [ClusterServiceVersionNotSucceeded] Working toward 1.0.0")
	set(server, v1alpha1.CSVPhaseSucceeded)
	f.until(serverName, "version operator 4.18.3", "version packageserver 1.0.0", "Progressing=False [AsExpected] Deployed version 1.0.0",
		"Available=True [ClusterServiceVersionSucceeded] ClusterServiceVersion olm/packageserver observed in phase Succeeded", "Upgradeable=True [AsExpected] Safe to upgrade")
	set(server, v1alpha1.CSVPhaseFailed)
	f.until(serverName, "Progressing=False [ClusterServiceVersionNotSucceeded] Failed to deploy 1.0.0")
	if err := f.Delete(t.Context(), server); err != nil {
		t.Fatal(err)
	}

	f.until(serverName, "Available=False [ClusterServiceVersionDeleted] Uninstalled version packageserver 1.0.0")
}

// A program without a ClusterOperator can be configured.
func TestNoName(t *testing.T) {
	for i, setup := range []func(manager.Manager, Options) error{SetupOLM, SetupCatalog, SetupPackageServer} {
		if err := setup(nil, Options{}); err != nil {
			t.Errorf("reporter %d: %v", i, err)
		}
	}
}
