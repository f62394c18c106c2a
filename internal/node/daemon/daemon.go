package daemon

import (
	"cmp"
	"context"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
	// Clock is the source of time. Nil means the real clock.
	Clock clock.PassiveClock

	disk      *disk
	records   records
	originals originals
	gatherer  gatherer
	updater   updater
	reporter  reporter

	// requestedDrain and lastFailure are kept between passes, but not after a restart.
	requestedDrain drainRequest
	lastFailure    failure
}

// setDefaults sets the defaults of unset fields, and the parts of the daemon.
func (d *Daemon) setDefaults() {
	if d.disk == nil {
		d.disk = &disk{root: d.Root, owners: os.Geteuid() == 0, lasting: true}
	}
	d.RuntimeUnit = cmp.Or(d.RuntimeUnit, DefaultRuntimeUnit)
	if d.Clock == nil {
		d.Clock = clock.RealClock{}
	}

	d.records, d.originals = records{d.disk}, originals{d.disk}
	d.gatherer = gatherer{disk: d.disk, records: d.records, host: d.Host, reader: d.Reader, runtimeUnit: d.RuntimeUnit}
	d.updater = updater{originals: d.originals, system: system{disk: d.disk, host: d.Host}}
	d.reporter = reporter{client: d.Client, events: d.Events, disk: d.disk}
}

// Sync performs the next steps for the node, and returns the time until the next call if the node does not change. node is the node of
// the daemon, as read from the cluster. Sync reports failures of the machine in the annotations of the node. It returns an error
// only if these cannot be written.
func (d *Daemon) Sync(ctx context.Context, node *corev1.Node) (time.Duration, error) {
	d.setDefaults()
	p := d.gatherer.readProgress()
	for {
		f := &facts{progress: p, now: d.Clock.Now(), lastFailure: d.lastFailure}
		if err := d.gatherer.gather(ctx, node, f); err != nil {
			return 0, err
		}

		next := decide(f)
		err := d.execute(ctx, node, &p, next)
		if err != nil || next.after > 0 {
			return next.after, err
		}
	}
}
