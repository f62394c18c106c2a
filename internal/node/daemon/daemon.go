package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
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
)

const (
	// DefaultRuntimeUnit is the systemd unit of the container runtime.
	DefaultRuntimeUnit = "crio.service"
	// driftResyncInterval is how often the node's files are compared with its configuration.
	driftResyncInterval = 30 * time.Second
	// drainRetryInterval is how often a requested drain is checked. drainTimeout is how long it may take before the
	// node is reported as degraded.
	drainRetryInterval = 10 * time.Second
	drainTimeout       = time.Hour
	// updateRetryInterval is the time between a failed update and the next attempt.
	updateRetryInterval = 5 * time.Minute
)

// Daemon applies the desired MachineConfig to one node. Set its exported fields before the first call of
// Sync, and do not call Sync concurrently.
type Daemon struct {
	// Root is the root folder of the node. Required.
	Root *os.Root
	// Host runs commands on the machine. Required.
	Host Host
	// Client writes the annotations of the node. Required.
	Client client.Client
	// Reader reads MachineConfigs. Required.
	Reader client.Reader
	// Events records events of the node. Required.
	Events events.EventRecorder
	// RuntimeUnit is the systemd unit of the container runtime. Empty means DefaultRuntimeUnit.
	RuntimeUnit string
	// Clock tells the time. Nil means the real one.
	Clock clock.PassiveClock

	disk      *disk
	records   records
	originals originals
	updater   updater

	requestedDrain drainRequest
	// lastFailure is the last update that failed: its configuration, time and reason.
	lastFailure struct {
		config string
		at     time.Time
		reason string
	}
}

func (d *Daemon) setDefaults() {
	if d.disk == nil {
		d.disk = &disk{root: d.Root, owners: os.Geteuid() == 0, lasting: true}
	}
	d.records, d.originals = records{d.disk}, originals{d.disk}
	d.updater = updater{originals: d.originals, system: system{disk: d.disk, host: d.Host}}
	d.RuntimeUnit = cmp.Or(d.RuntimeUnit, DefaultRuntimeUnit)
	if d.Clock == nil {
		d.Clock = clock.RealClock{}
	}
}

// Sync does the next steps that the node needs, and returns after how long to call it again if the node does
// not change. The node is the daemon's own, as read from the cluster. Sync reports what fails on the machine in
// the annotations of the node. It returns an error only when the node cannot be reported on.
func (d *Daemon) Sync(ctx context.Context, node *corev1.Node) (time.Duration, error) {
	d.setDefaults()
	j, err := d.records.loadJournal()
	if err != nil {
		return updateRetryInterval, d.reportDegraded(ctx, node, err)
	}
	if j != nil {
		return d.resumeUpdate(ctx, node, j)
	}

	current, err := d.records.loadCurrentConfig()
	if err != nil {
		return updateRetryInterval, d.reportDegraded(ctx, node, err)
	}

	desired := node.Annotations[mcfgv1.AnnotationDesiredConfig]
	if desired == "" || desired == current.configName() {
		return d.reportUpToDate(ctx, node, current)
	}

	if current == nil {
		if current, err = d.firstBootConfig(ctx); err != nil {
			return updateRetryInterval, d.reportDegraded(ctx, node, err)
		}
	}

	return d.beginUpdate(ctx, node, current, desired)
}

// reportUpToDate reports that the node has its configuration, or that the files of the node have drifted from it.
// Where the force file exists, it applies the configuration once more.
func (d *Daemon) reportUpToDate(ctx context.Context, node *corev1.Node, current *applied) (time.Duration, error) {
	force, err := d.records.consumeForceFile()
	if err != nil {
		return updateRetryInterval, d.reportDegraded(ctx, node, err)
	}
	if force && current != nil {
		// Apply the configuration over what is there.
		return d.startUpdate(ctx, node, &journal{Phase: phaseApply, From: current, To: *current})
	}

	why, err := current.findDrift(d.disk)
	if err != nil || why != "" {
		return driftResyncInterval, d.reportDegraded(ctx, node, driftError(current, why, err))
	}

	return driftResyncInterval, d.patchAnnotations(ctx, node, map[string]string{
		mcfgv1.AnnotationCurrentConfig: current.configName(),
		mcfgv1.AnnotationState:         string(mcfgv1.NodeDone),
		mcfgv1.AnnotationReason:        "",
		mcfgv1.AnnotationDesiredDrain:  uncordonRequest(node, current.configName()),
	})
}

// driftError returns the error for a node whose files differ from its configuration, or cannot be compared with it.
func driftError(current *applied, why string, err error) error {
	if err != nil {
		return fmt.Errorf("the on-disk state cannot be validated against %s: %w", current.configName(), err)
	}
	return fmt.Errorf("unexpected on-disk state validating against %s: %s", current.configName(), why)
}

// beginUpdate updates the node to another configuration. It validates everything that can be validated without a
// change before it requests a drain.
func (d *Daemon) beginUpdate(ctx context.Context, node *corev1.Node, current *applied, desired string) (time.Duration, error) {
	if d.lastFailure.config == desired {
		if left := updateRetryInterval - d.Clock.Since(d.lastFailure.at); left > 0 {
			return left, d.reportDegraded(ctx, node, errors.New(d.lastFailure.reason))
		}
	}

	var wanted mcfgv1.MachineConfig
	if err := d.Reader.Get(ctx, client.ObjectKey{Name: desired}, &wanted); err != nil {
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		return drainRetryInterval, d.reportDegraded(ctx, node, fmt.Errorf("reading MachineConfig %q: %w", desired, err))
	}

	change, impossible, err := d.compareConfigs(current, &wanted)
	if impossible != nil {
		return updateRetryInterval, d.reportState(ctx, node, mcfgv1.NodeUnreconcilable, impossible)
	}
	if err != nil {
		return driftResyncInterval, d.reportDegraded(ctx, node, err)
	}

	if err := d.validateBeforeUpdate(current); err != nil {
		return driftResyncInterval, d.reportDegraded(ctx, node, err)
	}

	policy, err := d.readDisruptionPolicy(ctx)
	if err != nil {
		return drainRetryInterval, d.reportDegraded(ctx, node, err)
	}

	effort := policy.Effort(change)
	if effort.Drain && node.Annotations[mcfgv1.AnnotationTopology] != mcfgv1.TopologySingleReplica {
		if wait, err := d.ensureDrained(ctx, node, desired); wait > 0 || err != nil {
			return wait, err
		}
	}

	if err := d.reportWorking(ctx, node, desired); err != nil {
		return 0, err
	}
	if _, err := d.records.consumeForceFile(); err != nil {
		return updateRetryInterval, d.reportDegraded(ctx, node, err)
	}

	if current != nil && current.Name == "" {
		if err := d.originals.recordAsWrittenByFirstBoot(current); err != nil {
			return updateRetryInterval, d.reportDegraded(ctx, node, err)
		}
	}

	return d.startUpdate(ctx, node, &journal{Phase: phaseApply, From: current, To: *newApplied(&wanted), Effort: effort})
}

// validateBeforeUpdate returns an error when the files of the node have drifted from its configuration. It does not
// validate a configuration of the first boot, nor when the force file exists.
func (d *Daemon) validateBeforeUpdate(current *applied) error {
	if current.configName() == "" || d.records.isValidationSkipped() {
		return nil
	}
	if why, err := current.findDrift(d.disk); err != nil || why != "" {
		return driftError(current, why, err)
	}
	return nil
}

// compareConfigs returns what a configuration changes, or why this node cannot change to it.
func (d *Daemon) compareConfigs(current *applied, wanted *mcfgv1.MachineConfig) (*config.Change, *config.ImpossibleError, error) {
	if err := config.CheckName(wanted); err != nil {
		return nil, nil, err
	}

	change, err := config.Compare(current.configSpec(), &wanted.Spec)
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

	_, err = accounts{d.disk}.resolveItems(ignition)
	return change, nil, err
}

// readDisruptionPolicy returns the policy that decides what a change requires of the node.
func (d *Daemon) readDisruptionPolicy(ctx context.Context) (*config.Policy, error) {
	said := &operatorv1.MachineConfiguration{}
	err := d.Reader.Get(ctx, client.ObjectKey{Name: operatorv1.MachineConfigurationName}, said)
	// A cluster may have no such object, and not the kind either.
	if err != nil && !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("reading MachineConfiguration %q: %w", operatorv1.MachineConfigurationName, err)
	}
	return config.NewPolicy(d.RuntimeUnit, &said.Spec.NodeDisruptionPolicy), nil
}

// ensureDrained requests a drain of the node, and returns after how long to check again: zero when the node is
// drained.
func (d *Daemon) ensureDrained(ctx context.Context, node *corev1.Node, desired string) (time.Duration, error) {
	ask := mcfgv1.DrainPrefix + desired
	if isDrained(node, ask) {
		d.requestedDrain = drainRequest{}
		return 0, nil
	}

	now := d.Clock.Now()
	if d.requestedDrain.what != ask {
		d.requestedDrain = drainRequest{what: ask, since: now}
	}
	return drainRetryInterval, d.patchAnnotations(ctx, node, drainAnnotations(node, d.requestedDrain, now, d.lastFailure.config == desired))
}

// reportWorking reports that the node is being updated. A node that failed to update to this configuration before
// stays degraded, with the reason of that failure, until the update succeeds.
func (d *Daemon) reportWorking(ctx context.Context, node *corev1.Node, desired string) error {
	if d.lastFailure.config == desired {
		return d.reportDegraded(ctx, node, errors.New(d.lastFailure.reason))
	}
	return d.reportState(ctx, node, mcfgv1.NodeWorking, nil)
}

// startUpdate saves the journal of an update and runs it.
func (d *Daemon) startUpdate(ctx context.Context, node *corev1.Node, j *journal) (time.Duration, error) {
	if err := d.records.save(journalFile, j); err != nil {
		return updateRetryInterval, d.reportDegraded(ctx, node, err)
	}
	return d.resumeUpdate(ctx, node, j)
}

// resumeUpdate continues the update that the journal describes.
func (d *Daemon) resumeUpdate(ctx context.Context, node *corev1.Node, j *journal) (time.Duration, error) {
	if j.Phase == phaseReboot {
		return d.ensureRebooted(ctx, node, j)
	}

	desired := j.To.Name
	j, err := d.applyOrRollBack(ctx, j)
	if err != nil {
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		d.lastFailure.config, d.lastFailure.at, d.lastFailure.reason = desired, d.Clock.Now(), err.Error()
		return updateRetryInterval, d.reportDegraded(ctx, node, err)
	}

	if j.Effort.Reboot {
		if j.BootID, err = d.Host.BootID(); err != nil {
			return updateRetryInterval, d.reportDegraded(ctx, node, err)
		}
		j.Phase = phaseReboot
		if err := d.records.save(journalFile, j); err != nil {
			return updateRetryInterval, d.reportDegraded(ctx, node, err)
		}
		return d.ensureRebooted(ctx, node, j)
	}

	return d.finishUpdate(ctx, node, j)
}

// applyOrRollBack applies the update of a journal. When that fails, it restores the previous configuration and
// returns why.
func (d *Daemon) applyOrRollBack(ctx context.Context, j *journal) (*journal, error) {
	if j.Phase == phaseApply {
		err := d.updater.applyConfig(ctx, j)
		if ctx.Err() != nil {
			return j, ctx.Err() // The program ends; the next one resumes.
		}
		if err == nil {
			return j, nil
		}

		j.Phase, j.Reason = phaseRollBack, err.Error()
		if err := d.records.save(journalFile, j); err != nil {
			return j, fmt.Errorf("%s; and that could not be written down: %w", j.Reason, err)
		}
	}

	return j, d.updater.rollBack(ctx, j)
}

// ensureRebooted reboots the machine, and finishes the update once the machine has rebooted.
func (d *Daemon) ensureRebooted(ctx context.Context, node *corev1.Node, j *journal) (time.Duration, error) {
	id, err := d.Host.BootID()
	if err != nil {
		return updateRetryInterval, d.reportDegraded(ctx, node, err)
	}
	if id != j.BootID {
		return d.finishUpdate(ctx, node, j)
	}
	if err := d.reportState(ctx, node, mcfgv1.NodeRebooting, nil); err != nil {
		return 0, err
	}

	d.Events.Eventf(node, nil, corev1.EventTypeNormal, "Reboot", "Update", "Node will reboot into config %s", j.To.Name)
	if err := d.updater.system.reboot(ctx); err != nil {
		return updateRetryInterval, d.reportDegraded(ctx, node, err)
	}

	return drainRetryInterval, nil // The reboot usually ends this process first.
}

// finishUpdate verifies the files of the node, records the configuration as current, and reports it.
func (d *Daemon) finishUpdate(ctx context.Context, node *corev1.Node, j *journal) (time.Duration, error) {
	why, err := j.To.findDrift(d.disk)
	if err != nil || why != "" {
		return d.handleDriftAfterUpdate(ctx, node, j, driftError(&j.To, why, err))
	}
	if err := d.records.save(currentFile, &j.To); err != nil {
		return updateRetryInterval, d.reportDegraded(ctx, node, err)
	}
	if err := d.disk.removePath(journalFile); err != nil {
		return updateRetryInterval, d.reportDegraded(ctx, node, err)
	}

	d.lastFailure.config = ""
	return d.reportUpToDate(ctx, node, &j.To)
}

// handleDriftAfterUpdate handles files that were changed between the update and its verification. The node stays
// degraded until the change is undone, the force file skips the validation, or another configuration is desired.
func (d *Daemon) handleDriftAfterUpdate(ctx context.Context, node *corev1.Node, j *journal, why error) (time.Duration, error) {
	force, err := d.records.consumeForceFile()
	if err != nil {
		return updateRetryInterval, d.reportDegraded(ctx, node, err)
	}
	if force {
		return d.startUpdate(ctx, node, &journal{Phase: phaseApply, From: j.From, To: j.To, Effort: j.Effort})
	}

	desired := node.Annotations[mcfgv1.AnnotationDesiredConfig]
	if desired == "" || desired == j.To.Name {
		return driftResyncInterval, d.reportDegraded(ctx, node, why)
	}

	var wanted mcfgv1.MachineConfig
	if err := d.Reader.Get(ctx, client.ObjectKey{Name: desired}, &wanted); err != nil {
		return driftResyncInterval, d.reportDegraded(ctx, node, errors.Join(why, err))
	}

	change, impossible, err := d.compareConfigs(&j.To, &wanted)
	if impossible != nil || err != nil {
		return driftResyncInterval, d.reportDegraded(ctx, node, why)
	}

	policy, err := d.readDisruptionPolicy(ctx)
	if err != nil {
		return driftResyncInterval, d.reportDegraded(ctx, node, errors.Join(why, err))
	}

	return d.startUpdate(ctx, node, &journal{Phase: phaseApply, From: &j.To, To: *newApplied(&wanted), Effort: policy.Effort(change)})
}
