// Package mortal runs programs that stop during their work, as after a crash. A test then checks
// how the next program continues from the state that they left.
//
// It is only for tests. No package of the product imports it.
package mortal

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"

	"k8s.io/client-go/rest"
)

// ErrDead is the error of every request of a dead program.
var ErrDead = errors.New("the program is dead")

// Process is a run of a program.
type Process struct {
	left   atomic.Int64
	dead   atomic.Bool
	cancel context.CancelFunc
	ended  chan struct{}
}

// Start starts a program that dies after a number of writes. Its last write reaches the API
// server, and none of its requests after that. The program must use the given connection and
// return when its context ends. Errors of a dying program are ignored.
func Start(ctx context.Context, connection *rest.Config, writes int64, program func(context.Context, *rest.Config)) *Process {
	l := &Process{ended: make(chan struct{})}
	l.left.Store(writes)
	ctx, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	connection = rest.CopyConfig(connection)
	connection.Wrap(func(next http.RoundTripper) http.RoundTripper { return &transport{life: l, next: next} })
	go func() {
		defer close(l.ended)
		program(ctx, connection)
	}()

	return l
}

// IsDead reports whether the program has died.
func (l *Process) IsDead() bool { return l.dead.Load() }

// Kill kills the program and waits until it has ended.
func (l *Process) Kill() {
	l.dead.Store(true)
	l.cancel()
	<-l.ended
}

type transport struct {
	life *Process
	next http.RoundTripper
}

func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if t.life.IsDead() {
		return nil, ErrDead
	}
	if request.Method == http.MethodGet {
		return t.next.RoundTrip(request)
	}

	left := t.life.left.Add(-1)
	if left < 0 {
		return nil, ErrDead
	}

	response, err := t.next.RoundTrip(request)
	if left == 0 {
		t.life.dead.Store(true)
	}

	return response, err
}
