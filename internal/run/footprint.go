package run

import (
	"context"
	"os"
	"runtime/debug"
	"time"

	"github.com/go-logr/logr"
)

// This file keeps servers small: most of the time they wait.

// collectOften has the garbage collector run when memory has grown by half, not when it has
// doubled: the servers have little live memory, so that it costs next to nothing. GOGC
// overrules it.
func collectOften() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
}

// settle returns the memory that only what ran before needed, the start of the program above all.
// It tells whether that can be done on this system.
func settle(log logr.Logger) bool {
	if err := returnProgram(); err != nil {
		log.Info("The memory that the start of the program took is kept", "error", err.Error())
		return false
	}
	return true
}

// settling settles a server when it has read what it watches, and then again and again, ever more
// seldom: what it does is ever less like its start.
type settling struct{ log logr.Logger }

// The pauses of settling: the first, and the longest.
const (
	firstPause   = 100 * time.Millisecond
	longestPause = time.Minute
)

// Start implements manager.Runnable.
func (s settling) Start(ctx context.Context) error {
	for pause := firstPause; settle(s.log); pause = min(2*pause, longestPause) {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}

	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica settles.
func (settling) NeedLeaderElection() bool { return false }
