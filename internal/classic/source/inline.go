package source

import (
	"context"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/source/inline"
	"github.com/mainstay-dev/mainstay/internal/classic/source/objects"
)

// inlineServing serves catalogs from within the process.
type inlineServing struct {
	servers *serverWriter
	// server is nil if catalogs are served by pods.
	server *inline.Server
	// host is the DNS name of the Service that leads to the server, or "".
	host string
}

// isInline reports whether a catalog is served from within the process: those with an image, unless they have an
// address of their own.
func (r *inlineServing) isInline(catalog *v1alpha1.CatalogSource) bool {
	return r.server != nil && catalog.Spec.SourceType == v1alpha1.SourceTypeGrpc && catalog.Spec.Image != "" && catalog.Spec.Address == ""
}

// removeContent removes the content of a catalog that is not served from within the process.
func (r *inlineServing) removeContent(catalog client.ObjectKey) error {
	if r.server == nil {
		return nil
	}
	return r.server.Remove(catalog)
}

// serveCatalog serves a catalog, ensures the objects that it has without a pod, and sets its address in the status.
func (r *inlineServing) serveCatalog(ctx context.Context, c *objects.Catalog) (*inline.State, error) {
	if err := r.ensureObjects(ctx, c); err != nil {
		return nil, err
	}

	state := r.server.Ensure(ctx, newInlineCatalog(c))
	since := c.CreationTimestamp
	if !state.Since.IsZero() {
		since = metav1.NewTime(state.Since).Rfc3339Copy()
	}

	want := v1alpha1.RegistryServiceStatus{
		Protocol: registryProtocol, ServiceName: c.ServiceName(), ServiceNamespace: c.Namespace, Port: strconv.Itoa(objects.Port), CreatedAt: since,
	}
	if service := c.Status.RegistryServiceStatus; service == nil || service.CreatedAt.Before(&since) || !isSameService(*service, want) {
		c.Status.RegistryServiceStatus = &want
	}
	if isPolled(c.CatalogSource) && !state.Polled.IsZero() {
		polled := metav1.NewTime(state.Polled).Rfc3339Copy()
		c.Status.LatestImageRegistryPoll = &polled
	}

	key := client.ObjectKeyFromObject(c.CatalogSource)
	r.servers.failedPolls.remove(key)
	if state.Err != nil && !state.Since.IsZero() {
		r.servers.failedPolls.record(key, fmt.Sprintf("%sthe image was not updated, and older content is served: %v", registryErrorPrefix, state.Err))
	}

	return &state, nil
}

// newInlineCatalog returns what the server needs to know of a catalog.
func newInlineCatalog(c *objects.Catalog) inline.Catalog {
	catalog := inline.Catalog{
		NamespacedName: client.ObjectKeyFromObject(c.CatalogSource), UID: c.UID, Service: c.ServiceName(), Image: c.Spec.Image,
	}
	for _, name := range c.Spec.Secrets {
		if name != "" {
			catalog.Secrets = append(catalog.Secrets, name)
		}
	}
	if config := c.Spec.GrpcPodConfig; config != nil && config.ExtractContent != nil {
		catalog.Folder = config.ExtractContent.CatalogDir
	}
	if isPolled(c.CatalogSource) {
		catalog.PollInterval, _ = pollInterval(c.CatalogSource) // intervalProblem reports an invalid interval.
		catalog.LastPoll = nextPollTime(c.CatalogSource).Add(-catalog.PollInterval)
	}

	return catalog
}

// ensureObjects ensures the Service of a catalog and the network policy of the pods that unpack its bundles, and
// removes what it had for a pod.
func (r *inlineServing) ensureObjects(ctx context.Context, c *objects.Catalog) error {
	service, err := c.Service()
	if err != nil {
		return err
	}

	policies := c.NetworkPolicies()
	obsolete := []client.Object{policies[0], c.ServiceAccount()}
	if r.host == "" {
		obsolete = append(obsolete, service)
	} else if err := ensureObject(ctx, r.servers.objectWriter, r.servers.client, service, &corev1.Service{}, objects.FixService); err != nil {
		return err
	}

	if err := ensureObject(ctx, r.servers.objectWriter, r.servers.client, policies[1], &networkingv1.NetworkPolicy{}, objects.FixNetworkPolicy); err != nil {
		return err
	}
	return r.servers.removeObjects(ctx, c, obsolete)
}

// retryAfter returns the time until the image of a catalog is requested again after a failure, at most the given one.
func retryAfter(state *inline.State, most time.Duration) time.Duration {
	if state == nil || state.RetryAfter == 0 {
		return most
	}
	return min(state.RetryAfter, most)
}
