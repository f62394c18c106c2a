package daemon

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
)

// execute carries out a decision and records its result in the progress, including failures of the machine. It returns an error
// if the state of the node cannot be reported, or if the program ends.
func (d *Daemon) execute(ctx context.Context, node *corev1.Node, p *progress, next decision) error {
	if next.state != "" {
		if err := d.reporter.reportState(ctx, node, next.state, next.reason); err != nil {
			return err
		}
	}

	switch next.do {
	case stepNone:
	case stepReportDone:
		return d.reporter.reportDone(ctx, node, p.current.configName())
	case stepRequestDrain:
		return d.requestDrain(ctx, node)
	case stepConsumeForceFile:
		p.failed = d.records.consumeForceFile()
	case stepBegin:
		d.requestedDrain = drainRequest{}
		fromFirstBoot := next.journal.From != nil && next.journal.From.Name == ""
		*p = progress{journal: next.journal, failed: d.startUpdate(next.journal, fromFirstBoot)}
	case stepRestart:
		*p = progress{journal: next.journal, failed: d.startUpdate(next.journal, false)}
	case stepApply:
		return d.applyUpdate(ctx, p)
	case stepRollBack:
		return d.rollBackUpdate(ctx, p)
	case stepAwaitReboot:
		*p = progress{journal: next.journal, failed: d.records.save(journalFile, next.journal)}
	case stepReboot:
		d.reporter.recordReboot(node, p.journal.To.Name)
		p.failed = d.updater.system.reboot(ctx)
		p.rebooting = p.failed == nil
	case stepFinish:
		*p = progress{current: &p.journal.To, finished: true, failed: d.finishUpdate(p.journal)}
	}

	return nil
}

// requestDrain requests a drain of the node for its desired configuration.
func (d *Daemon) requestDrain(ctx context.Context, node *corev1.Node) error {
	desired := node.Annotations[mcfgv1.AnnotationDesiredConfig]
	now := d.Clock.Now()
	if request := mcfgv1.DrainPrefix + desired; d.requestedDrain.what != request {
		d.requestedDrain = drainRequest{what: request, since: now}
	}
	return d.reporter.patchAnnotations(ctx, node, drainAnnotations(node, d.requestedDrain, now, d.lastFailure.config == desired))
}

// startUpdate consumes the force file and saves the journal of an update. fromFirstBoot is true if the first boot wrote the files of
// the configuration From, which is not recorded yet.
func (d *Daemon) startUpdate(j *journal, fromFirstBoot bool) error {
	if err := d.records.consumeForceFile(); err != nil {
		return err
	}
	if fromFirstBoot {
		if err := d.originals.recordAsWrittenByFirstBoot(j.From); err != nil {
			return err
		}
	}
	return d.records.save(journalFile, j)
}

// applyUpdate applies the configuration of the journal. When that fails, the journal records the rollback.
func (d *Daemon) applyUpdate(ctx context.Context, p *progress) error {
	j := p.journal
	err := d.updater.applyConfig(ctx, j)
	if ctx.Err() != nil {
		return ctx.Err() // The program ends; the next one resumes.
	}
	if err == nil {
		p.applied = true
		return nil
	}

	j.Phase, j.Reason = phaseRollBack, err.Error()
	if err := d.records.save(journalFile, j); err != nil {
		p.failed = d.recordFailure(j, fmt.Errorf("%s; and recording that failed: %w", j.Reason, err))
	}
	return nil
}

// rollBackUpdate restores the configuration that the node had before the update.
func (d *Daemon) rollBackUpdate(ctx context.Context, p *progress) error {
	err := d.updater.rollBack(ctx, p.journal)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	p.failed = d.recordFailure(p.journal, err)
	return nil
}

// recordFailure records why an update failed, and returns it.
func (d *Daemon) recordFailure(j *journal, err error) error {
	d.lastFailure = failure{config: j.To.Name, at: d.Clock.Now(), reason: err.Error()}
	return err
}

// finishUpdate records the configuration of the journal as current, and removes the journal.
func (d *Daemon) finishUpdate(j *journal) error {
	if err := d.records.save(currentFile, &j.To); err != nil {
		return err
	}
	if err := d.disk.removePath(journalFile); err != nil {
		return err
	}

	d.lastFailure = failure{}
	return nil
}
