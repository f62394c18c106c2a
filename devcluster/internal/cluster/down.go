package cluster

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/mainstay-dev/mainstay/devcluster/internal/realnode"
	"github.com/mainstay-dev/mainstay/devcluster/internal/state"
)

// Down stops the cluster that runs on a data directory and waits until it has stopped, or ctx ends. ran is false if no
// cluster ran. In that case, Down reverts the changes that a killed supervisor left on the machine.
func Down(ctx context.Context, dir state.Dir) (ran bool, err error) {
	pid, running, err := state.LockHolder(dir)
	if err != nil {
		return false, err
	}
	if !running {
		return false, realnode.Cleanup(dir)
	}
	if pid == 0 {
		return true, errors.New("the supervisor is only just starting; try again in a moment")
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return true, fmt.Errorf("ask the supervisor (process %d) to stop: %w", pid, err)
	}

	ticks := time.NewTicker(20 * time.Millisecond)
	defer ticks.Stop()
	for {
		_, running, err := state.LockHolder(dir)
		if err != nil || !running {
			return true, err
		}
		select {
		case <-ctx.Done():
			return true, fmt.Errorf("the supervisor (process %d) still runs: %w; its log is %s",
				pid, context.Cause(ctx), dir.Log(SupervisorLog))
		case <-ticks.C:
		}
	}
}

// Reset deletes the state of a cluster that does not run.
func Reset(dir state.Dir) error {
	if err := dir.Create(); err != nil { // The lock file needs a directory.
		return err
	}

	lock, err := state.AcquireLock(dir)
	if err != nil {
		return err
	}
	defer lock.Release() //nolint:errcheck // A failed close loses no data.
	if err := realnode.Cleanup(dir); err != nil {
		return err
	}

	return dir.Reset()
}
