package acceptance

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/utils/clock"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
)

// Pauses before a release that was not accepted is judged again: the first one, which
// doubles, and the last.
const (
	firstPause = 15 * time.Second
	lastPause  = 4 * time.Minute
)

// State is how far the judgement of a release is.
type State struct {
	// Target and Force are those of the request.
	Target configv1.Release
	Force  bool
	// Accepted is the release when it was accepted, Failure why it was not the last time.
	// Both are nil at first.
	Accepted *Accepted
	Failure  *Failure
}

// IsFor reports whether it is about a release: the same pull spec, to be taken in the same
// way.
func (s State) IsFor(target configv1.Release, force bool) bool {
	return s.Target.Image == target.Image && s.Target.Version == target.Version && s.Force == force
}

// Acceptor judges releases beside whatever else goes on. It is a Runnable of a manager, on
// the leader. Its methods may be called at any time and do not wait.
type Acceptor struct {
	judge   *Judge
	clock   clock.WithTicker
	wake    chan struct{}
	changed chan struct{}

	mu      sync.Mutex
	request *Request
	state   State
	// stop ends the judgement under way.
	stop context.CancelFunc
}

// NewAcceptor makes an Acceptor that judges nothing until it is started and asked to. A nil
// clock is the real one.
func NewAcceptor(judge *Judge, c clock.WithTicker) *Acceptor {
	if c == nil {
		c = clock.RealClock{}
	}
	return &Acceptor{judge: judge, clock: c, wake: make(chan struct{}, 1), changed: make(chan struct{}, 1)}
}

// NeedLeaderElection is true: one replica judges.
func (a *Acceptor) NeedLeaderElection() bool { return true }

// Changed returns an element when the state has changed since the last one was taken.
func (a *Acceptor) Changed() <-chan struct{} { return a.changed }

// Want asks for a release, in place of the one before. Asking for the same again changes
// nothing but how the next judgement is made.
func (a *Acceptor) Want(r Request) State {
	a.mu.Lock()
	defer a.mu.Unlock()
	isNew := a.request == nil || !a.state.IsFor(r.Target, r.Force)
	a.request = &r
	if isNew {
		a.end()
		a.state = State{Target: r.Target, Force: r.Force}
		nudge(a.wake)
	}

	return a.state
}

// Again has a release that was not accepted judged now, for what stood against it may be
// gone.
func (a *Acceptor) Again() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.request != nil && a.state.Failure != nil {
		nudge(a.wake)
	}
}

// Forget ends whatever is judged.
func (a *Acceptor) Forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.end()
	a.request, a.state = nil, State{}
	nudge(a.wake)
}

func (a *Acceptor) end() {
	if a.stop != nil {
		a.stop()
		a.stop = nil
	}
}

// Start judges until the context ends.
func (a *Acceptor) Start(ctx context.Context) error {
	var due <-chan time.Time
	pause := firstPause
	for {
		select {
		case <-ctx.Done():
		case <-a.wake:
		case <-due:
		}
		if ctx.Err() != nil {
			return nil //nolint:nilerr // that it is to end is no error
		}
		due = nil
		switch tried, failed, isFirst := a.try(ctx); {
		case !failed:
			pause = firstPause
		case tried && isFirst:
			pause = firstPause
			due = a.clock.After(pause)
		default:
			pause = min(2*pause, lastPause)
			due = a.clock.After(pause)
		}
	}
}

// try judges what is asked for, unless it is accepted already.
func (a *Acceptor) try(ctx context.Context) (tried, failed, isFirst bool) {
	a.mu.Lock()
	if a.request == nil || a.state.Accepted != nil {
		a.mu.Unlock()
		return false, false, false
	}

	request := *a.request
	isFirst = a.state.Failure == nil
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a.stop = cancel
	if a.state.Failure != nil {
		request.loaded = a.state.Failure.loaded
	}

	a.mu.Unlock()

	accepted, err := a.judge.Accept(ctx, request)

	a.mu.Lock()
	defer a.mu.Unlock()
	if ctx.Err() != nil {
		return true, false, isFirst // Nobody asks for it any more; what is asked for now woke this up.
	}

	a.stop = nil
	if err == nil {
		a.state.Accepted, a.state.Failure = accepted, nil
	} else if !errors.As(err, &a.state.Failure) {
		a.state.Failure = &Failure{Reason: ReasonLoad, Message: err.Error(), Err: err}
	}

	nudge(a.changed)
	return true, err != nil, isFirst
}

// nudge leaves one element, unless there is one.
func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
