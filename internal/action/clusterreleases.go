package action

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/blang/semver/v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/action/update/updates"
)

// KnownReleases finds releases by version. The cluster knows its current release, its
// available updates and its history. An update service knows all releases of its channels.
type KnownReleases struct {
	// Connect returns a client of the cluster. It is called only when the cluster is
	// needed.
	Connect func() (client.Client, error)
	// Upstream is the URL of an update service. Empty means that of the cluster, if any.
	Upstream string
	// Program is the version of this program for the User-Agent header.
	Program string
}

// channelPrefixes are the prefixes of the channels that are searched in an update service,
// in this order. The minor version is appended.
var channelPrefixes = []string{"fast-", "stable-", "candidate-"}

// Resolve returns the pull spec of the release with a version, or the cluster's release if
// the version is empty. It asks the cluster first, then the update service.
func (a *KnownReleases) Resolve(ctx context.Context, version string) (string, error) {
	found, upstream, err := a.findInCluster(ctx, version)
	if found != "" || version == "" {
		return found, err
	}

	upstream = cmp.Or(a.Upstream, upstream)
	if upstream == "" {
		return "", err
	}

	found, missing := a.findInUpdateService(ctx, upstream, version)
	if missing != nil {
		return "", errors.Join(err, missing)
	}

	return found, nil
}

// findInCluster returns the pull spec of a release that the cluster knows. If there is
// none, it returns an error and the cluster's update service.
func (a *KnownReleases) findInCluster(ctx context.Context, version string) (pullSpec, upstream string, err error) {
	c, err := a.Connect()
	if err != nil {
		return "", "", err
	}

	var found configv1.ClusterVersion
	if err := c.Get(ctx, client.ObjectKey{Name: configv1.ClusterVersionName}, &found); err != nil {
		return "", "", fmt.Errorf("read which releases the cluster knows: %w", err)
	}

	status := found.Status
	if version == "" {
		if status.Desired.Image == "" {
			return "", "", errors.New("the cluster does not report its release")
		}
		return status.Desired.Image, "", nil
	}

	known := append([]configv1.Release{status.Desired}, status.AvailableUpdates...)
	for i := range status.ConditionalUpdates {
		known = append(known, status.ConditionalUpdates[i].Release)
	}

	for _, entry := range status.History {
		known = append(known, configv1.Release{Version: entry.Version, Image: entry.Image})
	}

	for i := range known {
		if known[i].Version == version && known[i].Image != "" {
			return known[i].Image, "", nil
		}
	}

	return "", found.Spec.Upstream, fmt.Errorf("the cluster knows no release %s: it is neither in its history nor in its available updates", version)
}

// findInUpdateService returns the pull spec of a release from an update service.
func (a *KnownReleases) findInUpdateService(ctx context.Context, upstream, version string) (string, error) {
	parsed, err := semver.Parse(version)
	if err != nil {
		return "", err
	}

	var searched []string
	for _, channel := range channelPrefixes {
		channel = fmt.Sprintf("%s%d.%d", channel, parsed.Major, parsed.Minor)
		searched = append(searched, channel)
		graph, err := updates.Graph{Source: upstream, Channel: channel, Program: a.Program}.Run(ctx)
		if err != nil {
			return "", err
		}

		for i := range graph.Nodes {
			if graph.Nodes[i].Version == version {
				return graph.Nodes[i].Payload, nil
			}
		}
	}

	return "", fmt.Errorf("the update service has no release %s in %s", version, strings.Join(searched, ", "))
}

// ReadImageStream returns an ImageStream of a cluster as JSON. Only OpenShift has them.
func ReadImageStream(ctx context.Context, c client.Client, namespace, name string) ([]byte, error) {
	stream := &unstructured.Unstructured{}
	stream.SetGroupVersionKind(schema.GroupVersionKind{Group: "image.openshift.io", Version: "v1", Kind: "ImageStream"})
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, stream)
	switch {
	case meta.IsNoMatchError(err):
		return nil, errors.New("the cluster has no ImageStreams")
	case err != nil:
		return nil, err
	}

	return stream.MarshalJSON()
}

// ApplyConfigMap returns a function that applies ConfigMaps to a cluster. Fields of other
// managers remain.
func ApplyConfigMap(c client.Client) func(ctx context.Context, object *corev1.ConfigMap) error {
	return func(ctx context.Context, object *corev1.ConfigMap) error {
		applied := applycorev1.ConfigMap(object.Name, object.Namespace).
			WithLabels(object.Labels).WithData(object.Data).WithBinaryData(object.BinaryData)
		return c.Apply(ctx, applied, client.FieldOwner(InstallFieldManager), client.ForceOwnership)
	}
}
