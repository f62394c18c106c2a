package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	operatorv1 "github.com/mainstay-dev/mainstay/api/operator/v1"
	"github.com/mainstay-dev/mainstay/internal/node/config"
	"github.com/mainstay-dev/mainstay/internal/node/pools"
)

const (
	// DefaultRuntimeUnit is the container runtime's unit.
	DefaultRuntimeUnit = "crio.service"
	// lookAgain is how often the node's files are compared with its configuration.
	lookAgain = 30 * time.Second
	// drainLook is how often the drain that was asked for is looked at, and drainTime how long it
	// may take before it is reported.
	drainLook = 10 * time.Second
	drainTime = time.Hour
	// tryAgain is how long after a failed update the next attempt is made.
	tryAgain = 5 * time.Minute
)

// Daemon brings one node to what it was told to be. Its exported fields are set before the first
// call of Sync; no two calls run at the same time.
type Daemon struct {
	// Root is the folder that stands for the root of the node. Required.
	Root *os.Root
	// Host is the machine beside its files. Required.
	Host Host
	// Client writes the annotations of the node. Required.
	Client client.Client
	// Reader reads MachineConfigs. Required.
	Reader client.Reader
	// Events tells of what is done. Required.
	Events events.EventRecorder
	// RuntimeUnit is the unit of the container runtime. Empty means DefaultRuntimeUnit.
	RuntimeUnit string
	// Clock tells the time. Nil means the real one.
	Clock clock.PassiveClock

	disk *disk
	// asked is what drain was asked for since when.
	asked struct {
		what  string
		since time.Time
	}
	// failed is the configuration to which the last update failed, when, and why.
	failed struct {
		config string
		at     time.Time
		reason string
	}
}

func (d *Daemon) start() {
	if d.disk != nil {
		return
	}

	d.disk = &disk{root: d.Root, owners: os.Geteuid() == 0, lasting: true}
	d.RuntimeUnit = cmp.Or(d.RuntimeUnit, DefaultRuntimeUnit)
	if d.Clock == nil {
		d.Clock = clock.RealClock{}
	}
}

// Sync does the next things that the node needs, and gives after how long to look again, if
// nothing changes before. The node is the daemon's own, as the cluster has it. What goes wrong on
// the node is reported there; an error is of the connection to the cluster, or of a disk that
// cannot be written.
func (d *Daemon) Sync(ctx context.Context, node *corev1.Node) (time.Duration, error) {
	d.start()
	j, err := d.disk.journal()
	if err != nil {
		return tryAgain, d.degrade(ctx, node, err)
	}
	if j != nil {
		return d.resume(ctx, node, j)
	}

	current, err := d.disk.current()
	if err != nil {
		return tryAgain, d.degrade(ctx, node, err)
	}

	desired := node.Annotations[mcfgv1.AnnotationDesiredConfig]
	if desired == "" || desired == current.name() {
		return d.idle(ctx, node, current)
	}

	if current == nil {
		if current, err = d.firstBoot(ctx); err != nil {
			return tryAgain, d.degrade(ctx, node, err)
		}
	}

	return d.begin(ctx, node, current, desired)
}

// idle reports that the node has what it is to have, after it has made sure of that.
func (d *Daemon) idle(ctx context.Context, node *corev1.Node, current *applied) (time.Duration, error) {
	force, err := d.disk.takeForce()
	if err != nil {
		return tryAgain, d.degrade(ctx, node, err)
	}
	if force && current != nil {
		// The configuration is put in place once more, over whatever is there.
		return d.update(ctx, node, &journal{Phase: phaseApply, From: current, To: *current})
	}

	why, err := d.disk.verify(current)
	if err != nil || why != "" {
		return lookAgain, d.degrade(ctx, node, drift(current, why, err))
	}

	return lookAgain, d.report(ctx, node, map[string]string{
		mcfgv1.AnnotationCurrentConfig: current.name(),
		mcfgv1.AnnotationState:         string(mcfgv1.NodeDone),
		mcfgv1.AnnotationReason:        "",
		mcfgv1.AnnotationDesiredDrain:  uncordon(node, current.name()),
	})
}

// uncordon returns what to ask of the controller of drains when an update has ended: that pods may
// come back, if it was asked to move them away.
func uncordon(node *corev1.Node, current string) string {
	asked := node.Annotations[mcfgv1.AnnotationDesiredDrain]
	if !strings.HasPrefix(asked, mcfgv1.DrainPrefix) {
		return asked
	}
	return mcfgv1.UncordonPrefix + cmp.Or(current, strings.TrimPrefix(asked, mcfgv1.DrainPrefix))
}

// drift says that the node is not what its configuration says.
func drift(current *applied, why string, err error) error {
	if err != nil {
		return fmt.Errorf("the on-disk state cannot be validated against %s: %w", current.name(), err)
	}
	return fmt.Errorf("unexpected on-disk state validating against %s: %s", current.name(), why)
}

// begin takes the node to a configuration that it does not have: what can be found out without a
// change comes first, then the pods are moved away.
func (d *Daemon) begin(ctx context.Context, node *corev1.Node, current *applied, desired string) (time.Duration, error) {
	if d.failed.config == desired {
		if left := tryAgain - d.Clock.Since(d.failed.at); left > 0 {
			return left, d.degrade(ctx, node, errors.New(d.failed.reason))
		}
	}

	var wanted mcfgv1.MachineConfig
	if err := d.Reader.Get(ctx, client.ObjectKey{Name: desired}, &wanted); err != nil {
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		return drainLook, d.degrade(ctx, node, fmt.Errorf("reading MachineConfig %q: %w", desired, err))
	}

	change, impossible, err := d.examine(current, &wanted)
	if impossible != nil {
		return tryAgain, d.say(ctx, node, mcfgv1.NodeUnreconcilable, impossible)
	}
	if err != nil {
		return lookAgain, d.degrade(ctx, node, err)
	}

	if current.name() != "" && !d.disk.isForced() {
		if why, err := d.disk.verify(current); err != nil || why != "" {
			return lookAgain, d.degrade(ctx, node, drift(current, why, err))
		}
	}

	policy, err := d.policy(ctx)
	if err != nil {
		return drainLook, d.degrade(ctx, node, err)
	}

	effort := policy.Effort(change)
	if effort.Drain && node.Annotations[mcfgv1.AnnotationTopology] != mcfgv1.TopologySingleReplica {
		if wait, err := d.drained(ctx, node, desired); wait > 0 || err != nil {
			return wait, err
		}
	}

	if err := d.working(ctx, node, desired); err != nil {
		return 0, err
	}
	if _, err := d.disk.takeForce(); err != nil {
		return tryAgain, d.degrade(ctx, node, err)
	}

	if current != nil && current.Name == "" {
		if err := d.disk.own(current); err != nil {
			return tryAgain, d.degrade(ctx, node, err)
		}
	}

	return d.update(ctx, node, &journal{Phase: phaseApply, From: current, To: *appliedOf(&wanted), Effort: effort})
}

// examine finds out whether a configuration can be taken, and what it changes.
func (d *Daemon) examine(current *applied, wanted *mcfgv1.MachineConfig) (*config.Change, *config.ImpossibleError, error) {
	if err := config.CheckName(wanted); err != nil {
		return nil, nil, err
	}

	change, err := config.Compare(current.spec(), &wanted.Spec)
	var impossible *config.ImpossibleError
	if errors.As(err, &impossible) {
		return nil, impossible, nil
	}
	if err != nil {
		return nil, nil, err
	}

	ignition, err := config.Parse(wanted.Spec.Config.Raw)
	if err != nil {
		return nil, nil, err
	}

	_, err = d.disk.items(ignition)
	return change, nil, err
}

// policy is what changes ask of the node.
func (d *Daemon) policy(ctx context.Context) (*config.Policy, error) {
	said := &operatorv1.MachineConfiguration{}
	err := d.Reader.Get(ctx, client.ObjectKey{Name: operatorv1.MachineConfigurationName}, said)
	// A cluster may have no such object, and not the kind either.
	if err != nil && !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("reading MachineConfiguration %q: %w", operatorv1.MachineConfigurationName, err)
	}
	return config.NewPolicy(d.RuntimeUnit, &said.Spec.NodeDisruptionPolicy), nil
}

// drained asks for the pods of the node to be moved away, and gives when to look again, zero when
// they are gone.
func (d *Daemon) drained(ctx context.Context, node *corev1.Node, desired string) (time.Duration, error) {
	ask := mcfgv1.DrainPrefix + desired
	if node.Annotations[mcfgv1.AnnotationDesiredDrain] == ask && node.Annotations[mcfgv1.AnnotationLastAppliedDrain] == ask {
		d.asked.what = ""
		return 0, nil
	}
	if d.asked.what != ask {
		d.asked.what, d.asked.since = ask, d.Clock.Now()
	}
	return drainLook, d.report(ctx, node, d.awaitDrain(node, ask, desired))
}

// awaitDrain returns the annotations of a node whose drain is asked for and not done. The
// controller says in the reason what keeps the drain from ending. The daemon therefore clears only
// reasons of before, and says itself only that the controller does not.
func (d *Daemon) awaitDrain(node *corev1.Node, ask, desired string) map[string]string {
	since := d.asked.since
	if started := pools.DrainStarted(node); !started.IsZero() && started.Before(since) {
		since = started // before a restart of the daemon
	}

	changes := map[string]string{mcfgv1.AnnotationDesiredDrain: ask}
	switch {
	case d.Clock.Since(since) >= drainTime:
		changes[mcfgv1.AnnotationState] = string(mcfgv1.NodeDegraded)
		if node.Annotations[mcfgv1.AnnotationReason] == "" {
			changes[mcfgv1.AnnotationReason] = fmt.Sprintf(
				"failed to drain node: %s after 1 hour. The machine-config-controller does not say what keeps its pods: check that it runs", node.Name)
		}
	case d.failed.config != desired:
		changes[mcfgv1.AnnotationState] = string(mcfgv1.NodeWorking)
		if node.Annotations[mcfgv1.AnnotationDesiredDrain] != ask || node.Annotations[mcfgv1.AnnotationState] != string(mcfgv1.NodeWorking) {
			changes[mcfgv1.AnnotationReason] = ""
		}
	}

	return changes
}

// working reports that the node is being changed. One that failed at the same before stays degraded
// until it succeeds, with the reason of that failure.
func (d *Daemon) working(ctx context.Context, node *corev1.Node, desired string) error {
	if d.failed.config == desired {
		return d.degrade(ctx, node, errors.New(d.failed.reason))
	}
	return d.say(ctx, node, mcfgv1.NodeWorking, nil)
}

// update writes the journal, and carries it out.
func (d *Daemon) update(ctx context.Context, node *corev1.Node, j *journal) (time.Duration, error) {
	if err := d.disk.save(journalFile, j); err != nil {
		return tryAgain, d.degrade(ctx, node, err)
	}
	return d.resume(ctx, node, j)
}

// resume goes on with an update, from wherever it is.
func (d *Daemon) resume(ctx context.Context, node *corev1.Node, j *journal) (time.Duration, error) {
	if j.Phase == phaseReboot {
		return d.rebooted(ctx, node, j)
	}

	desired := j.To.Name
	j, err := d.carryOut(ctx, j)
	if err != nil {
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		d.failed.config, d.failed.at, d.failed.reason = desired, d.Clock.Now(), err.Error()
		return tryAgain, d.degrade(ctx, node, err)
	}

	if j.Effort.Reboot {
		if j.BootID, err = d.Host.BootID(); err != nil {
			return tryAgain, d.degrade(ctx, node, err)
		}
		j.Phase = phaseReboot
		if err := d.disk.save(journalFile, j); err != nil {
			return tryAgain, d.degrade(ctx, node, err)
		}
		return d.rebooted(ctx, node, j)
	}

	return d.finish(ctx, node, j)
}

// rebooted has the machine start again, and goes on when it has.
func (d *Daemon) rebooted(ctx context.Context, node *corev1.Node, j *journal) (time.Duration, error) {
	id, err := d.Host.BootID()
	if err != nil {
		return tryAgain, d.degrade(ctx, node, err)
	}
	if id != j.BootID {
		return d.finish(ctx, node, j)
	}
	if err := d.say(ctx, node, mcfgv1.NodeRebooting, nil); err != nil {
		return 0, err
	}

	d.Events.Eventf(node, nil, corev1.EventTypeNormal, "Reboot", "Update", "Node will reboot into config %s", j.To.Name)
	if err := d.run(ctx, reboot[0], reboot[1:]...); err != nil {
		return tryAgain, d.degrade(ctx, node, err)
	}

	return drainLook, nil // Most likely the program ends meanwhile.
}

// finish makes sure that the node has its configuration, and says so.
func (d *Daemon) finish(ctx context.Context, node *corev1.Node, j *journal) (time.Duration, error) {
	why, err := d.disk.verify(&j.To)
	if err != nil || why != "" {
		return d.unfinished(ctx, node, j, drift(&j.To, why, err))
	}
	if err := d.disk.save(currentFile, &j.To); err != nil {
		return tryAgain, d.degrade(ctx, node, err)
	}
	if err := d.disk.remove(journalFile); err != nil {
		return tryAgain, d.degrade(ctx, node, err)
	}

	d.failed.config = ""
	return d.idle(ctx, node, &j.To)
}

// unfinished is when the node is not what it should be after its update: somebody has changed it.
// It stays so until that is undone, the check is left out by force, or another configuration is
// wanted.
func (d *Daemon) unfinished(ctx context.Context, node *corev1.Node, j *journal, why error) (time.Duration, error) {
	force, err := d.disk.takeForce()
	if err != nil {
		return tryAgain, d.degrade(ctx, node, err)
	}
	if force {
		return d.update(ctx, node, &journal{Phase: phaseApply, From: j.From, To: j.To, Effort: j.Effort})
	}

	desired := node.Annotations[mcfgv1.AnnotationDesiredConfig]
	if desired == "" || desired == j.To.Name {
		return lookAgain, d.degrade(ctx, node, why)
	}

	var wanted mcfgv1.MachineConfig
	if err := d.Reader.Get(ctx, client.ObjectKey{Name: desired}, &wanted); err != nil {
		return lookAgain, d.degrade(ctx, node, errors.Join(why, err))
	}

	change, impossible, err := d.examine(&j.To, &wanted)
	if impossible != nil || err != nil {
		return lookAgain, d.degrade(ctx, node, why)
	}

	policy, err := d.policy(ctx)
	if err != nil {
		return lookAgain, d.degrade(ctx, node, errors.Join(why, err))
	}

	return d.update(ctx, node, &journal{Phase: phaseApply, From: &j.To, To: *appliedOf(&wanted), Effort: policy.Effort(change)})
}
