package pools

import (
	"cmp"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
)

// Joining is the configuration that a machine gets that joins a pool now; empty when nothing was
// rendered yet. It is the one that the nodes are brought to once a node has taken it: one that
// breaks nodes breaks no new machines before that. Until then it is the one that all nodes had last.
func Joining(pool *mcfgv1.MachineConfigPool) string {
	wanted, last := pool.Spec.Configuration.Name, pool.Status.Configuration.Name
	if pool.Status.UpdatedMachineCount > 0 {
		return wanted
	}
	return cmp.Or(last, wanted)
}
