package action

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
)

// clusterVersionName is what the one ClusterVersion of a cluster is called.
const clusterVersionName = "version"

// ClusterReleases knows the releases that a cluster knows: the one that it has, those that
// it can be updated to, and those that it has had.
type ClusterReleases struct {
	Client client.Client
}

// Resolve gives the pull spec of the release with a version, that of the cluster when the
// version is empty.
func (a *ClusterReleases) Resolve(ctx context.Context, version string) (string, error) {
	var found configv1.ClusterVersion
	if err := a.Client.Get(ctx, client.ObjectKey{Name: clusterVersionName}, &found); err != nil {
		return "", fmt.Errorf("read which releases the cluster knows: %w", err)
	}
	status := found.Status
	if version == "" {
		if status.Desired.Image == "" {
			return "", errors.New("the cluster does not say which release it has")
		}
		return status.Desired.Image, nil
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
			return known[i].Image, nil
		}
	}
	return "", fmt.Errorf("the cluster knows no release %s: neither has it had it, nor is it one of its updates", version)
}

// ApplyConfigMap gives a function that puts ConfigMaps into a cluster. What others have
// written into one of the same name stays.
func ApplyConfigMap(c client.Client) func(ctx context.Context, object *corev1.ConfigMap) error {
	return func(ctx context.Context, object *corev1.ConfigMap) error {
		applied := applycorev1.ConfigMap(object.Name, object.Namespace).
			WithLabels(object.Labels).WithData(object.Data).WithBinaryData(object.BinaryData)
		return c.Apply(ctx, applied, client.FieldOwner(InstallFieldManager), client.ForceOwnership)
	}
}
