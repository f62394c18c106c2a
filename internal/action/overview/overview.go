// Package overview summarizes a cluster: the health of what is installed, its catalogs, its version and its nodes, and what
// needs a person.
//
// It decides nothing by itself: the states are those of inventory, sources, clusterupdate and the pools of nodes. It reads with
// the rights of the user. What the user may not read is part of the result.
package overview

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/action/inventory"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/action/sources"
	"github.com/mainstay-dev/mainstay/internal/action/update/clusterupdate"
)

// Health is how well a part of the cluster is.
type Health string

// Healths, the best first.
const (
	// HealthAbsent means that the cluster does not have the part, which is no problem.
	HealthAbsent Health = "Absent"
	HealthGood   Health = "Good"
	// HealthBusy means that a change is in progress.
	HealthBusy Health = "Busy"
	// HealthUnknown means that the part could not be read.
	HealthUnknown Health = "Unknown"
	// HealthAttention means that a user must act.
	HealthAttention Health = "Attention"
)

// Names of the parts of a cluster.
const (
	PartInstalled = "installed"
	PartCatalogs  = "catalogs"
	PartVersion   = "version"
	PartNodes     = "nodes"
)

// HealthPart is the health of a part of the cluster.
type HealthPart struct {
	Name   string `json:"name" enum:"installed,catalogs,version,nodes"`
	Health Health `json:"health" enum:"Absent,Good,Busy,Unknown,Attention"`
	// Text is a sentence for people.
	Text string `json:"text"`
}

// Notice is something that needs a person, with the object that it is about.
type Notice struct {
	// Topic is what the notice is about.
	Topic string `json:"topic" enum:"Failed,Approval,Deprecated,Catalog,Blocked,Version,Operator,Nodes,Update"`
	// Kind, Namespace and Name name the object. The kind of a release is ClusterVersion.
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Text states what is wrong, or what waits. Advice states what to do.
	Text   string `json:"text"`
	Advice string `json:"advice,omitempty"`
}

// Overview is the summary of a cluster.
type Overview struct {
	// Parts are installed, catalogs, version and nodes.
	Parts []HealthPart `json:"parts"`
	// Attention is what needs a person, the most urgent first.
	Attention []Notice `json:"attention"`
	// Updates are the updates that wait.
	Updates []Notice `json:"updates"`
	// Problems are the kinds that could not be read.
	Problems []inventory.Problem `json:"problems,omitempty"`
}

// Read reads the overview.
type Read struct {
	Client client.Client
	// Namespace limits what is installed and the CatalogSources. Empty means all.
	Namespace string
}

// Run returns the overview. It returns no error for what the user may not read.
func (a *Read) Run(ctx context.Context) *Overview {
	o := &Overview{Attention: []Notice{}, Updates: []Notice{}}
	o.addInstalled((&inventory.List{Client: a.Client, Namespace: a.Namespace}).Run(ctx))
	o.addSources((&sources.List{Client: a.Client, Namespace: a.Namespace}).Run(ctx))
	a.addVersion(ctx, o)
	a.addNodes(ctx, o)
	o.sortNotices()
	return o
}

// addInstalled adds what is installed.
func (o *Overview) addInstalled(list inventory.Inventory) {
	troubled, busy := 0, 0
	for i := range list.Items {
		item := &list.Items[i]
		switch item.Urgency {
		case inventory.UrgencyPerson:
			troubled++
			o.Attention = append(o.Attention, newItemNotice(item))
		case inventory.UrgencyBusy:
			busy++
		}
		if item.NeedsApproval != "" && item.Version != "" {
			o.Updates = append(o.Updates, itemNotice("Update", item, fmt.Sprintf("InstallPlan %s updates it from %s, and waits for approval.", item.NeedsApproval, item.Version), ""))
		}
		if item.Deprecation != "" {
			o.Attention = append(o.Attention, itemNotice("Deprecated", item, item.Deprecation, "Plan the way to another package, channel or version."))
		}
	}
	o.Problems = append(o.Problems, list.Problems...)

	total := len(list.Items)
	part := HealthPart{Name: PartInstalled, Health: HealthGood, Text: fmt.Sprintf("All %d work.", total)}
	switch {
	case troubled > 0:
		part.Health, part.Text = HealthAttention, fmt.Sprintf("%d of %d need attention.", troubled, total)
	case len(list.Problems) > 0:
		part.Health, part.Text = HealthUnknown, fmt.Sprintf("%d are known. Others could not be listed.", total)
	case busy > 0:
		part.Health, part.Text = HealthBusy, fmt.Sprintf("%d of %d are being changed.", busy, total)
	case total == 0:
		part.Health, part.Text = HealthAbsent, "Nothing is installed."
	}
	o.Parts = append(o.Parts, part)
}

// addSources adds the catalogs.
func (o *Overview) addSources(listing sources.Listing) {
	serving, troubled := 0, 0
	for i := range listing.Items {
		s := &listing.Items[i]
		if s.State == sources.StateServing {
			serving++
		}
		if s.NeedsPerson() {
			troubled++
			text := s.Text
			if s.Message != "" {
				text += " " + s.Message
			}
			o.Attention = append(o.Attention, Notice{Topic: "Catalog", Kind: s.Kind, Namespace: s.Namespace, Name: s.Name, Text: text, Advice: s.Advice})
		}
	}
	o.Problems = append(o.Problems, listing.Problems...)

	part := HealthPart{Name: PartCatalogs, Health: HealthGood, Text: fmt.Sprintf("%d are served.", serving)}
	switch {
	case troubled > 0:
		part.Health, part.Text = HealthAttention, fmt.Sprintf("%d of %d do not answer or are outdated.", troubled, len(listing.Items))
	case len(listing.Problems) > 0:
		part.Health, part.Text = HealthUnknown, fmt.Sprintf("%d are served. Others could not be listed.", serving)
	case len(listing.Items) == 0:
		part.Health, part.Text = HealthAbsent, "There are no catalogs: nothing can be installed."
	}
	o.Parts = append(o.Parts, part)
}

// addVersion adds the version of the cluster and its operators.
func (a *Read) addVersion(ctx context.Context, o *Overview) {
	settings, err := (&clusterupdate.Settings{Client: a.Client}).Run(ctx)
	switch {
	case err != nil:
		o.addProblem("clusterversions", err)
		o.Parts = append(o.Parts, HealthPart{Name: PartVersion, Health: HealthUnknown, Text: "The version could not be read."})
		return
	case settings.Absence != nil:
		o.Parts = append(o.Parts, HealthPart{Name: PartVersion, Health: HealthAbsent, Text: "The version of this cluster is not managed."})
		return
	}

	operators, err := (&clusterupdate.Operators{Client: a.Client}).Run(ctx)
	if err != nil {
		o.addProblem("clusteroperators", err)
	}
	o.describeVersion(settings, operators)
}

// describeVersion adds the version with its updates, and the operators that need a person.
func (o *Overview) describeVersion(settings *clusterupdate.VersionSettings, operators []clusterupdate.OperatorView) {
	summary := &settings.Summary
	version := func(topic, text, advice string) Notice {
		return Notice{Topic: topic, Kind: "ClusterVersion", Name: "version", Text: text, Advice: advice}
	}
	part := HealthPart{Name: PartVersion, Health: HealthGood, Text: summary.Text}
	switch {
	case summary.NeedsPerson():
		part.Health = HealthAttention
		text := summary.Text
		if summary.Message != "" {
			text += " " + summary.Message
		}
		o.Attention = append(o.Attention, version("Version", text, summary.Advice))
	case summary.State == clusterupdate.StateUpdating:
		part.Health = HealthBusy
	}

	if settings.Blocked != nil {
		o.Attention = append(o.Attention, version("Blocked", "Updates of the cluster to another minor version are blocked. "+settings.Blocked.Message, "Solve what the message names."))
	}
	for i := range operators {
		if operator := &operators[i]; operator.NeedsPerson() {
			part.Health = HealthAttention
			if !summary.NeedsPerson() {
				part.Text = fmt.Sprintf("ClusterOperator %s: %s", operator.Name, operator.Text)
			}
			o.Attention = append(o.Attention, Notice{Topic: "Operator", Kind: "ClusterOperator", Name: operator.Name, Text: operator.Text + " " + operator.Message})
		}
	}
	o.Parts = append(o.Parts, part)
	if summary.State == clusterupdate.StateUpdatesAvailable {
		o.Updates = append(o.Updates, version("Update", summary.Text, ""))
	}
}

// addNodes adds the pools of nodes.
func (a *Read) addNodes(ctx context.Context, o *Overview) {
	part := HealthPart{Name: PartNodes, Health: HealthGood, Text: "All nodes have the configuration of their pool."}
	states, err := (&action.NodesStatus{Client: a.Client}).Run(ctx)
	switch {
	case action.IsUnknownKind(err) || err == nil && len(states.Pools) == 0:
		part.Health, part.Text = HealthAbsent, "Nothing updates the nodes of this cluster."
	case err != nil:
		o.addProblem("machineconfigpools", err)
		part.Health, part.Text = HealthUnknown, "The pools of nodes could not be read."
	default:
		for i := range states.Pools {
			o.addPool(&part, states.Pools[i].Summarize())
		}
	}
	o.Parts = append(o.Parts, part)
}

// addPool adds a pool of nodes to the part.
func (o *Overview) addPool(part *HealthPart, pool action.PoolSummary) {
	isStuck := pool.State == "Degraded" || pool.Paused && pool.Updated < pool.Total
	switch {
	case isStuck:
		part.Health, part.Text = HealthAttention, fmt.Sprintf("Pool %s: %s", pool.Name, pool.Text)
		advice := "See its nodes."
		if pool.Paused {
			advice = "Resume the pool when its nodes may be updated."
		}
		o.Attention = append(o.Attention, Notice{Topic: "Nodes", Kind: "MachineConfigPool", Name: pool.Name, Text: pool.Text, Advice: advice})
	case pool.State != "UpToDate" && part.Health == HealthGood:
		part.Health, part.Text = HealthBusy, fmt.Sprintf("Pool %s: %s", pool.Name, pool.Text)
	}
}

func (o *Overview) addProblem(kind string, err error) {
	o.Problems = append(o.Problems, inventory.Problem{Kind: kind, Message: err.Error(), Advice: report.AdviceOf(err), Forbidden: apierrors.IsForbidden(err)})
}
