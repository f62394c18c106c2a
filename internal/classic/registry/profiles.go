package registry

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"runtime/pprof"
	"sync"
	"time"
)

// profiles serves profiles of the program by HTTP, and that of its start.
type profiles struct {
	// server and address are nil when nothing is served.
	server  *http.Server
	address net.Addr

	// mu guards what follows.
	mu sync.Mutex
	// ready says that the start is over.
	ready bool
	// capturing says that the CPU is being profiled, into cpu.
	capturing bool
	cpu       bytes.Buffer
}

// startProfiles listens on an address, nowhere when it is empty, and begins the profile of
// the start when that is wanted.
func startProfiles(ctx context.Context, address string, capture bool) (*profiles, error) {
	p := &profiles{}
	if capture {
		if err := pprof.StartCPUProfile(&p.cpu); err != nil {
			return nil, err
		}
		p.capturing = true
	}

	if address == "" {
		return p, nil
	}

	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		p.started()
		return nil, err
	}

	routes := profileRoutes()
	routes.HandleFunc("/debug/pprof/startup/cpu", p.startupCPU)
	p.address = listener.Addr()
	p.server = &http.Server{Handler: routes, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = p.server.Serve(listener) }() // It ends when it is closed.

	return p, nil
}

// started ends the profile of the start.
func (p *profiles) started() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.capturing {
		pprof.StopCPUProfile()
		p.capturing = false
	}
	p.ready = true
}

// startupCPU returns the profile of the start, an empty one when none was wanted.
func (p *profiles) startupCPU(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ready {
		http.Error(w, "cpu profile cache is not yet ready", http.StatusServiceUnavailable)
		return
	}

	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = w.Write(p.cpu.Bytes()) // The client has gone.
}

// stop ends all of it.
func (p *profiles) stop() {
	p.started()
	if p.server != nil {
		_ = p.server.Close() // What is under way is lost with the program.
	}
}
