package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"

	"github.com/mainstay-dev/mainstay/internal/testing/cluster"
)

// replica is one catalogd.
type replica struct {
	*scenario
	dir, address string
	server       *cluster.Server
}

func (r *replica) start(ctx context.Context, flags ...string) error {
	if r.address == "" {
		address, err := cluster.FreeAddress()
		if err != nil {
			return err
		}
		r.address = address
	}

	server, err := r.Start(ctx, r.dir+".log", "catalogd", append([]string{
		"--leader-elect", "--catalogs-server-addr", r.address, "--external-address", r.service.address(),
		"--metrics-bind-address", "0", "--cache-dir", r.dir,
	}, flags...)...)
	r.server = server
	return err
}

// hasNothingOf reports whether no file on the replica's disk bears the catalog's name.
func (r *replica) hasNothingOf(name string) error {
	return filepath.WalkDir(r.dir, func(path string, _ fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, os.ErrNotExist):
			return nil
		case err == nil && filepath.Base(path) == name:
			return fmt.Errorf("%s is still there", path)
		}
		return err
	})
}

// service stands for the Service of the replicas: a connection goes to one that is ready.
// A replica that is about to stop gets no new ones, as when its pod is terminating.
type service struct {
	listener net.Listener
	replicas []*replica

	mu    sync.Mutex
	out   *replica
	next  int
	conns map[*replica]int
}

func newService() (*service, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &service{listener: listener, conns: map[*replica]int{}}
	go s.run()
	return s, nil
}

func (s *service) address() string { return s.listener.Addr().String() }

func (s *service) close() { _ = s.listener.Close() }

func (s *service) run() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return // closed
		}
		go s.forward(conn)
	}
}

// choose takes the replicas in turn.
func (s *service) choose() *replica {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range s.replicas {
		s.next++
		if r := s.replicas[s.next%len(s.replicas)]; r != s.out {
			return r
		}
	}

	return s.replicas[0]
}

func (s *service) forward(client net.Conn) {
	defer client.Close()
	r := s.choose()
	s.count(r, 1)
	defer s.count(r, -1)
	server, err := net.Dial("tcp", r.address)
	if err != nil {
		return
	}

	defer server.Close()
	go func() {
		_, _ = io.Copy(server, client) // ends when either side closes
		_ = server.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(client, server)
}

// leaveOut sends no new connections to a replica, nil for none.
func (s *service) leaveOut(r *replica) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out = r
}

// connections counts those to a replica.
func (s *service) connections(r *replica) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns[r]
}

func (s *service) count(r *replica, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[r] += n
}
