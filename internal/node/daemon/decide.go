package daemon

import (
	"errors"
	"fmt"
	"time"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	"github.com/mainstay-dev/mainstay/internal/node/config"
)

// progress is the state of an update during one reconciliation.
type progress struct {
	// journal describes the update that is not complete; nil when there is none.
	journal *journal
	// current is the configuration that the node has; nil when it has none. It is read when there is no journal.
	current *applied
	// applied is true once this reconciliation has applied the configuration of the journal.
	applied bool
	// rebooting is true once this reconciliation has requested the reboot.
	rebooting bool
	// finished is true once this reconciliation has finished an update. The node reports it before another update begins.
	finished bool
	// failed is the error of the machine in this reconciliation; nil when there is none.
	failed error
}

// facts are the input of a decision. Only the facts that the decision needs are set.
type facts struct {
	progress
	now time.Time

	// desired is the name of the configuration that the node shall have; empty when there is none.
	desired string
	// drained is true when the drain for that configuration is complete. singleReplica is true when the cluster has no other
	// node to which pods could move.
	drained, singleReplica bool
	lastFailure            failure

	// bootID identifies the present boot of the machine.
	bootID string
	// forced is true when the force file exists.
	forced bool
	// drift is the difference between the files of the node and its configuration, or the error of the comparison; nil when
	// there is none.
	drift error
	// from is the configuration that the node is updated from: the current one, or the one of the first boot.
	from *applied
	// target is the desired configuration, when the node has another one.
	target target
}

// target is the configuration to which a node is updated.
type target struct {
	config *applied
	// readErr is why the configuration cannot be read.
	readErr error
	// change is the difference to the present configuration. invalid is why this node cannot be updated to the configuration.
	change  *config.Change
	invalid error
	// effort is what the change requires of the node. effortErr is why the effort is unknown.
	effort    config.Effort
	effortErr error
}

// failure is an update that failed.
type failure struct {
	config string
	at     time.Time
	reason string
}

// step is what a daemon does next.
type step string

const (
	// stepNone reports the state of the decision, and does nothing else.
	stepNone step = "none"
	// stepReportDone reports that the node has its configuration.
	stepReportDone step = "report done"
	// stepRequestDrain requests a drain of the node.
	stepRequestDrain step = "request drain"
	// stepConsumeForceFile removes the force file.
	stepConsumeForceFile step = "consume force file"
	// stepBegin begins the update of the decision's journal.
	stepBegin step = "begin"
	// stepRestart replaces the present update, or none, by the one of the decision's journal.
	stepRestart step = "restart"
	// stepApply applies the configuration of the journal.
	stepApply step = "apply"
	// stepRollBack restores the previous configuration.
	stepRollBack step = "roll back"
	// stepAwaitReboot records that the machine has to reboot.
	stepAwaitReboot step = "await reboot"
	// stepReboot reboots the machine.
	stepReboot step = "reboot"
	// stepFinish records the configuration of the journal as current.
	stepFinish step = "finish"
)

// decision is the next step of an update.
type decision struct {
	do step
	// state and reason are reported before the step. An empty state reports nothing.
	state  mcfgv1.NodeState
	reason error
	// journal is the update that stepBegin and stepRestart start, and what stepAwaitReboot records.
	journal *journal
	// after is the time until the next reconciliation. Zero continues this one.
	after time.Duration
}

// reportAndWait reports a state until the next reconciliation.
func reportAndWait(state mcfgv1.NodeState, reason error, after time.Duration) decision {
	return decision{do: stepNone, state: state, reason: reason, after: after}
}

// degraded reports the node as degraded until the next reconciliation.
func degraded(reason error, after time.Duration) decision {
	return reportAndWait(mcfgv1.NodeDegraded, reason, after)
}

// decide returns the next step of a node.
func decide(f *facts) decision {
	switch {
	case f.failed != nil:
		return degraded(f.failed, updateRetryInterval)
	case f.journal != nil:
		return decideUpdate(f)
	case f.isOutdated():
		return decideOutdated(f)
	default:
		return decideUpToDate(f)
	}
}

// decideUpToDate is for a node that has the desired configuration, or that no configuration is desired for.
func decideUpToDate(f *facts) decision {
	switch {
	case f.forced && f.current == nil:
		return decision{do: stepConsumeForceFile}
	case f.forced:
		// Apply the configuration over what is there.
		return decision{do: stepRestart, journal: &journal{Phase: phaseApply, From: f.current, To: *f.current}}
	case f.drift != nil:
		return degraded(f.drift, driftResyncInterval)
	default:
		return decision{do: stepReportDone, after: driftResyncInterval}
	}
}

// decideOutdated is for a node for which another configuration is desired. Everything that can be validated without
// a change is validated before the drain.
func decideOutdated(f *facts) decision {
	t := &f.target
	var impossible *config.ImpossibleError
	switch {
	case f.retryAfter() > 0:
		return degraded(errors.New(f.lastFailure.reason), f.retryAfter())
	case t.readErr != nil:
		return degraded(fmt.Errorf("reading MachineConfig %q: %w", f.desired, t.readErr), drainRetryInterval)
	case errors.As(t.invalid, &impossible):
		return reportAndWait(mcfgv1.NodeUnreconcilable, impossible, updateRetryInterval)
	case t.invalid != nil:
		return degraded(t.invalid, driftResyncInterval)
	case f.drift != nil:
		return degraded(f.drift, driftResyncInterval)
	case t.effortErr != nil:
		return degraded(t.effortErr, drainRetryInterval)
	case t.effort.Drain && !f.singleReplica && !f.drained:
		return decision{do: stepRequestDrain, after: drainRetryInterval}
	}

	begin := decision{do: stepBegin, state: mcfgv1.NodeWorking, journal: &journal{Phase: phaseApply, From: f.from, To: *t.config, Effort: t.effort}}
	if f.lastFailure.config == f.desired {
		// The node stays degraded until the update succeeds.
		begin.state, begin.reason = mcfgv1.NodeDegraded, errors.New(f.lastFailure.reason)
	}
	return begin
}

// decideUpdate is for a node with an update that is not complete.
func decideUpdate(f *facts) decision {
	j := f.journal
	switch {
	case f.rebooting:
		return decision{do: stepNone, after: drainRetryInterval} // The reboot usually ends this process first.
	case f.isInEffect():
		return decideInEffect(f)
	case j.Phase == phaseReboot:
		return decision{do: stepReboot, state: mcfgv1.NodeRebooting}
	case f.applied:
		return decision{do: stepAwaitReboot, journal: j.awaitReboot(f.bootID)}
	case j.Phase == phaseApply:
		return decision{do: stepApply}
	default:
		return decision{do: stepRollBack}
	}
}

// decideInEffect is for a node with the configuration of its update in effect. Its files may have been changed since
// they were written. Then the node stays degraded until the change is undone, the force file skips the validation, or
// another configuration is desired.
func decideInEffect(f *facts) decision {
	j, t := f.journal, &f.target
	switch {
	case f.drift == nil:
		return decision{do: stepFinish}
	case f.forced:
		return decision{do: stepRestart, journal: &journal{Phase: phaseApply, From: j.From, To: j.To, Effort: j.Effort}}
	case !f.isSuperseded():
		return degraded(f.drift, driftResyncInterval)
	case t.readErr != nil:
		return degraded(errors.Join(f.drift, t.readErr), driftResyncInterval)
	case t.invalid != nil:
		return degraded(f.drift, driftResyncInterval)
	case t.effortErr != nil:
		return degraded(errors.Join(f.drift, t.effortErr), driftResyncInterval)
	default:
		return decision{do: stepRestart, journal: &journal{Phase: phaseApply, From: &j.To, To: *t.config, Effort: t.effort}}
	}
}

// isOutdated reports whether a configuration is desired that the node does not have.
func (f *facts) isOutdated() bool {
	return !f.finished && f.desired != "" && f.desired != f.current.configName()
}

// isSuperseded reports whether another configuration is desired than that of the update.
func (f *facts) isSuperseded() bool { return f.desired != "" && f.desired != f.journal.To.Name }

// needsBootID reports whether the next step of the update depends on the present boot.
func (f *facts) needsBootID() bool {
	return f.journal.Phase == phaseReboot || f.applied && f.journal.Effort.Reboot
}

// isInEffect reports whether the configuration of the update is applied, and the machine rebooted where it has to.
func (f *facts) isInEffect() bool {
	if f.journal.Phase == phaseReboot {
		return f.bootID != f.journal.BootID
	}
	return f.applied && !f.journal.Effort.Reboot
}

// retryAfter returns after how long an update that failed is tried again. It is not positive when the update can begin.
func (f *facts) retryAfter() time.Duration {
	if f.lastFailure.config != f.desired {
		return 0
	}
	return updateRetryInterval - f.now.Sub(f.lastFailure.at)
}

// driftError returns the error for a node whose files differ from its configuration, or cannot be compared with it.
func driftError(current *applied, why string, err error) error {
	if err != nil {
		return fmt.Errorf("the on-disk state cannot be validated against %s: %w", current.configName(), err)
	}
	return fmt.Errorf("unexpected on-disk state validating against %s: %s", current.configName(), why)
}
