package clusterupdate

import (
	"context"
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/action/update/updates"
	"github.com/mainstay-dev/mainstay/internal/cincinnati"
)

// ReadGraph reads the update graph of the cluster's channel from its update service.
type ReadGraph struct {
	// Client is the client of the cluster.
	Client client.Client
}

// UpdateGraph contains the releases that the cluster can reach in any number of updates.
type UpdateGraph struct {
	// Current is the version of the cluster.
	Current string `json:"current"`
	Channel string `json:"channel"`
	// Source is the update service, without credentials.
	Source string `json:"source"`
	// Releases are sorted by descending version.
	Releases []GraphRelease `json:"releases"`
}

// GraphRelease is a release of an update graph.
type GraphRelease struct {
	Version string `json:"version"`
	Image   string `json:"image"`
	URL     string `json:"url,omitempty"`
	// Channels are the channels that have the release.
	Channels []string `json:"channels,omitempty"`
	// Updates and Conditional are the versions that the release can be updated to, without and with known issues.
	Updates     []string `json:"updates,omitempty"`
	Conditional []string `json:"conditional,omitempty"`
}

// Run reads the graph. The address of the update service is that of the ClusterVersion, which must be a URL.
func (a *ReadGraph) Run(ctx context.Context) (*UpdateGraph, error) {
	cv, err := Read(ctx, a.Client)
	if err != nil {
		return nil, err
	}

	switch {
	case cv.Spec.Channel == "":
		return nil, &report.Error{Object: clusterVersionObject, Err: errors.New("the cluster follows no channel"), Advice: "choose a channel"}
	case !updates.IsURL(cv.Spec.Upstream):
		return nil, &report.Error{
			Object: clusterVersionObject, Err: errors.New("its field spec.upstream names no update service, so that only the operator knows which one it asks"),
			Advice: "set spec.upstream to the URL of the update service",
		}
	}

	source := updates.Graph{Source: cv.Spec.Upstream, Channel: cv.Spec.Channel, From: cv.Status.Desired.Version}
	graph, err := source.Run(ctx)
	if err != nil {
		return nil, err
	}
	return describeGraph(graph, cv.Status.Desired.Version, cv.Spec.Channel, updates.RedactSource(cv.Spec.Upstream)), nil
}

func describeGraph(graph *cincinnati.Graph, current, channel, source string) *UpdateGraph {
	described := &UpdateGraph{Current: current, Channel: channel, Source: source, Releases: []GraphRelease{}}
	for _, o := range graph.Overview() {
		described.Releases = append(described.Releases, GraphRelease{
			Version: o.Version, Image: o.Payload, URL: o.URL(), Channels: o.Channels(), Updates: o.Updates, Conditional: o.Conditional,
		})
	}
	return described
}
