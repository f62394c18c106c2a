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

// The Secrets that a CatalogSource names are in its own namespace, which may be any.

// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;create
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get

// Marks of a ConfigMap with content that was unpacked inline.
const (
	// LabelCatalogNamespace is the namespace of the catalog.
	LabelCatalogNamespace = "unpack.mainstay.dev/catalog-namespace"
	// LabelCatalogUID is the UID of the catalog.
	LabelCatalogUID = "unpack.mainstay.dev/catalog-uid"
	// AnnotationCatalog is the catalog, as NAMESPACE/NAME.
	AnnotationCatalog = "unpack.mainstay.dev/catalog"
)

// Limits on what is unpacked inline. Tenants choose the images.
const (
	// maxPulls is how many images are pulled at the same time, and maxPullsOfNamespace how many for the
	// catalogs of one namespace, so that registries that do not answer hold up no other namespace.
	maxPulls            = 16
	maxPullsOfNamespace = 2
	// maxReaders is how many bundles are decoded at the same time. Each may take a few times
	// ImageLimits.Bytes of memory.
	maxReaders = 2
	// maxContents is how many bundles are kept for the catalogs of a namespace. Those that no
	// InstallPlan refers to are deleted after a while.
	maxContents = 200
	// pullTimeout ends a single pull, also where a bundle may take longer: its slot is needed.
	pullTimeout = 10 * time.Minute
)

// ImageLimits are those of images that are unpacked inline. A ConfigMap has at most 1 MiB, compressed: what
// is larger than this becomes none.
var ImageLimits = image.Limits{
	BlobBytes: 64 << 20, StreamBytes: 512 << 20, Entries: 100_000, Layers: 128,
	Bytes: 32 << 20, FileBytes: 16 << 20, Files: 5_000, NameBytes: 1 << 20,
}

// Inline unpacks bundle images in this process, into ConfigMaps of the program's own namespace, where
// whoever edits the namespace of the catalog can neither read nor write.
type Inline struct {
	options InlineOptions
	queue   chan *pull
	readers chan struct{}

	mu       sync.Mutex
	attempts map[string]*attempt // by the name of the ConfigMap
}

// InlineOptions configure an [Inline]. All but Now are required.
type InlineOptions struct {
	Client client.Client
	// Reader reads what no cache holds.
	Reader client.Reader
	// Namespace is that of the program.
	Namespace string
	// Registries returns a client of registries with the logins of the given Secrets, and no others.
	// Its limits are ImageLimits.
	Registries func(ctx context.Context, secrets ...client.ObjectKey) (*image.Client, error)
	// Now tells the time. Unset means that of the machine.
	Now func() time.Time
}

// NewInline returns an Inline. It pulls nothing until it is started.
func NewInline(o InlineOptions) *Inline {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Inline{options: o, queue: make(chan *pull, maxPulls), readers: make(chan struct{}, maxReaders), attempts: map[string]*attempt{}}
}

// pull is one try to get a bundle.
type pull struct {
	name     string // of the ConfigMap
	image    string
	catalog  *v1alpha1.CatalogSource
	deadline time.Time
}

// Start pulls what is asked for until the context ends.
func (i *Inline) Start(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case p := <-i.queue:
			running.Go(func() { i.finish(p.name, i.run(ctx, p)) })
		}
	}
}

// contentName is the name of the ConfigMap with a bundle of a catalog. A catalog that is created again
// under the same name does not get the content of the one before.
func contentName(catalog *v1alpha1.CatalogSource, ref string) string {
	return Name(string(catalog.UID) + " " + ref)
}

func (i *Inline) unpack(ctx context.Context, r *Result, b request) (*corev1.ConfigMap, error) {
	name := contentName(b.catalog, b.image)
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
	i.forgetOld(b.now)
	a := i.attempts[name]
	if a == nil || a.isRetried(b.limits, b.now) {
		a = &attempt{namespace: b.catalog.Namespace, began: b.now}
	}

	a.asked = b.now
	if a.isDue(b.limits, b.now) && i.hasSlot(a.namespace) {
		a.running, i.attempts[name] = true, a
		i.queue <- &pull{name, b.image, b.catalog, a.deadline(b.limits, b.now)} // It has room for every slot.
	}

	a.report(r, b.limits, b.now)
	return nil, nil // Nothing is there yet.
}

func (i *Inline) advice(lookup *v1alpha1.BundleLookup) string {
	return fmt.Sprintf("It is tried again after about %d min; to try sooner, create CatalogSource %s in namespace %s again",
		jobTTL/60, lookup.CatalogSourceRef.Name, lookup.CatalogSourceRef.Namespace)
}

// hasSlot reports whether one more image may be pulled for the catalogs of a namespace.
func (i *Inline) hasSlot(namespace string) bool {
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

	return all < maxPulls && own < maxPullsOfNamespace
}

// forgetOld drops the attempts that nobody asks for any more.
func (i *Inline) forgetOld(now time.Time) {
	maps.DeleteFunc(i.attempts, func(_ string, a *attempt) bool { return !a.running && now.Sub(a.asked) > attemptTTL })
}

// finish notes how a pull has ended. One that succeeded shows in its ConfigMap.
func (i *Inline) finish(name string, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	a := i.attempts[name]
	if err == nil {
		delete(i.attempts, name)
		return
	}

	a.running, a.tries, a.ended, a.err = false, a.tries+1, i.options.Now(), err
}

// run pulls a bundle and stores its content.
func (i *Inline) run(ctx context.Context, p *pull) error {
	ctx, cancel := context.WithDeadline(ctx, p.deadline)
	defer cancel()
	content, err := i.read(ctx, p)
	if err != nil {
		return err
	}
	return i.store(ctx, p, content)
}

func (i *Inline) read(ctx context.Context, p *pull) (*configmap.Content, error) {
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

	defer func() { _ = files.Close() }() // Nobody reads it any more.

	select {
	case i.readers <- struct{}{}:
		defer func() { <-i.readers }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}

	read, err := bundle.ReadFiles(files)
	if err != nil {
		return nil, &contentError{err}
	}

	content, err := configmap.FromBundle(read, configmap.MaxBytes, true)
	if err != nil {
		return nil, &contentError{err}
	}

	return content, nil
}

// contentError is about a bundle that is of no use as it is.
type contentError struct{ err error }

func (e *contentError) Error() string { return "reading the bundle: " + e.err.Error() }
func (e *contentError) Unwrap() error { return e.err }

// isTerminal reports whether another try cannot help.
func isTerminal(err error) bool {
	var content *contentError
	return errors.As(err, &content) || image.IsTerminal(err)
}

// store writes the content of a bundle into a ConfigMap that nobody changes.
func (i *Inline) store(ctx context.Context, p *pull, content *configmap.Content) error {
	namespace := p.catalog.Namespace
	var kept metav1.PartialObjectMetadataList
	kept.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	of := client.MatchingLabels{LabelCatalogNamespace: namespace}
	if err := i.options.Reader.List(ctx, &kept, client.InNamespace(i.options.Namespace), of); err != nil {
		return fmt.Errorf("listing the unpacked bundles of namespace %s: %w", namespace, err)
	}
	if len(kept.Items) >= maxContents {
		return fmt.Errorf("there are %d unpacked bundles for the catalogs of namespace %s, and no more are kept: they are deleted within %s after the InstallPlans that need them",
			len(kept.Items), namespace, contentGrace+collectInterval)
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
