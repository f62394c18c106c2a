package install

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/resolve/dependency"
)

// peerSet are the other extensions on the cluster, except those being deleted.
type peerSet struct {
	extensions []olmv1.ClusterExtension
	// revisions are the active revisions of the other extensions.
	revisions []*olmv1.ClusterObjectSet
	// haveRequirements reports whether any of the revisions has requirements.
	haveRequirements bool
}

// listPeerExtensions lists the other extensions and their active revisions. The objects belong to
// the cache and must not be changed.
func listPeerExtensions(ctx context.Context, c client.Reader, ext *olmv1.ClusterExtension) (*peerSet, error) {
	var extensions olmv1.ClusterExtensionList
	if err := c.List(ctx, &extensions, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing extensions: %w", err)
	}

	var sets olmv1.ClusterObjectSetList
	if err := c.List(ctx, &sets, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing revisions: %w", err)
	}

	peers := &peerSet{}
	present := map[types.UID]bool{}
	for i := range extensions.Items {
		if other := &extensions.Items[i]; other.Name != ext.Name && other.DeletionTimestamp.IsZero() {
			peers.extensions = append(peers.extensions, *other)
			present[other.UID] = true
		}
	}

	for i := range sets.Items {
		set := &sets.Items[i]
		// Labels prove nothing: the creator of a set can choose them.
		owner := metav1.GetControllerOfNoCopy(set)
		if isActiveRevision(set) && owner != nil && present[owner.UID] {
			peers.revisions = append(peers.revisions, set)
			peers.haveRequirements = peers.haveRequirements || set.Annotations[olmv1.AnnotationRequires] != ""
		}
	}

	return peers, nil
}

// hasExtension reports whether there is another extension with a name.
func (s *peerSet) hasExtension(name string) bool {
	return slices.ContainsFunc(s.extensions, func(other olmv1.ClusterExtension) bool { return other.Name == name })
}

// dependencyBundles returns the installed bundles of the other extensions, and the requirements of
// those that are being rolled out.
func (s *peerSet) dependencyBundles() []*dependency.Bundle {
	var bundles []*dependency.Bundle
	for _, set := range s.revisions {
		b := bundleFromRevision(set)
		if b == nil {
			continue // The revision has no readable bundle.
		}
		if !hasSucceeded(set) {
			if b = requirementsOnly(b); b == nil {
				continue
			}
		}
		bundles = append(bundles, b)
	}

	return bundles
}

// servedAPIs looks up which APIs the API server serves, and caches the answers.
type servedAPIs struct {
	mapper meta.RESTMapper
	// listResources queries the API server. If it is nil, only the mapper is used.
	listResources func(groupVersion string) (*metav1.APIResourceList, error)
	cache         map[schema.GroupVersionKind]bool
	err           error
}

func newServedAPIs(mapper meta.RESTMapper, listResources func(string) (*metav1.APIResourceList, error)) *servedAPIs {
	return &servedAPIs{mapper: mapper, listResources: listResources, cache: map[schema.GroupVersionKind]bool{}}
}

// lookUpAPI returns whether an API is served. Each API is queried once. Errors are collected in
// err.
func (s *servedAPIs) lookUpAPI(gvk schema.GroupVersionKind) bool {
	known, ok := s.cache[gvk]
	if !ok {
		known = s.queryServer(gvk)
		s.cache[gvk] = known
	}
	return known
}

// queryServer queries the mapper. If the mapper knows the API, it also queries the API server,
// because the mapper does not forget APIs that are gone.
func (s *servedAPIs) queryServer(gvk schema.GroupVersionKind) bool {
	_, err := s.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	switch {
	case meta.IsNoMatchError(err):
		return false
	case err != nil:
		s.err = errors.Join(s.err, fmt.Errorf("looking up the API %s: %w", gvk, err))
		return false
	case s.listResources == nil:
		return true
	}

	served, err := s.listResources(gvk.GroupVersion().String())
	if err != nil {
		// An API stays served while its server is unavailable.
		return !apierrors.IsNotFound(err)
	}

	return slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Kind == gvk.Kind })
}
