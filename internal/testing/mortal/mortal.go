// Package mortal runs programs that die while they work, so that a test sees what the next
// one makes of what they left.
//
// It is for tests only. No room of the product imports it.
package mortal

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"

	"k8s.io/client-go/rest"
)

// ErrDead is what a dead program hears from its API server.
var ErrDead = errors.New("the program is dead")

// Life is a program that runs.
type Life struct {
	left   atomic.Int64
	dead   atomic.Bool
	cancel context.CancelFunc
	ended  chan struct{}
}

// Live starts a program that dies when it has written so many times: its last write reaches
// the API server, and from then on nothing that it does. The program uses the connection that
// it is given, and returns when its context ends. What a dying program fails with is of no
// interest.
func Live(ctx context.Context, connection *rest.Config, writes int64, program func(context.Context, *rest.Config)) *Life {
	l := &Life{ended: make(chan struct{})}
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

// Dead reports whether the program has died.
func (l *Life) Dead() bool { return l.dead.Load() }

// End lets the program die at once, and waits until it is gone.
func (l *Life) End() {
	l.dead.Store(true)
	l.cancel()
	<-l.ended
}

type transport struct {
	life *Life
	next http.RoundTripper
}

func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if t.life.Dead() {
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
