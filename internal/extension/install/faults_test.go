package install_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// startReplica starts a program with all controllers of extensions, alone or as one of several that elect a leader.
func (w *fixture) startReplica(c client.Client, elect bool) *env.Replica {
	w.T.Helper()
	lease := ""
	if elect {
		lease = "replicas"
	}
	return (&env.Fixture{Client: c, T: w.T}).StartReplica(env.Manager{Setup: w.setUpAll}, lease)
}

// faultFixture is a fixture whose Deployments become available while the nodes work.
type faultFixture struct {
	*fixture
	// all is a client that knows every kind of a bundle's objects.
	all  client.Client
	name string
	// makeAvailable makes Deployments available, if working is set.
	makeAvailable func()

	mu sync.Mutex
	// working reports whether Deployments become available.
	working bool
}

// setWorking makes Deployments become available from now on, or not. When it returns, no Deployment is being made
// available after an earlier call.
func (s *faultFixture) setWorking(working bool) {
	s.mu.Lock()
	s.working = working
	s.mu.Unlock()
	s.makeAvailable()
}

func newFaultFixture(t *testing.T, name string) *faultFixture {
	s := &faultFixture{
		fixture: newFixtureWithoutController(t), all: env.Client(t, clientgoscheme.AddToScheme, olmv1.AddToScheme, apiextensionsv1.AddToScheme), name: name, working: true,
	}
	s.createNamespace(name)
	s.createCatalog(name)
	nodes := &env.Fixture{Client: s.all, T: t}
	s.makeAvailable = nodes.RunOnChanges(func(ctx context.Context) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.working {
			return nil
		}
		return nodes.MakeDeploymentsAvailable(ctx, client.InNamespace(name))
	}, deploymentKind)

	return s
}

// runLifecycle installs, updates and removes an extension. Each of the three flows is interrupted
// while it is running: the first two while they wait for a Deployment.
func (s *faultFixture) runLifecycle(interrupt func(flow string)) (installed, updated []string) {
	s.T.Helper()
	s.setCatalogVersions(s.getCatalog(s.name), "1.1.0")
	s.setWorking(false)
	s.CreateForTest(newExtension(s.name, s.name))
	s.expectCondition(s.name, olmv1.TypeProgressing, "True RollingOut phase \"deploy\"")
	interrupt("install")
	s.setWorking(true)
	s.Eventually("it is installed", func() error { return s.checkVersionReached(s.all, s.name, "1.1.0", 1) })
	installed = s.captureState(s.all, s.name)

	s.setWorking(false)
	s.setCatalogVersions(s.getCatalog(s.name), "1.1.0", "1.2.0")
	s.waitForRevision(s.name + "-2")
	s.expectCondition(s.name, olmv1.TypeProgressing, "True RollingOut phase \"deploy\"")
	interrupt("update")
	s.setWorking(true)
	s.Eventually("it is updated", func() error { return s.checkVersionReached(s.all, s.name, "1.2.0", 2) })
	updated = s.captureState(s.all, s.name)

	s.delete(s.getExtension(s.name))
	interrupt("removal")
	s.Eventually("it is deleted", func() error {
		err := s.Get(s.T.Context(), client.ObjectKey{Name: s.name}, &olmv1.ClusterExtension{})
		if err == nil {
			return errors.New("the extension is there")
		}
		return client.IgnoreNotFound(err)
	})

	for _, line := range s.captureState(s.all, s.name) {
		if !strings.HasPrefix(line, "Secret ") { // no garbage collector runs here
			s.T.Errorf("still existing: %s", line)
		}
	}

	s.Must(s.all.DeleteAllOf(s.T.Context(), &corev1.Secret{}, client.InNamespace(s.name)))

	return installed, updated
}

// compareWithAndWithout runs the lifecycle twice, with and without interruption, and compares the
// results.
func (s *faultFixture) compareWithAndWithout(undisturbed, interrupt func(flow string)) {
	s.T.Helper()
	wantInstalled, wantUpdated := s.runLifecycle(undisturbed)
	gotInstalled, gotUpdated := s.runLifecycle(interrupt)
	if diff := cmp.Diff(wantInstalled, gotInstalled); diff != "" {
		s.T.Errorf("installed (-undisturbed +interrupted):\n%s", diff)
	}
	if diff := cmp.Diff(wantUpdated, gotUpdated); diff != "" {
		s.T.Errorf("updated (-undisturbed +interrupted):\n%s", diff)
	}
}

// noInterruption interrupts no flow.
func noInterruption(string) {}

// TestServerRestartsUnderEachFlow restarts the API server while an extension is installed,
// updated and removed by a program that keeps running.
func TestServerRestartsUnderEachFlow(t *testing.T) {
	s := newFaultFixture(t, "server-restarts")
	program := s.startReplica(s.all, false)
	s.compareWithAndWithout(noInterruption, func(string) { env.RestartServer(t) })
	program.CheckRunning()
}

// TestEtcdWithoutSpace has etcd refuse writes while an extension is installed and updated.
// Deletions are still possible.
func TestEtcdWithoutSpace(t *testing.T) {
	s := newFaultFixture(t, "without-space")
	program := s.startReplica(s.all, false)
	s.compareWithAndWithout(noInterruption, func(flow string) {
		if flow == "removal" { // It is already requested.
			return
		}

		free := env.FillEtcd(t)
		err := s.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "one-too-many"}})
		if err == nil || !strings.Contains(err.Error(), "database space exceeded") {
			t.Fatalf("%s: a write without space: got error %v", flow, err)
		}

		var accounts corev1.ServiceAccountList
		if err := s.all.List(t.Context(), &accounts, client.InNamespace(s.name), client.HasLabels{olmv1.LabelOwnerName}); err != nil || len(accounts.Items) == 0 {
			t.Fatalf("%s: got %d service accounts of the extension (error %v), want some", flow, len(accounts.Items), err)
		}

		refused := program.Refused()
		if err := s.all.Delete(t.Context(), &accounts.Items[0]); err != nil {
			t.Fatal(err)
		}

		s.Eventually("the program retries its writes", func() error {
			if got := program.Refused() - refused; got < 3 {
				return fmt.Errorf("got %d rejected writes", got)
			}
			return nil
		})

		free()
	})
}

// TestTwoReplicas disconnects the leader of two replicas in each flow. The other one takes over,
// and the disconnected one writes nothing more.
func TestTwoReplicas(t *testing.T) {
	s := newFaultFixture(t, "two-replicas")
	leader := s.startReplica(s.all, true)
	leader.WaitForLeadership()
	follower := s.startReplica(s.all, true)
	s.compareWithAndWithout(func(string) { follower.CheckPassive() }, func(string) {
		follower.CheckPassive()
		leader.CutOff()
		follower.WaitForLeadership()
		leader, follower = follower, s.startReplica(s.all, true)
	})
}
