package acceptance

import (
	"context"
	"errors"
	"io/fs"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	clocktesting "k8s.io/utils/clock/testing"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
)

// patience bounds every wait of a test: what has not happened by then never will.
const patience = 60 * time.Second

// scripted returns what a channel has for it, so that a test decides when a retrieval ends.
type scripted struct {
	began chan string
	ends  chan error
}

func (s *scripted) Retrieve(ctx context.Context, target configv1.Release) (fs.FS, error) {
	select {
	case s.began <- target.Image:
	case <-ctx.Done():
		return nil, ctx.Err()
	}

	select {
	case err := <-s.ends:
		return payload("1.2.4"), err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func await[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	select {
	case value := <-c:
		return value
	case <-time.After(patience):
		t.Fatalf("%s never happened", what)
	}

	var none T
	return none
}

func start(t *testing.T) (*Acceptor, *scripted, *clocktesting.FakeClock) {
	t.Helper()
	script := &scripted{began: make(chan string), ends: make(chan error)}
	clock := clocktesting.NewFakeClock(time.Now())
	cv := cluster()
	acceptor := NewAcceptor(&Judge{
		Retriever:      script,
		ClusterVersion: func(context.Context) (*configv1.ClusterVersion, error) { return cv, nil },
		Etcd:           noEtcd, Tell: func(configv1.Release, string, bool, string) {},
	}, clock)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- acceptor.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := await(t, done, "the end"); err != nil {
			t.Error(err)
		}
	})

	return acceptor, script, clock
}

func request(image string, force bool) Request {
	return Request{Target: configv1.Release{Version: "1.2.4", Image: image}, Force: force, Verifier: verifier{}}
}

func TestAcceptorTriesAgain(t *testing.T) {
	acceptor, script, clock := start(t)
	r := request(image, false)
	if state := acceptor.Want(r); state.Accepted != nil || state.Failure != nil {
		t.Fatalf("state is %+v", state)
	}

	await(t, script.began, "the first retrieval")
	script.ends <- errors.New("registry away")
	await(t, acceptor.Changed(), "the first failure")
	if state := acceptor.Want(r); state.Failure == nil || state.Failure.Reason != ReasonRetrieve {
		t.Fatalf("state is %+v", state)
	}

	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, patience, true, func(context.Context) (bool, error) { return clock.HasWaiters(), nil })
	if err != nil {
		t.Fatalf("nothing waits for the next attempt: %v", err)
	}

	clock.Step(firstPause)
	await(t, script.began, "the second retrieval")
	script.ends <- nil
	await(t, acceptor.Changed(), "the acceptance")
	if state := acceptor.Want(r); state.Accepted == nil || state.Failure != nil || state.Accepted.Release.Version != "1.2.4" {
		t.Fatalf("state is %+v", state)
	}

	acceptor.Again() // Nothing is left to judge.
	acceptor.Forget()
	acceptor.Want(r)
	await(t, script.began, "a retrieval after all was forgotten")
}

func TestAcceptorTurnsToAnother(t *testing.T) {
	acceptor, script, _ := start(t)
	acceptor.Want(request("registry.example/a@sha256:01", false))
	await(t, script.began, "the first retrieval")
	acceptor.Want(request(image, false)) // It ends the first.
	if got := await(t, script.began, "the second retrieval"); got != image {
		t.Errorf("retrieves %s", got)
	}

	script.ends <- nil
	await(t, acceptor.Changed(), "the acceptance")
	if state := acceptor.Want(request(image, false)); state.Accepted == nil {
		t.Errorf("state is %+v", state)
	}
	if state := acceptor.Want(request(image, true)); state.Accepted != nil {
		t.Error("the same release, forced, is taken for the one that was accepted")
	}

	await(t, script.began, "the forced retrieval")
}

func TestAcceptorAgain(t *testing.T) {
	acceptor, script, _ := start(t)
	acceptor.Want(request(image, false))
	await(t, script.began, "the first retrieval")
	script.ends <- errors.New("registry away")
	await(t, acceptor.Changed(), "the failure")
	acceptor.Again()
	await(t, script.began, "the second retrieval, without a pause")
	script.ends <- nil
	await(t, acceptor.Changed(), "the acceptance")
}
