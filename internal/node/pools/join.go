package pools

import (
	"cmp"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
)

// Joining returns the configuration for a machine that joins a pool now; empty before anything was rendered. It is the new
// configuration of the pool once a node has been updated to it, and the previous one until then. So a configuration that
// breaks nodes does not break new machines first.
func Joining(pool *mcfgv1.MachineConfigPool) string {
	wanted, last := pool.Spec.Configuration.Name, pool.Status.Configuration.Name
	if pool.Status.UpdatedMachineCount > 0 {
		return wanted
	}
	return cmp.Or(last, wanted)
}
