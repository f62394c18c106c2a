package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// lifecycle is the installation of a cluster and its update, each of which waits for a ClusterOperator.
type lifecycle struct {
	*fixture
	// own are the options of the operator of the first release.
	own  Options
	next string
}

func newLifecycle(t *testing.T) *lifecycle {
	t.Helper()
	f := newFixture(t)
	first := f.newReleaseFiles("1.0.0", operatorManifest("1.0.0"))
	l := &lifecycle{
		fixture: f, own: Options{ReleaseImage: f.pushRelease(first), Payload: first},
		next: f.pushRelease(f.newReleaseFiles("1.0.1", operatorManifest("1.0.1"))),
	}
	f.signRelease(l.next)
	return l
}

// run installs the cluster and updates it by operators that are running. It calls interrupt with the version while the
// cluster waits for the ClusterOperator.
func (l *lifecycle) run(interrupt func(version string)) {
	l.T.Helper()
	l.createClusterVersion()
	for _, version := range []string{"1.0.0", "1.0.1"} {
		if version == "1.0.1" {
			l.requestUpdate(configv1.Update{Version: version, Image: l.next})
		}

		l.waitForObjects(version)
		interrupt(version)
		l.waitForObjects(version)
		l.reportOperator(version)
		l.waitForVersion("release "+version, isComplete(version))
	}

	history := l.waitForVersion("the history", isComplete("1.0.1")).Status.History
	if len(history) != 2 || !history[0].Verified || history[1].State != configv1.CompletedUpdate || history[1].Version != "1.0.0" {
		l.T.Errorf("got the history %+v, want two completed releases, the second one verified", history)
	}
}

// waitForObjects waits until the objects of a release are applied. The release is not complete, because the
// ClusterOperator has not reported it.
func (l *lifecycle) waitForObjects(version string) {
	l.T.Helper()
	l.waitForVersion("the work on release "+version, func(cv *configv1.ClusterVersion) bool {
		return len(cv.Status.History) > 0 && cv.Status.History[0].Version == version && cv.Status.History[0].State == configv1.PartialUpdate
	})
	l.Eventually("the objects are those of release "+version, func() error {
		note := &corev1.ConfigMap{}
		if err := l.Get(l.T.Context(), client.ObjectKey{Namespace: operatorNamespace, Name: "note"}, note); err != nil {
			return err
		}
		if got := note.Data["version"]; got != version {
			return fmt.Errorf("got release %s, want %s", got, version)
		}
		return nil
	})
}

// TestEtcdWithoutSpace has etcd refuse writes during an update. Deletions are still possible: an object of the release
// that is deleted meanwhile is restored when there is space.
func TestEtcdWithoutSpace(t *testing.T) {
	l := newLifecycle(t)
	operator := l.startReplica(l.own, "")
	l.run(func(version string) {
		if version == "1.0.0" { // An installation is like an update.
			return
		}

		free := env.FillEtcd(t)
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "one-too-many"}}
		if err := l.Create(t.Context(), namespace); err == nil || !strings.Contains(err.Error(), "database space exceeded") {
			t.Fatalf("a write without space: got error %v, want that the database space is exceeded", err)
		}

		before := operator.Refused()
		note := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: "note"}}
		l.Must(l.Delete(t.Context(), note))
		l.EventuallyTrue("the operator retries", func() bool { return operator.Refused() >= before+3 }, nil)
		free()
	})
	operator.CheckRunning()
}

// TestTwoReplicas disconnects the leader of two replicas during the installation and the update. The other one takes
// over, and the former leader writes nothing more.
func TestTwoReplicas(t *testing.T) {
	const lease = "version"
	l := newLifecycle(t)
	leader := l.startReplica(l.own, lease)
	leader.WaitForLeadership()
	follower := l.startReplica(l.own, lease)
	l.run(func(string) {
		follower.CheckPassive()
		leader.CutOff()
		follower.WaitForLeadership()
		leader, follower = follower, l.startReplica(l.own, lease)
	})
}

// TestClockJumps sets the clock forward and back during the installation and the update. A deadline that seems to have
// passed stops nothing.
func TestClockJumps(t *testing.T) {
	const years = 10 * 365 * 24 * time.Hour
	l := newLifecycle(t)
	clock := &env.JumpingClock{}
	l.own.Clock = clock
	operator := l.startReplica(l.own, "")
	l.run(func(version string) {
		available := metav1.ConditionTrue
		if version == "1.0.0" {
			available = metav1.ConditionFalse // An installation only waits for availability, not for versions.
		}

		for _, offset := range []time.Duration{years, -years, years, -years} {
			clock.JumpTo(offset)
			l.reportOperatorState("0.0.1", available) // Each report starts a pass.
			l.reportOperatorState("0.0.2", available)
		}
	})
	operator.CheckRunning()
}
