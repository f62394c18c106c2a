package cluster

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/mainstay-dev/mainstay/devcluster/internal/components"
	"github.com/mainstay-dev/mainstay/devcluster/internal/state"
)

// reporter writes the state of the components to the output and to the record of the run.
type reporter struct {
	mutex   sync.Mutex
	options Options
	record  state.Record
}

func newReporter(options Options, config components.Config) *reporter {
	node := string(options.Node)
	if options.Node == Simulated && options.Nodes != 1 {
		node = fmt.Sprintf("%s (%d nodes)", node, options.Nodes)
	}

	record := state.Record{
		PID: os.Getpid(), Node: node, Kubeconfig: options.Dir.Kubeconfig(), Components: []state.ComponentRecord{},
		Registry: net.JoinHostPort("127.0.0.1", strconv.Itoa(config.Addresses.RegistryPort)),
	}
	if options.Node == Containerd {
		record.NodeRegistry = config.NodeRegistry()
	}

	return &reporter{options: options, record: record}
}

// recordPhase records the phase of the run. When the run has ended, it also records all components as stopped.
func (r *reporter) recordPhase(recordPhase, message string) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.record.Phase, r.record.Message = recordPhase, message
	if recordPhase == state.Stopped || recordPhase == state.Failed {
		for i := range r.record.Components {
			r.record.Components[i].State, r.record.Components[i].PID = state.Stopped, 0
		}
	}

	return r.options.Dir.WriteRecord(r.record)
}

func (r *reporter) recordComponentStarted(component components.Component, pid int) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.record.Components = append(r.record.Components, state.ComponentRecord{
		Name: component.Name, State: state.Starting, PID: pid, Address: component.Address,
	})
	return r.options.Dir.WriteRecord(r.record)
}

func (r *reporter) recordComponentReady(component components.Component, pid int, took time.Duration) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for i := range r.record.Components {
		if r.record.Components[i].PID == pid {
			r.record.Components[i].State = state.Running
		}
	}

	fmt.Fprintf(r.options.Out, "%-24s ready in %5.2f s   %s\n", component.Name, took.Seconds(), component.Address)
	return r.options.Dir.WriteRecord(r.record)
}

func (r *reporter) recordClusterReady(took time.Duration) error {
	fmt.Fprintf(r.options.Out, "%-24s ready in %5.2f s   export KUBECONFIG=%s\n",
		"cluster", took.Seconds(), r.options.Dir.Kubeconfig())
	return r.recordPhase(state.Running, "")
}
