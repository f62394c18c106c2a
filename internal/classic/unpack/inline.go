package unpack

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/bundle/configmap"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/pull"
)

// The Secrets of a CatalogSource are in its own namespace, which may be any namespace.

// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;create
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get

// Labels and annotations of a ConfigMap with content that was unpacked inline.
const (
	// LabelCatalogNamespace is the namespace of the catalog.
	LabelCatalogNamespace = "unpack.mainstay.dev/catalog-namespace"
	// LabelCatalogUID is the UID of the catalog.
	LabelCatalogUID = "unpack.mainstay.dev/catalog-uid"
	// AnnotationCatalog is the catalog, as NAMESPACE/NAME.
	AnnotationCatalog = "unpack.mainstay.dev/catalog"
)

// Limits of inline unpacking.
const (
	// maxPullsPerNamespace limits concurrent pulls for the catalogs of one tenant's namespace, so
	// that no tenant takes all slots of a registry. The slots are those of pull.Retrievals.
	maxPullsPerNamespace = 2
	// maxConcurrentReaders limits the bundles that are decoded concurrently. Each may take a
	// few times ImageLimits.Bytes of memory.
	maxConcurrentReaders = 2
	// maxContentsPerNamespace limits the bundles that are kept for the catalogs of a tenant's
	// namespace. Bundles to which no InstallPlan refers are deleted after a while.
	maxContentsPerNamespace = 200
	// pullTimeout limits a single pull, even if the bundle has a longer timeout, because its
	// slot is needed.
	pullTimeout = 10 * time.Minute
)

// ImageLimits are the limits of images that are unpacked inline. A ConfigMap holds at most 1
// MiB of compressed content, which larger images exceed.
var ImageLimits = image.Limits{
	BlobBytes: 64 << 20, StreamBytes: 512 << 20, Entries: 100_000, Layers: 128,
	Bytes: 32 << 20, FileBytes: 16 << 20, Files: 5_000, NameBytes: 1 << 20,
}

// Inline unpacks bundle images in this process into ConfigMaps in the namespace of the program.
// Editors of the catalog's namespace can neither read nor write there.
type Inline struct {
	options InlineOptions
	pulls   pull.Retrievals[struct{}] // by the name of the ConfigMap
	readers chan struct{}

	mu       sync.Mutex
	attempts map[string]*pullAttempt // by the name of the ConfigMap
	pulling  map[string]int          // pulls by the namespace of the catalog
}

// Registries returns a registry client with the limits ImageLimits and the credentials of Secrets.
type Registries func(ctx context.Context, secrets ...client.ObjectKey) (*image.Client, error)

// InlineOptions configure an [Inline]. All but Now and PlatformRegistries are required.
type InlineOptions struct {
	Client client.Client
	// Reader reads objects that are not cached.
	Reader client.Reader
	// Namespace is the namespace of the program.
	Namespace string
	// Registries is for the catalogs of tenants: it uses only the credentials of the Secrets.
	Registries Registries
	// PlatformRegistries is for catalogs in trusted namespaces: it also uses the credentials of
	// the program. If it is nil, Registries is used.
	PlatformRegistries Registries
	// Now returns the time. If it is nil, time.Now is used.
	Now func() time.Time
}

// NewInline returns an Inline.
func NewInline(o InlineOptions) *Inline {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.PlatformRegistries == nil {
		o.PlatformRegistries = o.Registries
	}
	return &Inline{options: o, readers: make(chan struct{}, maxConcurrentReaders), attempts: map[string]*pullAttempt{}, pulling: map[string]int{}}
}

// pullRequest is one pull of a bundle.
type pullRequest struct {
	unpackRequest

	name     string // of the ConfigMap
	deadline time.Time
}

// Start waits until the context has ended, and then for the end of the pulls.
func (i *Inline) Start(ctx context.Context) error { return i.pulls.Runnable().Start(ctx) }

// contentConfigMapName returns the name of the ConfigMap for a bundle of a catalog. The name
// contains the UID of the catalog, so that a recreated catalog does not use old content.
func contentConfigMapName(catalog *v1alpha1.CatalogSource, ref string) string {
	return Name(string(catalog.UID) + " " + ref)
}

func (i *Inline) unpackBundle(ctx context.Context, r *Result, b unpackRequest) (*corev1.ConfigMap, error) {
	name := contentConfigMapName(b.catalog, b.image)
	var content corev1.ConfigMap
	err := i.options.Reader.Get(ctx, client.ObjectKey{Namespace: i.options.Namespace, Name: name}, &content)
	if err == nil {
		return &content, nil
	}
	if !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading ConfigMap %s/%s: %w", i.options.Namespace, name, err)
	}

	i.mu.Lock()
	defer i.mu.Unlock()
	i.dropOldAttempts(b.now)
	a := i.attempts[name]
	if a == nil {
		a = &pullAttempt{image: b.image, startedAt: b.now}
	}

	_, state, err := i.pulls.Take(name, "", b.image)
	a.recordPull(state, err, i.options.Now())
	if a.isRetryDue(b.limits, b.now) {
		a = &pullAttempt{image: b.image, startedAt: b.now}
	}
	i.attempts[name], a.lastRequestedAt = a, b.now

	if a.isPullDue(b.limits, b.now) && i.hasPullSlot(b) {
		a.running = true
		i.startPull(ctx, &pullRequest{unpackRequest: b, name: name, deadline: a.pullDeadline(b.limits, b.now)})
	}

	a.reportProgressTo(r, b.limits, b.now)
	return nil, nil // There is no content yet.
}

func (i *Inline) failureAdvice(*v1alpha1.BundleLookup) string {
	return fmt.Sprintf("It is retried after about %d min; to retry sooner, set the annotation %s of the OperatorGroup", jobTTLSeconds/60, AnnotationMinRetryInterval)
}

// hasPullSlot reports whether another image can be pulled for the catalogs of a namespace.
func (i *Inline) hasPullSlot(b unpackRequest) bool {
	return b.trusted || i.pulling[b.catalog.Namespace] < maxPullsPerNamespace
}

// startPull starts a pull. It waits for a slot of the registry and then runs in the background.
func (i *Inline) startPull(ctx context.Context, p *pullRequest) {
	namespace := p.catalog.Namespace
	i.pulling[namespace]++
	i.pulls.Start(ctx, pull.Retrieval[struct{}]{
		Name: p.name, Request: p.image, Reference: p.image,
		Run: func(ctx context.Context) (struct{}, error) {
			defer i.releasePullSlot(namespace)
			return struct{}{}, i.pullAndStore(ctx, p)
		},
	})
}

func (i *Inline) releasePullSlot(namespace string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.pulling[namespace]--; i.pulling[namespace] == 0 {
		delete(i.pulling, namespace)
	}
}

// dropOldAttempts removes attempts that are not requested any more.
func (i *Inline) dropOldAttempts(now time.Time) {
	for name, a := range i.attempts {
		if now.Sub(a.lastRequestedAt) <= attemptTTL {
			continue
		}
		if _, state, _ := i.pulls.Take(name, "", a.image); state != pull.Running {
			delete(i.attempts, name)
		}
	}
}

// pullAndStore pulls a bundle and stores its content.
func (i *Inline) pullAndStore(ctx context.Context, p *pullRequest) error {
	ctx, cancel := context.WithDeadline(ctx, p.deadline)
	defer cancel()
	content, err := i.pullBundleContent(ctx, p)
	if err != nil {
		return err
	}
	if err := i.storeContent(ctx, p, content); err != nil {
		return &storeError{err}
	}
	return nil
}

// storeError reports that the content of a bundle was pulled, but could not be stored.
type storeError struct{ err error }

func (e *storeError) Error() string { return e.err.Error() }
func (e *storeError) Unwrap() error { return e.err }

// pullBundleContent pulls a bundle image and returns the content of its ConfigMap.
func (i *Inline) pullBundleContent(ctx context.Context, p *pullRequest) (*configmap.Content, error) {
	var secrets []client.ObjectKey
	for _, name := range p.catalog.Spec.Secrets {
		if name != "" {
			secrets = append(secrets, client.ObjectKey{Namespace: p.catalog.Namespace, Name: name})
		}
	}

	connect := i.options.Registries
	if p.trusted {
		connect = i.options.PlatformRegistries
	}

	registries, err := connect(ctx, secrets...)
	if err != nil {
		return nil, err
	}

	img, err := registries.Pull(ctx, p.image)
	if err != nil {
		return nil, err
	}
	defer func() { _ = img.Close() }() // It was only read.
	files, _, err := img.Files(ctx, "/", "")
	if err != nil {
		return nil, err
	}
	defer func() { _ = files.Close() }() // It was only read.

	select {
	case i.readers <- struct{}{}:
		defer func() { <-i.readers }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}

	read, err := bundle.ReadFiles(files)
	if err != nil {
		return nil, &invalidContentError{err}
	}

	content, err := configmap.FromBundle(read, configmap.MaxBytes, true)
	if err != nil {
		return nil, &invalidContentError{err}
	}

	return content, nil
}

// invalidContentError reports that the content of a bundle is invalid.
type invalidContentError struct{ err error }

func (e *invalidContentError) Error() string { return "reading the bundle: " + e.err.Error() }
func (e *invalidContentError) Unwrap() error { return e.err }

// isTerminal reports whether retrying cannot help.
func isTerminal(err error) bool {
	var content *invalidContentError
	return errors.As(err, &content) || image.IsTerminal(err)
}

// checkContentQuota returns an error if the catalogs of a tenant's namespace have too much content.
func (i *Inline) checkContentQuota(ctx context.Context, namespace string) error {
	var kept metav1.PartialObjectMetadataList
	kept.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	selector := client.MatchingLabels{LabelCatalogNamespace: namespace}
	if err := i.options.Reader.List(ctx, &kept, client.InNamespace(i.options.Namespace), selector); err != nil {
		return fmt.Errorf("listing the unpacked bundles of namespace %s: %w", namespace, err)
	}
	if len(kept.Items) >= maxContentsPerNamespace {
		return fmt.Errorf("the catalogs of namespace %s have reached the limit of %d unpacked bundles: bundles are deleted within %s after the InstallPlans that need them",
			namespace, len(kept.Items), unreferencedContentTTL+collectResyncInterval)
	}

	return nil
}

// storeContent writes the content of a bundle into an immutable ConfigMap.
func (i *Inline) storeContent(ctx context.Context, p *pullRequest, content *configmap.Content) error {
	namespace := p.catalog.Namespace
	if !p.trusted {
		if err := i.checkContentQuota(ctx, namespace); err != nil {
			return err
		}
	}

	configMap := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: i.options.Namespace, Name: p.name,
			Labels: map[string]string{
				csvinfo.LabelManaged: "true", LabelCatalogNamespace: namespace, LabelCatalogUID: string(p.catalog.UID),
			},
			Annotations: map[string]string{},
		},
		Immutable: ptr.To(true), Data: content.Data, BinaryData: content.BinaryData,
	}

	maps.Copy(configMap.Annotations, content.Annotations)
	configMap.Annotations[configmap.AnnotationImage] = p.image
	configMap.Annotations[AnnotationCatalog] = client.ObjectKeyFromObject(p.catalog).String()
	if err := client.IgnoreAlreadyExists(i.options.Client.Create(ctx, configMap)); err != nil {
		return fmt.Errorf("creating ConfigMap %s/%s for bundle image %s: %w", configMap.Namespace, configMap.Name, p.image, err)
	}

	return nil
}
