package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/mainstay-dev/mainstay/internal/testing/cluster"
)

// replica is one catalogd process.
type replica struct {
	dir, address string
	server       *cluster.Server
}

// checkNoFilesOf returns an error if a file of the replica has the name of the catalog.
func (r *replica) checkNoFilesOf(name string) error {
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

// replicaSet runs the replicas of catalogd behind their service.
type replicaSet struct {
	cluster *cluster.Cluster
	dir     string
	service *fakeService
	members []*replica
}

// startAll starts the service and n replicas, and waits until they are ready.
func (s *replicaSet) startAll(ctx context.Context, n int) error {
	service, err := newService()
	if err != nil {
		return err
	}

	s.service = service
	for i := range n {
		r := &replica{dir: filepath.Join(s.dir, fmt.Sprintf("replica-%d", i))}
		if err := s.startReplica(ctx, r); err != nil {
			return err
		}
		s.members = append(s.members, r)
	}

	s.service.replicas = s.members
	for _, r := range s.members {
		if err := r.server.AwaitReady(ctx); err != nil {
			return err
		}
	}

	return nil
}

// startReplica starts the process of a replica, which keeps its address and its folder.
func (s *replicaSet) startReplica(ctx context.Context, r *replica, flags ...string) error {
	if r.address == "" {
		address, err := cluster.FreeAddress()
		if err != nil {
			return err
		}
		r.address = address
	}

	server, err := s.cluster.Start(ctx, r.dir+".log", "catalogd", append([]string{
		"--leader-elect", "--catalogs-server-addr", r.address, "--external-address", s.service.listenAddress(),
		"--metrics-bind-address", "0", "--cache-dir", r.dir,
	}, flags...)...)
	r.server = server
	return err
}

// waitForEach waits until a check succeeds for each replica.
func (s *replicaSet) waitForEach(ctx context.Context, limit time.Duration, check func(context.Context, *replica) error) error {
	for _, r := range s.members {
		if err := waitFor(ctx, limit, func(ctx context.Context) error { return check(ctx, r) }); err != nil {
			return err
		}
	}
	return nil
}

// stopAll stops the replicas and the service. The receiver may be nil.
func (s *replicaSet) stopAll() error {
	if s == nil {
		return nil
	}

	var err error
	for _, r := range s.members {
		err = errors.Join(err, r.server.Stop())
	}

	if s.service != nil {
		s.service.closeListener()
	}

	return err
}
