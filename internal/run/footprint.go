package run

import (
	"context"
	"os"
	"runtime/debug"
	"time"

	"github.com/go-logr/logr"
)

// This file reduces the memory of servers, which are idle most of the time.

// tuneGarbageCollector makes the garbage collector run when the heap has grown by 50 instead of 100 percent. The
// servers have a small heap, so the cost is low. The environment variable GOGC has precedence.
func tuneGarbageCollector() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
}

// releaseStartupMemory returns memory to the system that is no longer used, mainly by the start of the program.
// It reports whether that succeeded.
func releaseStartupMemory(log logr.Logger) bool {
	if err := releaseProgramPages(); err != nil {
		log.Info("The memory of the program start could not be released", "error", err.Error())
		return false
	}
	return true
}

// memoryReleaser releases memory after the caches of a server are synced, and then at increasing intervals.
type memoryReleaser struct{ log logr.Logger }

// The interval of memoryReleaser doubles from the minimum to the maximum.
const (
	minReleaseInterval = 100 * time.Millisecond
	maxReleaseInterval = time.Minute
)

// Start implements manager.Runnable.
func (s memoryReleaser) Start(ctx context.Context) error {
	for interval := minReleaseInterval; releaseStartupMemory(s.log); interval = min(2*interval, maxReleaseInterval) {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(interval):
		}
	}

	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica releases memory.
func (memoryReleaser) NeedLeaderElection() bool { return false }
