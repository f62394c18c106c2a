package run

import (
	"context"
	"os"
	"runtime/debug"

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

// settle gives back the memory that only the start of the program needed.
func settle(log logr.Logger) {
	if err := returnProgram(); err != nil {
		log.Info("The memory that the start of the program took is kept", "error", err.Error())
	}
}

// settling settles a server once more when it has read what it watches.
type settling struct{ log logr.Logger }

// Start implements manager.Runnable.
func (s settling) Start(context.Context) error {
	settle(s.log)
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica settles.
func (settling) NeedLeaderElection() bool { return false }
