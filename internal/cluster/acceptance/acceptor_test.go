package acceptance

import (
	"context"
	"errors"
	"io/fs"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/testing/poll"
)

// waitTimeout limits every wait of a test.
const waitTimeout = 60 * time.Second

// scriptedRetriever returns what it receives from a channel, so that a test decides when a
// retrieval ends.
type scriptedRetriever struct {
	began chan string
	ends  chan error
}

func (s *scriptedRetriever) Retrieve(ctx context.Context, target configv1.Release) (fs.FS, error) {
	select {
	case s.began <- target.Image:
	case <-ctx.Done():
		return nil, ctx.Err()
	}

	select {
	case err := <-s.ends:
		return newReleaseFiles("1.2.4"), err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func receiveWithTimeout[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	select {
	case value := <-c:
		return value
	case <-time.After(waitTimeout):
		t.Fatalf("timed out waiting for %s", what)
	}

	var none T
	return none
}

func startAcceptor(t *testing.T) (*Acceptor, *scriptedRetriever, *clocktesting.FakeClock) {
	t.Helper()
	script := &scriptedRetriever{began: make(chan string), ends: make(chan error)}
	clock := clocktesting.NewFakeClock(time.Now())
	cv := newClusterVersion()
	acceptor := NewAcceptor(&Judge{
		Retriever:      script,
		ClusterVersion: func(context.Context) (*configv1.ClusterVersion, error) { return cv, nil },
		Etcd:           noEtcd, RecordStep: func(configv1.Release, string, bool, string) {},
	}, clock)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- acceptor.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := receiveWithTimeout(t, done, "the end"); err != nil {
			t.Error(err)
		}
	})

	return acceptor, script, clock
}

func newRequest(image string, force bool) Request {
	return Request{Target: configv1.Release{Version: "1.2.4", Image: image}, Force: force, Verifier: fakeVerifier{}}
}

func TestAcceptorRetries(t *testing.T) {
	acceptor, script, clock := startAcceptor(t)
	r := newRequest(image, false)
	if state := acceptor.SetRequest(r); state.Accepted != nil || state.Failure != nil {
		t.Fatalf("got state %+v before the first retrieval, want neither a release nor a failure", state)
	}

	receiveWithTimeout(t, script.began, "the first retrieval")
	script.ends <- errors.New("registry away")
	receiveWithTimeout(t, acceptor.Changed(), "the first failure")
	if state := acceptor.SetRequest(r); state.Failure == nil || state.Failure.Reason != ReasonRetrieve {
		t.Fatalf("got state %+v, want a failure with reason %s", state, ReasonRetrieve)
	}

	poll.EventuallyTrue(t, "the acceptor waits for the next attempt", clock.HasWaiters, nil)

	clock.Step(minRetryInterval)
	receiveWithTimeout(t, script.began, "the second retrieval")
	script.ends <- nil
	receiveWithTimeout(t, acceptor.Changed(), "the acceptance")
	if state := acceptor.SetRequest(r); state.Accepted == nil || state.Failure != nil || state.Accepted.Release.Version != "1.2.4" {
		t.Fatalf("got state %+v, want the accepted release 1.2.4", state)
	}

	acceptor.RetryNow() // The release is already accepted.
	acceptor.Cancel()
	acceptor.SetRequest(r)
	receiveWithTimeout(t, script.began, "a retrieval after all was forgotten")
}

func TestAcceptorNewRequest(t *testing.T) {
	acceptor, script, _ := startAcceptor(t)
	acceptor.SetRequest(newRequest("registry.example/a@sha256:01", false))
	receiveWithTimeout(t, script.began, "the first retrieval")
	acceptor.SetRequest(newRequest(image, false)) // The new request cancels the first retrieval.
	if got := receiveWithTimeout(t, script.began, "the second retrieval"); got != image {
		t.Errorf("got retrieval of %s, want %s", got, image)
	}

	script.ends <- nil
	receiveWithTimeout(t, acceptor.Changed(), "the acceptance")
	if state := acceptor.SetRequest(newRequest(image, false)); state.Accepted == nil {
		t.Errorf("got state %+v, want an accepted release", state)
	}
	if state := acceptor.SetRequest(newRequest(image, true)); state.Accepted != nil {
		t.Error("got an accepted release for a request with force, want it to be a new request")
	}

	receiveWithTimeout(t, script.began, "the forced retrieval")
}

func TestAcceptorAgain(t *testing.T) {
	acceptor, script, _ := startAcceptor(t)
	acceptor.SetRequest(newRequest(image, false))
	receiveWithTimeout(t, script.began, "the first retrieval")
	script.ends <- errors.New("registry away")
	receiveWithTimeout(t, acceptor.Changed(), "the failure")
	acceptor.RetryNow()
	receiveWithTimeout(t, script.began, "the second retrieval, without a pause")
	script.ends <- nil
	receiveWithTimeout(t, acceptor.Changed(), "the acceptance")
}
