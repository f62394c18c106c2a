package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Server is a process of `mainstay run`.
type Server struct {
	cmd    *exec.Cmd
	name   string
	log    string
	ready  string
	exited chan struct{}
	// err is how it ended, once exited is closed.
	err error
}

// Start runs `mainstay run COMPONENT` with flags, outside of the cluster, and logs to a
// file, which is continued when it exists. The server is not ready yet.
func (c *Cluster) Start(ctx context.Context, log, component string, flags ...string) (*Server, error) {
	health, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	args := append([]string{"run", component, "--health-probe-bind-address", health}, flags...)
	s := &Server{
		cmd: c.command(context.WithoutCancel(ctx), "mainstay", args...), name: "mainstay run " + component,
		log: log, ready: "http://" + health + "/readyz", exited: make(chan struct{}),
	}
	s.cmd.Stdout, s.cmd.Stderr = file, file
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	go func() {
		s.err = s.cmd.Wait()
		close(s.exited)
	}()
	return s, nil
}

// Ready tells whether the server says that it is ready.
func (s *Server) Ready(ctx context.Context) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.ready, nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// AwaitReady waits, for a minute at most, until the server is ready.
func (s *Server) AwaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for !s.Ready(ctx) {
		select {
		case <-s.exited:
			return fmt.Errorf("%s ended: %w\n%s", s.name, cmp.Or(s.err, errors.New("exit status 0")), s.logTail())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w\n%s", s.name, ctx.Err(), s.logTail())
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

// Stop ends the server as Kubernetes does, and waits until it has ended.
func (s *Server) Stop() error {
	_ = s.cmd.Process.Signal(os.Interrupt) // it may have ended by itself
	select {
	case <-s.exited:
		if s.err != nil {
			return fmt.Errorf("%s: %w\n%s", s.name, s.err, s.logTail())
		}
		return nil
	case <-time.After(stopTime):
		_ = s.cmd.Process.Kill()
		return fmt.Errorf("%s did not stop within %s and was killed", s.name, stopTime)
	}
}

// Kill ends the server at once, wherever it is in its work.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill() // it may have ended by itself
	<-s.exited
}

// logTail is the end of the server's log.
func (s *Server) logTail() string {
	const lines = 20
	data, err := os.ReadFile(s.log)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// FreeAddress gives an address on localhost that nobody listens on.
func FreeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
