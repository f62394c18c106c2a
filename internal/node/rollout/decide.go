package rollout

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	"github.com/mainstay-dev/mainstay/internal/node/pools"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// facts are what a decision about a pool depends on.
type facts struct {
	now time.Time
	// nodes are the nodes of the pool, including what the cache has not received yet.
	nodes []*corev1.Node
	// allNodes is the number of nodes of the cluster.
	allNodes int
	// selectorError is why the nodes are not known. Then nothing else is known either.
	selectorError error
	// contested are the nodes that several custom pools select.
	contested []pools.Contested
	// configs are the MachineConfigs that the pool selects, in merge order. configsError is why they are not known.
	configs      []*mcfgv1.MachineConfig
	configsError error
	// known is what was rendered for the pool before.
	known poolSources
}

// decision is what a pass does with the configuration of a pool, and its outcome.
type decision struct {
	// sources are the MachineConfigs of the pool, and what was rendered of them.
	sources poolSources
	// render means that they have settled and must be rendered.
	render bool
	// renderError is why the pool has no configuration of its present MachineConfigs.
	renderError error
	// requeueAfter is when to reconcile again; zero for when something changes.
	requeueAfter time.Duration
	events       []reconcile.Event
}

// decideRendering decides whether the configuration of a pool must be rendered now: its MachineConfigs have changed, and
// have stayed unchanged for a while since.
func decideRendering(pool *mcfgv1.MachineConfigPool, f *facts, settle time.Duration) *decision {
	if f.configsError != nil || f.selectorError != nil {
		return &decision{renderError: f.configsError}
	}

	d := &decision{sources: f.known}
	if versions := sourceVersions(pool, f.configs); d.sources.versions != versions {
		d.sources = poolSources{versions: versions, since: f.now}
	}
	if d.sources.since.After(f.now) { // The clock was set back.
		d.sources.since = f.now
	}
	if d.sources.name != "" || d.sources.err != nil {
		d.renderError = d.sources.err
		return d
	}

	d.requeueAfter = max(0, settle-f.now.Sub(d.sources.since))
	d.render = d.requeueAfter == 0
	return d
}
