package acceptance

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/utils/clock"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
)

// Retry intervals for releases that were not accepted. The interval doubles with each attempt.
const (
	minRetryInterval = 15 * time.Second
	maxRetryInterval = 4 * time.Minute
)

// State is the progress of a request.
type State struct {
	// Target and Force are those of the request.
	Target configv1.Release
	Force  bool
	// Accepted is the accepted release, and Failure the error of the last attempt. Both are nil
	// before the first attempt has ended.
	Accepted *Accepted
	Failure  *Failure
}

// Matches reports whether the state is about a request with the same pull spec, version and force.
func (s State) Matches(target configv1.Release, force bool) bool {
	return s.Target.Image == target.Image && s.Target.Version == target.Version && s.Force == force
}

// Acceptor processes requests in the background. It is a Runnable of a manager that runs on the
// leader. Its methods may be called at any time and do not block.
type Acceptor struct {
	judge     *Judge
	clock     clock.WithTicker
	triggered chan struct{}
	changed   chan struct{}

	mu      sync.Mutex
	request *Request
	state   State
	// cancelRunning cancels the running attempt.
	cancelRunning context.CancelFunc
}

// NewAcceptor returns an Acceptor. It does nothing until it is started and has a request. A nil
// clock is the real one.
func NewAcceptor(judge *Judge, c clock.WithTicker) *Acceptor {
	if c == nil {
		c = clock.RealClock{}
	}
	return &Acceptor{judge: judge, clock: c, triggered: make(chan struct{}, 1), changed: make(chan struct{}, 1)}
}

// NeedLeaderElection returns true: only one replica accepts releases.
func (a *Acceptor) NeedLeaderElection() bool { return true }

// Changed returns a channel that has an element if the state changed since the last receive.
func (a *Acceptor) Changed() <-chan struct{} { return a.changed }

// SetRequest replaces the request and returns its state. A request for the same release does not
// restart the attempt; its other fields are used by the next attempt.
func (a *Acceptor) SetRequest(r Request) State {
	a.mu.Lock()
	defer a.mu.Unlock()
	isNew := a.request == nil || !a.state.Matches(r.Target, r.Force)
	a.request = &r
	if isNew {
		a.cancelAcceptance()
		a.state = State{Target: r.Target, Force: r.Force}
		notifyWithoutBlocking(a.triggered)
	}

	return a.state
}

// RetryNow retries a release that was not accepted immediately, because the reason may no longer
// exist.
func (a *Acceptor) RetryNow() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.request != nil && a.state.Failure != nil {
		notifyWithoutBlocking(a.triggered)
	}
}

// Cancel removes the request, if there is one, and cancels its attempt.
func (a *Acceptor) Cancel() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.request == nil {
		return
	}

	a.cancelAcceptance()
	a.request = nil
	a.state = State{}
	notifyWithoutBlocking(a.triggered)
}

func (a *Acceptor) cancelAcceptance() {
	if a.cancelRunning != nil {
		a.cancelRunning()
		a.cancelRunning = nil
	}
}

// Start processes requests until the context ends.
func (a *Acceptor) Start(ctx context.Context) error {
	var due <-chan time.Time
	pause := minRetryInterval
	for {
		select {
		case <-ctx.Done():
		case <-a.triggered:
		case <-due:
		}
		if ctx.Err() != nil {
			return nil //nolint:nilerr // that it is to end is no error
		}
		due = nil
		switch tried, failed, isFirst := a.tryAcceptRequest(ctx); {
		case !failed:
			pause = minRetryInterval
		case tried && isFirst:
			pause = minRetryInterval
			due = a.clock.After(pause)
		default:
			pause = min(2*pause, maxRetryInterval)
			due = a.clock.After(pause)
		}
	}
}

// tryAcceptRequest makes one attempt for the current request, unless it is already accepted. isFirst is
// true for the first attempt of a request.
func (a *Acceptor) tryAcceptRequest(ctx context.Context) (tried, failed, isFirst bool) {
	a.mu.Lock()
	if a.request == nil || a.state.Accepted != nil {
		a.mu.Unlock()
		return false, false, false
	}

	request := *a.request
	isFirst = a.state.Failure == nil
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a.cancelRunning = cancel
	if a.state.Failure != nil {
		request.loaded = a.state.Failure.loaded
	}

	a.mu.Unlock()

	accepted, err := a.judge.Accept(ctx, request)

	a.mu.Lock()
	defer a.mu.Unlock()
	if ctx.Err() != nil {
		return true, false, isFirst // The request was replaced, and the new one triggered the next attempt.
	}

	a.cancelRunning = nil
	if err == nil {
		a.state.Accepted = accepted
		a.state.Failure = nil
	} else if !errors.As(err, &a.state.Failure) {
		a.state.Failure = &Failure{Reason: ReasonLoad, Message: err.Error(), Err: err}
	}

	notifyWithoutBlocking(a.changed)
	return true, err != nil, isFirst
}

// notifyWithoutBlocking sends an element to a buffered channel, unless the channel is full.
func notifyWithoutBlocking(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
