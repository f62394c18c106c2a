package env

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

// Replica is a program that runs alone or as one of several replicas that elect a leader. Its requests can be prevented
// from reaching the API server.
type Replica struct {
	isCut                       atomic.Bool
	written, refused, premature atomic.Int64
	elected                     <-chan struct{}
	ended                       chan struct{}
	err                         error
	fixture                     *Fixture
}

// StartReplica runs a manager until it ends or the test does. Replicas with the same lease elect a leader. An empty lease
// means that the program runs alone. The namespace of the lease is that of the options, else "default". The connection for
// the lease is LeaderElectionConfig of the options, else that of the manager.
func (f *Fixture) StartReplica(m Manager, lease string) *Replica {
	f.T.Helper()
	r := &Replica{ended: make(chan struct{}), fixture: f}
	wrap := func(next http.RoundTripper) http.RoundTripper { return &replicaTransport{replica: r, next: next} }
	connection := f.connectManager(m)
	connection.Wrap(wrap)

	options := m.Options
	if options.LeaderElectionConfig != nil {
		options.LeaderElectionConfig = rest.CopyConfig(options.LeaderElectionConfig)
		options.LeaderElectionConfig.Wrap(wrap)
	}
	if options.Scheme == nil {
		options.Scheme = f.Scheme()
	}
	options.GracefulShutdownTimeout = ptr.To(time.Second)
	if lease != "" {
		options.LeaderElection, options.LeaderElectionID = true, lease
		options.LeaseDuration, options.RenewDeadline, options.RetryPeriod = ptr.To(4*time.Second), ptr.To(3*time.Second), ptr.To(500*time.Millisecond)
		if options.LeaderElectionNamespace == "" {
			options.LeaderElectionNamespace = "default"
		}
	}

	mgr, err := NewManager(connection, options, m.Setup)
	f.Must(err)
	r.elected = mgr.Elected()
	ctx, cancel := context.WithCancel(context.WithoutCancel(f.T.Context()))
	go func() {
		defer close(r.ended)
		r.err = mgr.Start(ctx)
	}()
	f.T.Cleanup(func() { cancel(); <-r.ended })

	return r
}

// connectManager returns the connection of a manager.
func (f *Fixture) connectManager(m Manager) *rest.Config {
	f.T.Helper()
	connection := Start(f.T)
	if m.Roles != "" {
		connection = ConfigWithRoles(f.T, m.Roles)
	}
	if m.Connect != nil {
		m.Connect(connection)
	}
	return connection
}

// Written returns the number of writes that the API server executed. Leases and events do not count.
func (r *Replica) Written() int64 { return r.written.Load() }

// Refused returns the number of writes that the API server could not execute. Leases and events do not count.
func (r *Replica) Refused() int64 { return r.refused.Load() }

// WaitForLeadership waits until the replica is the leader.
func (r *Replica) WaitForLeadership() {
	t := r.fixture.T
	t.Helper()
	select {
	case <-r.elected:
	case <-r.ended:
		t.Fatalf("the replica ended before it was the leader: %v", r.err)
	case <-time.After(WaitTimeout):
		t.Fatal("the replica is not the leader")
	}
}

// CheckRunning fails the test if the program has ended.
func (r *Replica) CheckRunning() {
	r.fixture.T.Helper()
	select {
	case <-r.ended:
		r.fixture.T.Errorf("the program ended: %v", r.err)
	default:
	}
}

// CheckPassive fails the test if the replica wrote before it was the leader. On a busy machine the leader can lose the
// lease before it is cut off. Then the follower is the leader, and may write.
func (r *Replica) CheckPassive() {
	r.fixture.T.Helper()
	if got := r.premature.Load(); got > 0 {
		r.fixture.T.Errorf("the replica wrote %d times before it was the leader, want none", got)
	}
}

// CutOff disconnects the leader until it ends because it has lost the lease. The test fails at its end if the former
// leader then writes again, although it is connected.
func (r *Replica) CutOff() {
	t := r.fixture.T
	t.Helper()
	r.isCut.Store(true)
	<-r.ended
	if r.err == nil || !strings.Contains(r.err.Error(), "leader election lost") {
		t.Errorf("the leader that was cut off ended with %v, want the loss of the lease", r.err)
	}

	written := r.written.Load()
	t.Cleanup(func() {
		if got := r.written.Load() - written; got > 0 {
			t.Errorf("the former leader wrote %d times after it had lost the lease, want none", got)
		}
	})
	r.isCut.Store(false)
}

// isLeader reports whether the replica has been elected.
func (r *Replica) isLeader() bool {
	select {
	case <-r.elected:
		return true
	default:
		return false
	}
}

// replicaTransport counts the writes of a replica, and cuts it off.
type replicaTransport struct {
	replica *Replica
	next    http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *replicaTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if t.replica.isCut.Load() {
		return nil, errors.New("the network is down")
	}

	response, err := t.next.RoundTrip(request)
	isWrite := request.Method != http.MethodGet && !strings.Contains(request.URL.Path, "/leases") && !strings.HasSuffix(request.URL.Path, "/events")
	switch {
	case err != nil || !isWrite:
	case response.StatusCode < http.StatusMultipleChoices:
		t.replica.written.Add(1)
		if !t.replica.isLeader() {
			t.replica.premature.Add(1)
		}
	case response.StatusCode >= http.StatusInternalServerError:
		t.replica.refused.Add(1)
	}

	return response, err
}
