// Package node is the component machine-config-controller: the controllers of MachineConfigPools (rollout) and of drains
// (drain), and the reporter of ClusterOperator "machine-config" (report). Package daemon is machine-config-daemon, which
// runs on each node.
package node

import (
	"cmp"
	"time"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/mainstay-dev/mainstay/internal/node/config"
	"github.com/mainstay-dev/mainstay/internal/node/drain"
	"github.com/mainstay-dev/mainstay/internal/node/report"
	"github.com/mainstay-dev/mainstay/internal/node/rollout"
)

// Options configure the component.
type Options struct {
	// Release is the part of every rendered configuration that the release defines.
	Release config.Base
	// ReleaseVersion is the version of the release to which the nodes are updated. Empty means the version of the
	// program.
	ReleaseVersion string
	// Program is the version of this program.
	Program string
	// Self is the name of the node that this program runs on, which is updated last. It may be empty.
	Self string
	// Settle is how long the MachineConfigs of a pool must stay unchanged before they are rendered. Zero means
	// rollout.DefaultSettle.
	Settle time.Duration
	// ReportResyncInterval is how often the report is checked for updates that take too long. Zero means one minute.
	ReportResyncInterval time.Duration
	// Clock is the source of time. Nil means the real clock.
	Clock clock.PassiveClock
}

// Setup adds the controllers of the component to a manager. It is the one list of them.
func Setup(mgr ctrl.Manager, o Options) error {
	news := make(chan event.GenericEvent, 1)
	rendered, err := rollout.Setup(mgr, rollout.Options{
		Release: o.Release, ReleaseVersion: o.ReleaseVersion, Program: o.Program, Self: o.Self, Settle: o.Settle, News: news, Clock: o.Clock,
	})
	if err != nil {
		return err
	}
	if err := drain.Setup(mgr, drain.Options{Clock: o.Clock}); err != nil {
		return err
	}

	return report.Setup(mgr, report.Options{
		Version: cmp.Or(o.ReleaseVersion, o.Program), Rendered: rendered, News: news, ResyncInterval: o.ReportResyncInterval, Clock: o.Clock,
	})
}
