package supervise

import (
	"context"
	"sync"
)

// Group is the set of child processes of one supervisor. The zero value is ready to use.
type Group struct {
	mutex     sync.Mutex
	processes []*Process
	died      chan *DiedError
	stopping  bool
}

// Start starts a child process and adds it to the group.
func (g *Group) Start(command Command) (*Process, error) {
	process, err := Start(command)
	if err != nil {
		return nil, err
	}

	g.mutex.Lock()
	g.processes = append(g.processes, process)
	died := g.ensureDiedChannel()
	g.mutex.Unlock()
	go func() {
		<-process.Ended()
		g.mutex.Lock()
		stopping := g.stopping
		g.mutex.Unlock()
		if stopping {
			return
		}

		select {
		case died <- process.Died():
		default: // Only the first death is reported: it causes those that follow.
		}
	}()

	return process, nil
}

// Died returns a channel that receives the first child that ends before Stop is called.
func (g *Group) Died() <-chan *DiedError {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	return g.ensureDiedChannel()
}

// ensureDiedChannel returns the channel of Died and creates it on the first call. The caller must hold the mutex.
func (g *Group) ensureDiedChannel() chan *DiedError {
	if g.died == nil {
		g.died = make(chan *DiedError, 1)
	}
	return g.died
}

// Stop stops all children in the reverse order of their start. It waits for each one before it asks the next, because a
// component that stops may still write to the API server, and the API server to etcd. When ctx ends, Stop kills the
// remaining children.
func (g *Group) Stop(ctx context.Context) {
	g.mutex.Lock()
	g.stopping = true
	processes := g.processes
	g.mutex.Unlock()
	for i := len(processes) - 1; i >= 0; i-- {
		processes[i].Stop(ctx)
	}
}
