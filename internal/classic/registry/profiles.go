package registry

import (
	"bytes"
	"context"
	"net"
	"net/http"
	httppprof "net/http/pprof"
	"runtime/pprof"
	"sync"
	"time"
)

// profileServer serves profiles of the program over HTTP, including a CPU profile of its start.
type profileServer struct {
	// server and address are nil if nothing is served.
	server  *http.Server
	address net.Addr

	// mu guards the fields below.
	mu sync.Mutex
	// startupDone reports whether the program has started.
	startupDone bool
	// capturing reports whether the CPU profile of the start is being written to cpu.
	capturing bool
	cpu       bytes.Buffer
}

// startProfileServer listens on an address, unless that is empty. If capture is set, it starts
// a CPU profile, which lasts until finishStartupProfile.
func startProfileServer(ctx context.Context, address string, capture bool) (*profileServer, error) {
	p := &profileServer{}
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
		p.finishStartupProfile()
		return nil, err
	}

	routes := newProfileMux()
	routes.HandleFunc("/debug/pprof/startup/cpu", p.serveStartupProfile)
	p.address = listener.Addr()
	p.server = &http.Server{Handler: routes, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = p.server.Serve(listener) }() // It returns after Close.

	return p, nil
}

// newProfileMux returns a mux that serves the profiles of the program.
func newProfileMux() *http.ServeMux {
	routes := http.NewServeMux()
	routes.HandleFunc("/debug/pprof/", httppprof.Index)
	routes.HandleFunc("/debug/pprof/cmdline", httppprof.Cmdline)
	routes.HandleFunc("/debug/pprof/profile", httppprof.Profile)
	routes.HandleFunc("/debug/pprof/symbol", httppprof.Symbol)
	routes.HandleFunc("/debug/pprof/trace", httppprof.Trace)

	return routes
}

// finishStartupProfile ends the CPU profile of the start.
func (p *profileServer) finishStartupProfile() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.capturing {
		pprof.StopCPUProfile()
		p.capturing = false
	}
	p.startupDone = true
}

// serveStartupProfile serves the CPU profile of the start, which is empty if none was captured.
func (p *profileServer) serveStartupProfile(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.startupDone {
		http.Error(w, "cpu profile cache is not yet ready", http.StatusServiceUnavailable)
		return
	}

	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = w.Write(p.cpu.Bytes()) // The client has disconnected.
}

// stop ends the CPU profile and closes the server.
func (p *profileServer) stop() {
	p.finishStartupProfile()
	if p.server != nil {
		_ = p.server.Close() // Requests in flight are dropped.
	}
}
