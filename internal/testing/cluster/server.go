package cluster

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Server is a process of `mainstay run`.
type Server struct {
	*Process
	readyURL string
}

// Start runs `mainstay run COMPONENT` with flags, outside of the cluster, and appends its output
// to a log file. It does not wait until the server is ready.
func (c *Cluster) Start(ctx context.Context, log, component string, flags ...string) (*Server, error) {
	health, err := FreeAddress()
	if err != nil {
		return nil, err
	}

	args := append([]string{"run", component, "--health-probe-bind-address", health}, flags...)
	p, err := Launch("mainstay run "+component, log, c.newCommand(context.WithoutCancel(ctx), "mainstay", args...))
	if err != nil {
		return nil, err
	}

	return &Server{Process: p, readyURL: "http://" + health + "/readyz"}, nil
}

// Ready reports whether the server is ready.
func (s *Server) Ready(ctx context.Context) bool { return CheckURL(ctx, s.readyURL) == nil }

// AwaitReady waits until the server is ready, for at most a minute.
func (s *Server) AwaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for !s.Ready(ctx) {
		select {
		case <-s.exited:
			return s.CheckRunning()
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w\n%s", s.name, ctx.Err(), s.LogEnd())
		case <-time.After(20 * time.Millisecond):
		}
	}

	return nil
}

// CheckURL returns an error unless a GET request to the URL returns status 200.
func CheckURL(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}

	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, resp.Status)
	}

	return nil
}

// FreeAddress returns an address on localhost on which nothing listens.
func FreeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
