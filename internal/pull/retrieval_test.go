package pull_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/pull"
)

// retrievalFixture has retrievals of strings, and the names of the objects whose retrievals have
// ended.
type retrievalFixture struct {
	*pull.Retrievals[string]
	ended chan string
}

func newRetrievalFixture() *retrievalFixture {
	b := &retrievalFixture{&pull.Retrievals[string]{}, make(chan string, 100)}
	b.OnEnd(func(name string) { b.ended <- name })
	return b
}

// startRetrieval starts a retrieval from a registry.
func (b *retrievalFixture) startRetrieval(t *testing.T, name, request, host string, run func(context.Context) (string, error)) {
	b.Start(t.Context(), pull.Retrieval[string]{Name: name, Request: request, Reference: host + "/repository:v1", Run: run})
}

// expectState takes a retrieval and compares its state.
func (b *retrievalFixture) expectState(t *testing.T, name, request, result string, state pull.State, message string) {
	t.Helper()
	gotResult, gotState, err := b.Take(name, "", request)
	gotMessage := ""
	if err != nil {
		gotMessage = err.Error()
	}
	if gotResult != result || gotState != state || !strings.Contains(gotMessage, message) || (message == "") != (err == nil) {
		t.Errorf("Take(%s, %s) = %q, %v, %v; want %q, %v, %q", name, request, gotResult, gotState, err, result, state, message)
	}
}

func returnAnswer(text string, err error) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return text, err }
}

// waitForCancel waits until its context is done.
func waitForCancel(ctx context.Context) (string, error) {
	<-ctx.Done()
	return "late", ctx.Err()
}

func TestAResultIsTakenOnce(t *testing.T) {
	b := newRetrievalFixture()
	b.expectState(t, "a", "1", "", pull.None, "")
	release := make(chan struct{})
	b.startRetrieval(t, "a", "1", "one.example", func(context.Context) (string, error) { <-release; return "result", nil })
	b.startRetrieval(t, "a", "1", "one.example", returnAnswer("a second one", nil))
	b.expectState(t, "a", "1", "", pull.Running, "")
	close(release)
	if name := <-b.ended; name != "a" {
		t.Errorf("got the end of %q, want a", name)
	}
	if !b.IsPending("a") || b.IsPending("b") {
		t.Errorf("pending: a %v, b %v; want only a", b.IsPending("a"), b.IsPending("b"))
	}

	b.expectState(t, "a", "1", "result", pull.Ended, "")
	b.expectState(t, "a", "1", "", pull.None, "")

	b.startRetrieval(t, "a", "1", "one.example", returnAnswer("", errors.New("no answer")))
	<-b.ended
	b.expectState(t, "a", "1", "", pull.Ended, "no answer")
	b.startRetrieval(t, "a", "1", "one.example", func(context.Context) (string, error) { panic("what now") })
	<-b.ended
	b.expectState(t, "a", "1", "", pull.Ended, "image one.example/repository:v1: panic: what now")
}

func TestAnotherRequestCancels(t *testing.T) {
	b := newRetrievalFixture()
	b.startRetrieval(t, "a", "1", "one.example", waitForCancel)
	b.expectState(t, "a", "2", "", pull.Running, "")
	<-b.ended
	b.expectState(t, "a", "1", "", pull.None, "")

	// The result of another request is dropped.
	b.startRetrieval(t, "a", "1", "one.example", returnAnswer("of 1", nil))
	<-b.ended
	b.expectState(t, "a", "2", "", pull.None, "")
	b.expectState(t, "a", "1", "", pull.None, "")
}

func TestCancel(t *testing.T) {
	b := newRetrievalFixture()
	if !b.Cancel("a") {
		t.Error("got an active retrieval that was never started, want none")
	}

	b.startRetrieval(t, "a", "1", "one.example", waitForCancel)
	b.Start(t.Context(), pull.Retrieval[string]{Name: "a", Purpose: "plan", Reference: "one.example/r", Run: waitForCancel})
	if b.Cancel("a", "plan") {
		t.Error("got no active retrieval while it is still ending, want one")
	}

	<-b.ended
	if !b.Cancel("a", "plan") || !b.IsPending("a") {
		t.Errorf("after one purpose was canceled: pending is %v, want the other", b.IsPending("a"))
	}

	b.Cancel("a")
	<-b.ended
	if !b.Cancel("a") || b.IsPending("a") {
		t.Error("got an active retrieval after all purposes were canceled, want none")
	}
}

// TestARegistryHasItsOwnSlots uses a registry that never responds, for more objects than it has slots.
func TestARegistryHasItsOwnSlots(t *testing.T) {
	b := newRetrievalFixture()
	running := make(chan string, 100)
	const dead = 20
	for i := range dead {
		name := fmt.Sprint("dead-", i)
		b.startRetrieval(t, name, "1", "dead.example:5000", func(ctx context.Context) (string, error) {
			running <- name
			return waitForCancel(ctx)
		})
	}

	const slots = 4
	first := <-running
	for range slots - 1 {
		<-running
	}

	for i := range dead {
		b.startRetrieval(t, fmt.Sprint("good-", i), "1", fmt.Sprintf("good-%d.example", i), returnAnswer("good", nil))
	}

	for range dead {
		if name := <-b.ended; !strings.HasPrefix(name, "good-") {
			t.Errorf("got the end of %s, want it to wait for its registry", name)
		}
	}

	if len(running) > 0 {
		t.Errorf("got %d running retrievals of one registry, want %d", slots+len(running), slots)
	}

	// A retrieval that ends releases its slot for the next one.
	b.Cancel(first)
	<-running
	for i := range dead {
		b.Cancel(fmt.Sprint("dead-", i))
	}
}

func TestBackoffIsKeptWhileARetrievalIsPending(t *testing.T) {
	b := newRetrievalFixture()
	limiter := b.KeepBackoff(workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](time.Second, time.Hour))
	req := ctrl.Request{NamespacedName: client.ObjectKey{Name: "a"}}
	for i := range 3 {
		if got, want := limiter.When(req), time.Second<<i; got != want {
			t.Errorf("after %d failures: got backoff %v, want %v", i, got, want)
		}

		b.startRetrieval(t, "a", "1", "one.example", returnAnswer("", errors.New("no answer")))
		limiter.Forget(req)
		<-b.ended
		limiter.Forget(req)
		b.expectState(t, "a", "1", "", pull.Ended, "no answer")
	}

	limiter.Forget(req)
	if got := limiter.When(req); got != time.Second {
		t.Errorf("after a success: got backoff %v, want %v", got, time.Second)
	}
}

func TestTheRunnableEndsAfterTheRetrievals(t *testing.T) {
	b := newRetrievalFixture()
	ctx, cancel := context.WithCancel(t.Context())
	running, release := make(chan struct{}), make(chan struct{})
	b.Start(ctx, pull.Retrieval[string]{Name: "a", Run: func(ctx context.Context) (string, error) {
		close(running)
		<-ctx.Done()
		<-release
		return "", nil
	}})
	<-running // without it, the retrieval may be canceled before it runs
	done := make(chan error, 1)
	go func() { done <- b.Runnable().Start(ctx) }()
	cancel()
	select {
	case err := <-done:
		t.Fatalf("got the end of Start with error %v before that of the retrieval", err)
	default:
	}

	close(release)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if name := <-b.ended; name != "a" {
		t.Errorf("got the end of %q, want a", name)
	}

	b.startRetrieval(t, "b", "1", "one.example", waitForCancel)
	if b.IsPending("b") {
		t.Error("got a retrieval started after the end, want none")
	}
}
