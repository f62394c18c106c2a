package supervise

import (
	"context"
	"sync"
)

// Group is the children of one supervisor. The zero value is ready to use.
type Group struct {
	mutex     sync.Mutex
	processes []*Process
	died      chan *DiedError
	stopping  bool
}

// Start starts a child that belongs to the group.
func (g *Group) Start(command Command) (*Process, error) {
	process, err := Start(command)
	if err != nil {
		return nil, err
	}

	g.mutex.Lock()
	g.processes = append(g.processes, process)
	died := g.channel()
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
		default: // The first death is the cause; the ones that follow from it are not news.
		}
	}()

	return process, nil
}

// Died returns the first child that ends before Stop is called.
func (g *Group) Died() <-chan *DiedError {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	return g.channel()
}

func (g *Group) channel() chan *DiedError {
	if g.died == nil {
		g.died = make(chan *DiedError, 1)
	}
	return g.died
}

// Stop ends all children, in the opposite order of their start and each gone before the next is asked: a component that
// stops may still write to the API server, and that to etcd. It kills what is left when ctx ends.
func (g *Group) Stop(ctx context.Context) {
	g.mutex.Lock()
	g.stopping = true
	processes := g.processes
	g.mutex.Unlock()
	for i := len(processes) - 1; i >= 0; i-- {
		processes[i].Stop(ctx)
	}
}
