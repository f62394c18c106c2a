package env

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// SharedVariable is an environment variable. If it is set, test programs borrow their API server from Servers at
// SocketPath, one after the other, instead of starting one each. Its value does not matter.
const SharedVariable = "MAINSTAY_SHARED_ENV"

// restoreTimeout is the timeout for restoring the content of an API server.
const restoreTimeout = time.Minute

// SocketPath returns the path of the socket of Servers for a checkout of the repository. It is the same in each run, so
// that Go can reuse the results of unchanged tests.
func SocketPath(root string) string {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(root))
	return filepath.Join(os.TempDir(), fmt.Sprintf("mainstay-env-%x.sock", hash.Sum64()))
}

// loan is the message that a test program receives about the API server that it borrows.
type loan struct {
	// Error is the reason why there is no API server, or empty.
	Error string

	Host          string
	TLS           rest.TLSClientConfig
	QPS           float32
	Burst         int
	AuditLog      string
	AuditLogStart int64
}

// borrowedServer is an API server that this test program has for itself until it closes the connection.
type borrowedServer struct {
	loan       loan
	connection net.Conn
	replies    *json.Decoder
	// mu guards the connection, so that faults are requested one after the other.
	mu sync.Mutex
}

// faultReply is the result of a fault that a borrower requested. Error is empty if the fault happened.
type faultReply struct{ Error string }

// borrowServer borrows an API server of the Servers at a socket.
func borrowServer(root, socket string) (*borrowedServer, error) {
	// Go records which files a test reads, and runs the test again when they have changed. Here another program reads them.
	_, err := findBinaries(root)
	for _, folder := range crdFolders(root) {
		_, readErr := os.ReadDir(folder)
		err = errors.Join(err, readErr)
	}
	if err != nil {
		return nil, err
	}

	connection, err := (&net.Dialer{}).DialContext(context.Background(), "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("%s is set, but no process lends API servers: %w", SharedVariable, err)
	}

	b := &borrowedServer{connection: connection, replies: json.NewDecoder(connection)}
	if err := b.replies.Decode(&b.loan); err != nil {
		return nil, errors.Join(fmt.Errorf("borrowing an API server: %w", err), connection.Close())
	}
	if b.loan.Error != "" {
		return nil, errors.Join(fmt.Errorf("borrowing an API server: %s", b.loan.Error), connection.Close())
	}

	return b, nil
}

// causeFault requests a fault of the API server from the lender.
func (b *borrowedServer) causeFault(f fault) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := json.NewEncoder(b.connection).Encode(f); err != nil {
		return err
	}

	reply := faultReply{}
	if err := b.replies.Decode(&reply); err != nil {
		return err
	}
	if reply.Error != "" {
		return errors.New(reply.Error)
	}
	return nil
}

// Servers lends API servers to test programs, and causes the faults that the programs request. When a program
// ends, it ends the faults and restores what the API server had stored before, so that each program finds the state of a new
// one. Starting one takes more CPU time than the tests of most packages.
type Servers struct {
	// Root is the root of the repository.
	Root string

	running sync.WaitGroup
	mu      sync.Mutex
	idle    []*lentServer
}

// lentServer is an API server with the state that each borrower finds.
type lentServer struct {
	*controlPlane
	initial *snapshot
}

// Serve lends API servers to the programs that connect, until the listener is closed and all of them have ended. Then it
// stops the API servers.
func (s *Servers) Serve(listener net.Listener) error {
	for {
		connection, err := listener.Accept()
		if err != nil {
			break // The listener was closed.
		}
		s.running.Go(func() { s.lendServer(connection) })
	}
	s.running.Wait()

	errs := make([]error, len(s.idle))
	for i, server := range s.idle {
		s.running.Go(func() { errs[i] = server.stop() })
	}
	s.running.Wait()
	return errors.Join(errs...)
}

// lendServer lends an API server to one program.
func (s *Servers) lendServer(connection net.Conn) {
	defer connection.Close()
	server, err := s.acquire()
	if err != nil {
		_ = json.NewEncoder(connection).Encode(loan{Error: err.Error()})
		return
	}

	auditLog := filepath.Join(server.folder, auditLogFile)
	l := loan{Host: server.config.Host, TLS: server.config.TLSClientConfig, QPS: server.config.QPS, Burst: server.config.Burst, AuditLog: auditLog}
	if info, err := os.Stat(auditLog); err == nil {
		l.AuditLogStart = info.Size()
	}
	if json.NewEncoder(connection).Encode(l) == nil {
		server.serveFaults(connection)
	}

	s.release(server)
}

// serveFaults causes the faults that a borrower requests until it ends.
func (s *lentServer) serveFaults(connection net.Conn) {
	requests, replies := json.NewDecoder(connection), json.NewEncoder(connection)
	for {
		var f fault
		if err := requests.Decode(&f); err != nil {
			return
		}

		reply := faultReply{}
		if err := s.causeFault(f); err != nil {
			reply.Error = err.Error()
		}
		if err := replies.Encode(reply); err != nil {
			return
		}
	}
}

// acquire returns an unused API server, or starts one.
func (s *Servers) acquire() (*lentServer, error) {
	s.mu.Lock()
	if last := len(s.idle) - 1; last >= 0 {
		server := s.idle[last]
		s.idle = s.idle[:last]
		s.mu.Unlock()
		return server, nil
	}
	s.mu.Unlock()

	started, err := startControlPlane(s.Root)
	if err != nil {
		return nil, errors.Join(err, started.stop())
	}
	ctx, cancel := context.WithTimeout(context.Background(), controlPlaneTimeout)
	defer cancel()
	initial, err := takeSnapshot(ctx, etcd{started.environment.ControlPlane.Etcd.URL})
	if err != nil {
		return nil, errors.Join(err, started.stop())
	}

	return &lentServer{controlPlane: started, initial: initial}, nil
}

// release ends the faults of an API server and restores its state. If that fails, the API server is not used again.
func (s *Servers) release(server *lentServer) {
	ctx, cancel := context.WithTimeout(context.Background(), restoreTimeout)
	defer cancel()
	err := server.endFaults()
	if err == nil {
		err = server.initial.restore(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "an API server is not used again:", errors.Join(err, server.stop()))
		return
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle = append(s.idle, server)
}
