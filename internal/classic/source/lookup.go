package source

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/classic/source/objects"
	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/pull"
)

// Registries returns a registry client for the images of the catalogs in a namespace, with the credentials of Secrets.
type Registries func(ctx context.Context, namespace string, secrets ...client.ObjectKey) (*image.Client, error)

const (
	// lookupPurpose is the purpose of all retrievals of digests.
	lookupPurpose = "poll"
	// lookupTimeout limits the time until a pod shows the image instead.
	lookupTimeout = time.Minute
)

// lookupResult is what a registry reports about the image reference of a catalog.
type lookupResult int

const (
	// lookupPending means that the registry has not answered yet. The catalog is enqueued when it has.
	lookupPending lookupResult = iota
	// lookupUnchanged means that the reference points to the image that is served.
	lookupUnchanged
	// lookupUnknown means that the reference points to another image, or that only a pod can show it: the registry did not
	// answer, or the image ID of the serving pod has no digest.
	lookupUnknown
)

// digestLookups requests the digests of image references from registries, so that a poll of an unchanged image needs no
// pod. No worker waits for a registry.
type digestLookups struct {
	// registries is nil if all polls need pods.
	registries Registries
	retrievals pull.Retrievals[string]
}

// checkImage reports whether the image reference of a catalog points to the image of its serving pods.
func (l *digestLookups) checkImage(ctx context.Context, c *objects.Catalog, serving []corev1.Pod) lookupResult {
	served := servedDigest(serving)
	if l.registries == nil || served == "" {
		return lookupUnknown
	}

	name, reference := client.ObjectKeyFromObject(c.CatalogSource).String(), c.Spec.Image
	request := strings.Join(append([]string{string(c.UID), reference}, c.Spec.Secrets...), "\n")
	resolved, state, err := l.retrievals.Take(name, lookupPurpose, request)
	switch {
	case state == pull.Running:
		return lookupPending
	case state == pull.None:
		l.retrievals.Start(ctx, pull.Retrieval[string]{
			Name: name, Purpose: lookupPurpose, Request: request, Reference: reference,
			Run: l.newLookup(c.Namespace, reference, c.Spec.Secrets),
		})
		return lookupPending
	case err != nil:
		ctrl.LoggerFrom(ctx).V(1).Info("The registry did not report the digest of a catalog's image, so that a pod shows it", "image", reference, "reason", err.Error())
		return lookupUnknown
	}

	if _, digest, _ := strings.Cut(resolved, "@"); digest != served {
		return lookupUnknown
	}
	return lookupUnchanged
}

// newLookup returns a function that requests the digest of an image reference.
func (l *digestLookups) newLookup(namespace, reference string, secrets []string) func(context.Context) (string, error) {
	var keys []client.ObjectKey
	for _, name := range secrets {
		if name != "" {
			keys = append(keys, client.ObjectKey{Namespace: namespace, Name: name})
		}
	}

	return func(ctx context.Context) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
		defer cancel()
		registries, err := l.registries(ctx, namespace, keys...)
		if err != nil {
			return "", err
		}
		return registries.Resolve(ctx, reference)
	}
}

// onEnd adds a function that is called with the name of a catalog when its registry has answered.
func (l *digestLookups) onEnd(f func(types.NamespacedName)) {
	l.retrievals.OnEnd(func(name string) {
		namespace, name, _ := strings.Cut(name, string(types.Separator))
		f(types.NamespacedName{Namespace: namespace, Name: name})
	})
}

// remove cancels the request of a deleted catalog.
func (l *digestLookups) remove(catalog types.NamespacedName) { l.retrievals.Cancel(catalog.String()) }

// servedDigest returns the digest of the image that the serving pods run, or "" if it is not known or not the same.
func servedDigest(serving []corev1.Pod) string {
	served := ""
	for i := range serving {
		_, digest, _ := strings.Cut(objects.ImageID(&serving[i]), "@")
		if digest == "" || served != "" && served != digest {
			return ""
		}
		served = digest
	}
	return served
}
