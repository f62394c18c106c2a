package main

import (
	"io"
	"net"
	"sync"
)

// fakeService replaces the Service of the replicas: it forwards each connection to a ready
// replica. A replica that is about to stop gets no new connections, as when its pod is
// terminating.
type fakeService struct {
	listener net.Listener
	replicas []*replica

	mu       sync.Mutex
	excluded *replica
	next     int
	conns    map[*replica]int
}

func newService() (*fakeService, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &fakeService{listener: listener, conns: map[*replica]int{}}
	go s.acceptConnections()
	return s, nil
}

func (s *fakeService) listenAddress() string { return s.listener.Addr().String() }

func (s *fakeService) closeListener() { _ = s.listener.Close() }

func (s *fakeService) acceptConnections() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return // closed
		}
		go s.forwardConnection(conn)
	}
}

// nextReplica returns the replicas in turn.
func (s *fakeService) nextReplica() *replica {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range s.replicas {
		s.next++
		if r := s.replicas[s.next%len(s.replicas)]; r != s.excluded {
			return r
		}
	}

	return s.replicas[0]
}

func (s *fakeService) forwardConnection(client net.Conn) {
	defer client.Close()
	r := s.nextReplica()
	s.addConnections(r, 1)
	defer s.addConnections(r, -1)
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

// excludeReplica sends no new connections to a replica; nil means none.
func (s *fakeService) excludeReplica(r *replica) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.excluded = r
}

// countConnections returns the number of connections to a replica.
func (s *fakeService) countConnections(r *replica) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns[r]
}

func (s *fakeService) addConnections(r *replica, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[r] += n
}
