package marketplace

import (
	"testing"

	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// TestServerRestarts kills the API server. The same program then restores a default catalog, and follows the OperatorHub.
func TestServerRestarts(t *testing.T) {
	f := newFixture(t)
	program := f.StartReplica(f.newManager(two), "")
	f.until(both, f.images)

	env.RestartServer(t)

	f.checkCatalogsAreRestored()
	f.want(false, "-b")
	f.until("a=registry.example.com/a:v1", f.images)
	program.CheckRunning()
}

// TestEtcdWithoutSpace has etcd refuse writes. A default catalog that is deleted meanwhile is restored when there is space.
func TestEtcdWithoutSpace(t *testing.T) {
	f := newFixture(t)
	program := f.StartReplica(f.newManager(two), "")
	f.until(both, f.images)
	f.until("+a Success, +b Success", f.status)

	free := env.FillEtcd(t)
	before := program.Refused()
	f.Must(f.Delete(t.Context(), f.catalog("a")))
	f.EventuallyTrue("the marketplace retries", func() bool { return program.Refused() >= before+3 }, nil)
	free()

	f.until(both, f.images)
	f.until("+a Success, +b Success", f.status)
	program.CheckRunning()
}

// TestTwoReplicas disconnects the leader of two replicas. The other one takes over, and the former leader writes nothing
// more.
func TestTwoReplicas(t *testing.T) {
	const lease = "marketplace"
	f := newFixture(t)
	leader := f.StartReplica(f.newManager(two), lease)
	leader.WaitForLeadership()
	follower := f.StartReplica(f.newManager(two), lease)
	f.until(both, f.images)
	f.checkCatalogsAreRestored()

	follower.CheckPassive()
	leader.CutOff()
	follower.WaitForLeadership()

	f.checkCatalogsAreRestored()
}

// checkCatalogsAreRestored deletes a default catalog, and waits until it exists again.
func (f *fixture) checkCatalogsAreRestored() {
	f.T.Helper()
	f.Must(f.Delete(f.T.Context(), f.catalog("a")))
	f.until(both, f.images)
}
