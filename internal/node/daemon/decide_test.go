package daemon

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	"github.com/mainstay-dev/mainstay/internal/node/config"
)

func TestDecide(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	boom, drift := errors.New("boom"), errors.New("drift")
	one, two, born := &applied{Name: "one"}, &applied{Name: "two"}, &applied{}
	drain := config.Effort{Drain: true}
	reboot := config.Effort{Drain: true, Reboot: true}
	impossible := &config.ImpossibleError{Reasons: []string{"why"}}

	// update is the journal of an update from one to two.
	update := func(p phase, effort config.Effort) *journal {
		return &journal{Phase: p, From: one, To: *two, Effort: effort, BootID: "boot 0"}
	}
	begins := func(from, to *applied, effort config.Effort) *journal {
		return &journal{Phase: phaseApply, From: from, To: *to, Effort: effort}
	}
	// outdated are the facts of a node with configuration one, for which two is desired.
	outdated := func(to target) facts {
		return facts{progress: progress{current: one}, desired: "two", from: one, target: to}
	}
	to := func(effort config.Effort) target { return target{config: two, effort: effort} }
	failedBefore := func(f facts, since time.Duration) facts {
		f.lastFailure = failure{config: "two", at: now.Add(-since), reason: "boom"}
		return f
	}
	applying := func(p progress) facts { return facts{progress: p, desired: "two"} }
	drifted := func(desired string, to target) facts {
		return facts{progress: progress{journal: update(phaseApply, config.Effort{}), applied: true}, desired: desired, drift: drift, target: to}
	}
	with := func(f facts, edit func(*facts)) facts { edit(&f); return f }
	broken := journal{Phase: "odd", From: one, To: *two}
	three := &applied{Name: "three"}

	tests := map[string]struct {
		facts facts
		want  decision
	}{
		"something failed":                  {with(outdated(to(drain)), func(f *facts) { f.failed = boom }), degraded(boom, updateRetryInterval)},
		"something failed during an update": {applying(progress{journal: update(phaseApply, drain), failed: boom}), degraded(boom, updateRetryInterval)},

		"nothing is desired":                    {facts{}, decision{do: stepReportDone, after: driftResyncInterval}},
		"nothing is desired any more":           {facts{progress: progress{current: one}}, decision{do: stepReportDone, after: driftResyncInterval}},
		"up to date":                            {facts{progress: progress{current: one}, desired: "one"}, decision{do: stepReportDone, after: driftResyncInterval}},
		"up to date, drifted":                   {facts{progress: progress{current: one}, desired: "one", drift: drift}, degraded(drift, driftResyncInterval)},
		"up to date, forced":                    {facts{progress: progress{current: one}, desired: "one", forced: true}, decision{do: stepRestart, journal: begins(one, one, config.Effort{})}},
		"forced without a configuration":        {facts{forced: true}, decision{do: stepConsumeForceFile}},
		"finished, and another desired already": {facts{progress: progress{current: one, finished: true}, desired: "two"}, decision{do: stepReportDone, after: driftResyncInterval}},

		"outdated, failed just now":           {failedBefore(outdated(target{}), time.Minute), degraded(boom, updateRetryInterval-time.Minute)},
		"outdated, failed long ago":           {failedBefore(outdated(to(config.Effort{})), updateRetryInterval), decision{do: stepBegin, state: mcfgv1.NodeDegraded, reason: boom, journal: begins(one, two, config.Effort{})}},
		"outdated, another failed":            {with(outdated(to(config.Effort{})), func(f *facts) { f.lastFailure = failure{config: "three", at: now} }), decision{do: stepBegin, state: mcfgv1.NodeWorking, journal: begins(one, two, config.Effort{})}},
		"outdated, target not readable":       {outdated(target{readErr: boom}), degraded(errors.New(`reading MachineConfig "two": boom`), drainRetryInterval)},
		"outdated, impossible":                {outdated(target{config: two, invalid: impossible}), decision{do: stepNone, state: mcfgv1.NodeUnreconcilable, reason: impossible, after: updateRetryInterval}},
		"outdated, invalid":                   {with(outdated(target{config: two, invalid: boom}), func(f *facts) { f.drift = drift }), degraded(boom, driftResyncInterval)},
		"outdated, drifted":                   {with(outdated(to(drain)), func(f *facts) { f.drift = drift }), degraded(drift, driftResyncInterval)},
		"outdated, effort not known":          {outdated(target{config: two, effortErr: boom}), degraded(boom, drainRetryInterval)},
		"outdated, needs a drain":             {outdated(to(drain)), decision{do: stepRequestDrain, after: drainRetryInterval}},
		"outdated, drained":                   {with(outdated(to(drain)), func(f *facts) { f.drained = true }), decision{do: stepBegin, state: mcfgv1.NodeWorking, journal: begins(one, two, drain)}},
		"outdated, the only node":             {with(outdated(to(reboot)), func(f *facts) { f.singleReplica = true }), decision{do: stepBegin, state: mcfgv1.NodeWorking, journal: begins(one, two, reboot)}},
		"outdated, needs no drain":            {outdated(to(config.Effort{})), decision{do: stepBegin, state: mcfgv1.NodeWorking, journal: begins(one, two, config.Effort{})}},
		"first configuration":                 {facts{desired: "two", target: to(config.Effort{})}, decision{do: stepBegin, state: mcfgv1.NodeWorking, journal: begins(nil, two, config.Effort{})}},
		"configuration of the first boot":     {facts{desired: "two", from: born, target: to(config.Effort{})}, decision{do: stepBegin, state: mcfgv1.NodeWorking, journal: begins(born, two, config.Effort{})}},
		"outdated, the force file is kept":    {with(outdated(to(drain)), func(f *facts) { f.forced = true }), decision{do: stepRequestDrain, after: drainRetryInterval}},
		"an update begun":                     {applying(progress{journal: update(phaseApply, reboot)}), decision{do: stepApply}},
		"an update begun, another is desired": {facts{progress: progress{journal: update(phaseApply, reboot)}, desired: "three"}, decision{do: stepApply}},
		"an update failed":                    {applying(progress{journal: update(phaseRollBack, reboot)}), decision{do: stepRollBack}},
		"a phase that is not known":           {applying(progress{journal: &broken}), decision{do: stepRollBack}},

		"applied, needs a reboot":         {with(applying(progress{journal: begins(one, two, reboot), applied: true}), func(f *facts) { f.bootID = "boot 0" }), decision{do: stepAwaitReboot, journal: update(phaseReboot, reboot)}},
		"not rebooted yet":                {with(applying(progress{journal: update(phaseReboot, reboot)}), func(f *facts) { f.bootID = "boot 0" }), decision{do: stepReboot, state: mcfgv1.NodeRebooting}},
		"the reboot is requested":         {applying(progress{journal: update(phaseReboot, reboot), rebooting: true}), decision{do: stepNone, after: drainRetryInterval}},
		"rebooted":                        {with(applying(progress{journal: update(phaseReboot, reboot)}), func(f *facts) { f.bootID = "boot 1" }), decision{do: stepFinish}},
		"rebooted, drifted":               {with(applying(progress{journal: update(phaseReboot, reboot)}), func(f *facts) { f.bootID, f.drift = "boot 1", drift }), degraded(drift, driftResyncInterval)},
		"applied, needs no reboot":        {applying(progress{journal: update(phaseApply, drain), applied: true}), decision{do: stepFinish}},
		"applied, drifted":                {drifted("two", target{}), degraded(drift, driftResyncInterval)},
		"applied, drifted, none desired":  {drifted("", target{}), degraded(drift, driftResyncInterval)},
		"applied, drifted, forced":        {with(drifted("three", target{}), func(f *facts) { f.forced = true }), decision{do: stepRestart, journal: begins(one, two, config.Effort{})}},
		"superseded, target not readable": {drifted("three", target{readErr: boom}), degraded(errors.Join(drift, boom), driftResyncInterval)},
		"superseded, invalid":             {drifted("three", target{config: three, invalid: impossible}), degraded(drift, driftResyncInterval)},
		"superseded, effort not known":    {drifted("three", target{config: three, effortErr: boom}), degraded(errors.Join(drift, boom), driftResyncInterval)},
		"superseded":                      {drifted("three", target{config: three, effort: drain}), decision{do: stepRestart, journal: begins(two, three, drain)}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.facts.now = now
			got := decide(&tt.facts)
			sameText := cmp.Comparer(func(a, b error) bool {
				return a == nil && b == nil || a != nil && b != nil && a.Error() == b.Error()
			})
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(decision{}), sameText); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
		})
	}
}
