package env

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
)

// snapshot is the content of etcd at one time.
type snapshot struct {
	etcd    etcd
	entries map[string]entry
}

// createdByServer are objects that the API server creates by itself some time after it has become ready.
var createdByServer = []string{
	"/registry/namespaces/default", "/registry/namespaces/kube-system", "/registry/namespaces/kube-public", "/registry/namespaces/kube-node-lease",
	"/registry/services/specs/default/kubernetes", "/registry/services/endpoints/default/kubernetes", "/registry/endpointslices/default/kubernetes",
}

// renewedByServer are prefixes of the leases that the API server renews all the time.
var renewedByServer = []string{"/registry/masterleases/", "/registry/leases/kube-system/apiserver-"}

const (
	// quietInterval is the time without any write after which a new API server has created everything that it creates by itself.
	quietInterval = 200 * time.Millisecond
	// maxPasses limits the attempts to read or to restore a state that others change at the same time.
	maxPasses = 100
)

// takeSnapshot returns the content of etcd when a new API server has created everything that it creates by itself.
func takeSnapshot(ctx context.Context, e etcd) (*snapshot, error) {
	var last *snapshot
	for range maxPasses {
		entries, err := e.list(ctx, false)
		if err != nil {
			return nil, err
		}

		isMissing := func(key string) bool { _, exists := entries[key]; return !exists }
		if last != nil && len(last.findRepairs(entries)) == 0 && !slices.ContainsFunc(createdByServer, isMissing) {
			return last, nil
		}

		last = &snapshot{etcd: e, entries: entries}
		sleepFor(ctx, quietInterval)
	}

	return nil, errors.New("a new API server does not stop writing")
}

// restore restores the content of etcd. The API server follows, because it watches etcd.
func (s *snapshot) restore(ctx context.Context) error {
	// Requests of programs that have just ended may still be written after the first pass.
	for range maxPasses {
		entries, err := s.etcd.list(ctx, true)
		if err != nil {
			return err
		}

		repairs := s.findRepairs(entries)
		if len(repairs) == 0 {
			return nil
		}
		for batch := range slices.Chunk(repairs, maxOperations) {
			if err := s.executeRepairs(ctx, batch); err != nil {
				return err
			}
		}
	}

	return errors.New("the content of etcd changes while it is restored")
}

// findRepairs returns the operations that make the content of etcd that of the snapshot.
func (s *snapshot) findRepairs(now map[string]entry) []operation {
	var repairs []operation
	for key, was := range s.entries {
		if now[key].ModRevision != was.ModRevision && !isRenewedByServer(key) {
			repairs = append(repairs, operation{Put: &entry{Key: was.Key, Value: was.Value}})
		}
	}
	for key, added := range now {
		if _, existed := s.entries[key]; !existed && !isRenewedByServer(key) {
			repairs = append(repairs, operation{Delete: &entry{Key: added.Key}})
		}
	}

	return repairs
}

func isRenewedByServer(key string) bool {
	return slices.ContainsFunc(renewedByServer, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}

// executeRepairs executes repairs, and records the revision in which entries have their value now.
func (s *snapshot) executeRepairs(ctx context.Context, repairs []operation) error {
	revision, err := s.etcd.commitOperations(ctx, repairs)
	if err != nil {
		return err
	}

	for _, repair := range repairs {
		if repair.Put != nil {
			restored := s.entries[string(repair.Put.Key)]
			restored.ModRevision = revision
			s.entries[string(repair.Put.Key)] = restored
		}
	}
	return nil
}
