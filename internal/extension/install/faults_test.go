package install_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// replica is a program with all controllers of extensions, one of several that elect a leader.
type replica struct {
	// cut keeps its requests from the API server.
	cut atomic.Bool
	// written counts its writes that the API server took, but for leases and events, and
	// refused those that it could not take. premature counts those of written before it led.
	written, refused, premature atomic.Int64
	// elected is closed when it leads.
	elected <-chan struct{}
	// ended is closed when it has ended, with err.
	ended chan struct{}
	err   error
	stop  context.CancelFunc
}

// startReplica starts a program, which ends with the test at the latest.
func (w *fixture) startReplica(c client.Client, elect bool) *replica {
	w.T.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.T.Context()))
	r := &replica{ended: make(chan struct{}), stop: cancel}
	connection := rest.CopyConfig(env.Start(w.T))
	connection.Wrap(func(next http.RoundTripper) http.RoundTripper { return &watchedTransport{replica: r, next: next} })
	mgr, err := env.NewManager(connection, ctrl.Options{
		Scheme: c.Scheme(), GracefulShutdownTimeout: ptr.To(time.Second),
		LeaderElection: elect, LeaderElectionID: "replicas", LeaderElectionNamespace: "default",
		LeaseDuration: ptr.To(4 * time.Second), RenewDeadline: ptr.To(3 * time.Second), RetryPeriod: ptr.To(500 * time.Millisecond),
	}, w.setUpAll)
	w.Must(err)

	r.elected = mgr.Elected()
	go func() {
		defer close(r.ended)
		r.err = mgr.Start(ctx)
	}()
	w.T.Cleanup(func() { cancel(); <-r.ended })

	return r
}

// waitForLeadership waits until the replica is the leader.
func (r *replica) waitForLeadership(t *testing.T) {
	t.Helper()
	select {
	case <-r.elected:
	case <-r.ended:
		t.Fatalf("the replica ended before it led: %v", r.err)
	case <-time.After(env.WaitTimeout):
		t.Fatal("the replica does not lead")
	}
}

// leads reports whether the replica has been elected.
func (r *replica) leads() bool {
	select {
	case <-r.elected:
		return true
	default:
		return false
	}
}

// watchedTransport counts the writes of a replica, and cuts it off.
type watchedTransport struct {
	replica *replica
	next    http.RoundTripper
}

func (t *watchedTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if t.replica.cut.Load() {
		return nil, errors.New("the network is down")
	}

	response, err := t.next.RoundTrip(request)
	isWrite := request.Method != http.MethodGet && !strings.Contains(request.URL.Path, "/leases") && !strings.HasSuffix(request.URL.Path, "/events")
	switch {
	case err != nil || !isWrite:
	case response.StatusCode < http.StatusMultipleChoices:
		t.replica.written.Add(1)
		if !t.replica.leads() {
			t.replica.premature.Add(1)
		}
	case response.StatusCode >= http.StatusInternalServerError:
		t.replica.refused.Add(1)
	}

	return response, err
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
	// working says whether Deployments become available.
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
	s.create(newExtension(s.name, s.name))
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
	s.Eventually("it is gone", func() error {
		err := s.Get(s.T.Context(), client.ObjectKey{Name: s.name}, &olmv1.ClusterExtension{})
		if err == nil {
			return errors.New("the extension is there")
		}
		return client.IgnoreNotFound(err)
	})

	for _, line := range s.captureState(s.all, s.name) {
		if !strings.HasPrefix(line, "Secret ") { // no garbage collector runs here
			s.T.Errorf("left over: %s", line)
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
	select {
	case <-program.ended:
		t.Errorf("the program ended: %v", program.err)
	default:
	}
}

// TestEtcdWithoutSpace has etcd refuse writes while an extension is installed and updated.
// Deletions are still possible.
func TestEtcdWithoutSpace(t *testing.T) {
	s := newFaultFixture(t, "without-space")
	program := s.startReplica(s.all, false)
	s.compareWithAndWithout(noInterruption, func(flow string) {
		if flow == "removal" { // It is asked for already.
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

		refused := program.refused.Load()
		if err := s.all.Delete(t.Context(), &accounts.Items[0]); err != nil {
			t.Fatal(err)
		}

		s.Eventually("the program tries again and again", func() error {
			if got := program.refused.Load() - refused; got < 3 {
				return fmt.Errorf("%d writes were refused", got)
			}
			return nil
		})

		free()
	})
}

// TestTwoReplicas cuts the leader of two replicas off in each flow. The other one takes over,
// and the one that was cut off writes nothing any more.
func TestTwoReplicas(t *testing.T) {
	s := newFaultFixture(t, "two-replicas")
	leader := s.startReplica(s.all, true)
	leader.waitForLeadership(t)
	follower := s.startReplica(s.all, true)
	checkFollower := func() {
		// On a busy machine the leader can lose the lease before it is cut off. Then the follower leads, and may write.
		if got := follower.premature.Load(); got > 0 {
			t.Errorf("the replica wrote %d times before it led", got)
		}
	}
	type former struct {
		*replica
		writes int64
	}
	var formers []former

	s.compareWithAndWithout(func(string) { checkFollower() }, func(flow string) {
		checkFollower()
		leader.cut.Store(true)
		<-leader.ended
		if leader.err == nil || !strings.Contains(leader.err.Error(), "leader election lost") {
			t.Errorf("%s: the leader that was cut off ended with %v, want the loss of the lease", flow, leader.err)
		}

		formers = append(formers, former{leader, leader.written.Load()})
		leader.cut.Store(false)
		follower.waitForLeadership(t)
		leader, follower = follower, s.startReplica(s.all, true)
	})

	for i, former := range formers {
		if got := former.written.Load() - former.writes; got > 0 {
			t.Errorf("leader %d wrote %d times after it lost the lease", i, got)
		}
	}
}
