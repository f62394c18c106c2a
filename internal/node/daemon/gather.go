package daemon

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	operatorv1 "github.com/mainstay-dev/mainstay/api/operator/v1"
	"github.com/mainstay-dev/mainstay/internal/node/config"
)

// gatherer reads the facts for decisions. It writes nothing.
type gatherer struct {
	disk    *disk
	records records
	host    Host
	// reader reads MachineConfigs and the policy of the cluster.
	reader      client.Reader
	runtimeUnit string
}

// readProgress returns the update of the node as the records describe it.
func (g *gatherer) readProgress() progress {
	var p progress
	if p.journal, p.failed = g.records.loadJournal(); p.journal != nil || p.failed != nil {
		return p
	}
	p.current, p.failed = g.records.loadCurrentConfig()
	return p
}

// gather completes the facts. An error of the machine is the fact failed. gather returns an error only if the program ends.
func (g *gatherer) gather(ctx context.Context, node *corev1.Node, f *facts) error {
	f.desired = node.Annotations[mcfgv1.AnnotationDesiredConfig]
	f.drained = isDrained(node, mcfgv1.DrainPrefix+f.desired)
	f.singleReplica = node.Annotations[mcfgv1.AnnotationTopology] == mcfgv1.TopologySingleReplica

	switch {
	case f.failed != nil:
		return nil //nolint:nilerr // the failure is a fact, which the decision reports
	case f.journal != nil:
		g.gatherUpdate(ctx, f)
		return nil
	case f.isOutdated():
		return g.gatherOutdated(ctx, f)
	}

	if f.forced = g.records.isValidationSkipped(); !f.forced {
		f.drift = g.readDrift(f.current)
	}
	return nil
}

// gatherOutdated gathers the facts of a node for which another configuration is desired.
func (g *gatherer) gatherOutdated(ctx context.Context, f *facts) error {
	if f.from = f.current; f.from == nil {
		f.from, f.failed = g.readFirstBootConfig(ctx)
	}
	if f.failed != nil || f.retryAfter() > 0 {
		return nil //nolint:nilerr // the failure is a fact, which the decision reports
	}

	f.target = g.readTarget(ctx, f.from, f.desired)
	if f.target.readErr != nil {
		return ctx.Err()
	}

	// A configuration of the first boot was not verified, and the force file skips the validation.
	f.forced = g.records.isValidationSkipped()
	if f.target.invalid == nil && f.from.configName() != "" && !f.forced {
		f.drift = g.readDrift(f.from)
	}
	if f.drift == nil {
		g.readEffort(ctx, &f.target)
	}

	return nil
}

// gatherUpdate gathers the facts of a node with an update that is not complete.
func (g *gatherer) gatherUpdate(ctx context.Context, f *facts) {
	if f.rebooting {
		return
	}
	if f.needsBootID() {
		if f.bootID, f.failed = g.host.BootID(); f.failed != nil {
			return
		}
	}

	if !f.isInEffect() {
		return
	}
	if f.drift = g.readDrift(&f.journal.To); f.drift == nil {
		return
	}
	if f.forced = g.records.isValidationSkipped(); !f.forced && f.isSuperseded() {
		f.target = g.readTarget(ctx, &f.journal.To, f.desired)
		g.readEffort(ctx, &f.target)
	}
}

// readDrift returns how the files of the node differ from a configuration, or why they cannot be compared with it.
func (g *gatherer) readDrift(a *applied) error {
	why, err := a.findDrift(g.disk)
	if err == nil && why == "" {
		return nil
	}
	return driftError(a, why, err)
}

// readTarget returns the configuration with a name, and how it differs from the one that the node has.
func (g *gatherer) readTarget(ctx context.Context, from *applied, name string) target {
	wanted := &mcfgv1.MachineConfig{}
	if err := g.reader.Get(ctx, client.ObjectKey{Name: name}, wanted); err != nil {
		return target{readErr: err}
	}

	t := target{config: newApplied(wanted)}
	t.change, t.invalid = g.compareConfigs(from, wanted)
	return t
}

// compareConfigs returns what a configuration changes, or why this node cannot change to it.
func (g *gatherer) compareConfigs(current *applied, wanted *mcfgv1.MachineConfig) (*config.Change, error) {
	if err := config.CheckName(wanted); err != nil {
		return nil, err
	}

	change, err := config.Compare(current.configSpec(), &wanted.Spec)
	if err != nil {
		return nil, err
	}

	ignition, err := config.Parse(wanted.Spec.Config.Raw)
	if err != nil {
		return nil, err
	}

	_, err = accounts{g.disk}.resolveItems(ignition)
	return change, err
}

// readEffort completes a target with what its change requires of the node. It does nothing for a target that cannot be
// reached.
func (g *gatherer) readEffort(ctx context.Context, t *target) {
	if t.readErr != nil || t.invalid != nil {
		return
	}

	policy, err := g.readDisruptionPolicy(ctx)
	if err != nil {
		t.effortErr = err
		return
	}
	t.effort = policy.Effort(t.change)
}

// readDisruptionPolicy returns the policy that decides what a change requires of the node.
func (g *gatherer) readDisruptionPolicy(ctx context.Context) (*config.Policy, error) {
	cluster := &operatorv1.MachineConfiguration{}
	err := g.reader.Get(ctx, client.ObjectKey{Name: operatorv1.MachineConfigurationName}, cluster)
	// A cluster need not have this object or its kind.
	if err != nil && !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("reading MachineConfiguration %q: %w", operatorv1.MachineConfigurationName, err)
	}
	return config.NewPolicy(g.runtimeUnit, &cluster.Spec.NodeDisruptionPolicy), nil
}
