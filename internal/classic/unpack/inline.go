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

// Limits of inline unpacking. Tenants choose the images.
const (
	// maxConcurrentPulls limits concurrent pulls, and maxPullsPerNamespace those for the
	// catalogs of one namespace. A registry that does not answer then delays no other
	// namespace.
	maxConcurrentPulls   = 16
	maxPullsPerNamespace = 2
	// maxConcurrentReaders limits the bundles that are decoded concurrently. Each may take a
	// few times ImageLimits.Bytes of memory.
	maxConcurrentReaders = 2
	// maxContentsPerNamespace limits the bundles that are kept for the catalogs of a namespace.
	// Bundles to which no InstallPlan refers are deleted after a while.
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
	queue   chan *pullRequest
	readers chan struct{}

	mu       sync.Mutex
	attempts map[string]*pullAttempt // by the name of the ConfigMap
}

// InlineOptions configure an [Inline]. All but Now are required.
type InlineOptions struct {
	Client client.Client
	// Reader reads objects that are not cached.
	Reader client.Reader
	// Namespace is the namespace of the program.
	Namespace string
	// Registries returns a registry client that uses only the credentials of the given Secrets.
	// Its limits are ImageLimits.
	Registries func(ctx context.Context, secrets ...client.ObjectKey) (*image.Client, error)
	// Now returns the time. If it is nil, time.Now is used.
	Now func() time.Time
}

// NewInline returns an Inline. It pulls nothing before Start is called.
func NewInline(o InlineOptions) *Inline {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Inline{options: o, queue: make(chan *pullRequest, maxConcurrentPulls), readers: make(chan struct{}, maxConcurrentReaders), attempts: map[string]*pullAttempt{}}
}

// pullRequest is one pull of a bundle.
type pullRequest struct {
	name     string // of the ConfigMap
	image    string
	catalog  *v1alpha1.CatalogSource
	deadline time.Time
}

// Start pulls requested bundles until the context ends.
func (i *Inline) Start(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case p := <-i.queue:
			running.Go(func() { i.recordPullResult(p.name, i.pullAndStore(ctx, p)) })
		}
	}
}

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
	if a == nil || a.isRetryDue(b.limits, b.now) {
		a = &pullAttempt{namespace: b.catalog.Namespace, startedAt: b.now}
	}

	a.lastRequestedAt = b.now
	if a.isPullDue(b.limits, b.now) && i.hasPullSlot(a.namespace) {
		a.running, i.attempts[name] = true, a
		i.queue <- &pullRequest{name, b.image, b.catalog, a.pullDeadline(b.limits, b.now)} // The queue has capacity for all slots.
	}

	a.reportProgressTo(r, b.limits, b.now)
	return nil, nil // There is no content yet.
}

func (i *Inline) failureAdvice(lookup *v1alpha1.BundleLookup) string {
	return fmt.Sprintf("It is retried after about %d min; to retry sooner, recreate CatalogSource %s in namespace %s",
		jobTTLSeconds/60, lookup.CatalogSourceRef.Name, lookup.CatalogSourceRef.Namespace)
}

// hasPullSlot reports whether another image can be pulled for the catalogs of a namespace.
func (i *Inline) hasPullSlot(namespace string) bool {
	all, own := 0, 0
	for _, a := range i.attempts {
		if !a.running {
			continue
		}
		all++
		if a.namespace == namespace {
			own++
		}
	}

	return all < maxConcurrentPulls && own < maxPullsPerNamespace
}

// dropOldAttempts removes attempts that are not requested any more.
func (i *Inline) dropOldAttempts(now time.Time) {
	maps.DeleteFunc(i.attempts, func(_ string, a *pullAttempt) bool { return !a.running && now.Sub(a.lastRequestedAt) > attemptTTL })
}

// recordPullResult records the result of a pull. A successful pull is visible in its ConfigMap.
func (i *Inline) recordPullResult(name string, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	a := i.attempts[name]
	if err == nil {
		delete(i.attempts, name)
		return
	}

	a.running, a.failures, a.lastFailedAt, a.lastErr = false, a.failures+1, i.options.Now(), err
}

// pullAndStore pulls a bundle and stores its content.
func (i *Inline) pullAndStore(ctx context.Context, p *pullRequest) error {
	ctx, cancel := context.WithDeadline(ctx, p.deadline)
	defer cancel()
	content, err := i.pullBundleContent(ctx, p)
	if err != nil {
		return err
	}
	return i.storeContent(ctx, p, content)
}

// pullBundleContent pulls a bundle image and returns the content of its ConfigMap.
func (i *Inline) pullBundleContent(ctx context.Context, p *pullRequest) (*configmap.Content, error) {
	var secrets []client.ObjectKey
	for _, name := range p.catalog.Spec.Secrets {
		if name != "" {
			secrets = append(secrets, client.ObjectKey{Namespace: p.catalog.Namespace, Name: name})
		}
	}

	registries, err := i.options.Registries(ctx, secrets...)
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

// storeContent writes the content of a bundle into an immutable ConfigMap.
func (i *Inline) storeContent(ctx context.Context, p *pullRequest, content *configmap.Content) error {
	namespace := p.catalog.Namespace
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
