package unpack_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/steps"
	"github.com/mainstay-dev/mainstay/internal/classic/unpack"
	registries "github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/testing/ociregistry"
)

// inlineFixture is a fixture with a registry, whose catalog belongs to a tenant.
type inlineFixture struct {
	*fixture
	host   string
	puller *registries.Client

	mu       sync.Mutex
	secrets  []client.ObjectKey // that were requested last
	platform bool               // whether the logins of the program were requested too
}

func newInlineFixture(t *testing.T) *inlineFixture {
	t.Helper()
	w := &inlineFixture{
		fixture: newFixture(t), host: ociregistry.Start(t).Host,
		puller: registries.NewClient(registries.Options{Insecure: true, Limits: unpack.ImageLimits}),
	}
	w.Unpacker = w.newUnpacker(w.Client)
	return w
}

// newUnpacker returns an unpacker without Jobs, for which the catalog belongs to a tenant. Its pulls end before the test.
func (f *inlineFixture) newUnpacker(c client.Client) *unpack.Unpacker {
	f.T.Helper()
	inline := unpack.NewInline(unpack.InlineOptions{
		Client: c, Reader: c, Namespace: "default", Now: func() time.Time { return f.now },
		Registries: f.registries, PlatformRegistries: f.platformRegistries,
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- inline.Start(ctx) }()
	f.T.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			f.T.Error(err)
		}
	})

	return &unpack.Unpacker{
		Catalogs: c, Trust: unpack.Trust{Operator: "default", Global: "olm"}, Inline: inline, Now: func() time.Time { return f.now },
	}
}

func (f *inlineFixture) registries(_ context.Context, secrets ...client.ObjectKey) (*registries.Client, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.secrets, f.platform = secrets, false
	return f.puller, nil
}

func (f *inlineFixture) platformRegistries(_ context.Context, secrets ...client.ObjectKey) (*registries.Client, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.secrets, f.platform = secrets, true
	return f.puller, nil
}

// logins returns the Secrets that were requested last, and whether the logins of the program were requested too.
func (f *inlineFixture) logins() ([]client.ObjectKey, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.secrets, f.platform
}

// push pushes an image with some files, whose bundle is requested from then on.
func (f *inlineFixture) push(files fstest.MapFS) {
	f.T.Helper()
	var err error
	f.lookup.Path, err = f.puller.Push(f.T.Context(), f.host+"/"+f.namespace+"/kettle:v1", nil, f.build(files))
	f.Must(err)
}

func (f *inlineFixture) build(files fstest.MapFS) *registries.Built {
	f.T.Helper()
	built, err := registries.Build(registries.Spec{OS: "linux", Architecture: "amd64", Layers: []registries.Layer{{Tree: files, Target: "/"}}})
	f.Must(err)
	return built
}

// A bundle of a tenant's catalog is unpacked where the tenant cannot write, with the logins of
// the catalog.
func TestInline(t *testing.T) {
	f := newInlineFixture(t)
	f.push(fstest.MapFS{
		"content/csv.yaml":          {Data: []byte(csv)},
		"content/service.yaml":      {Data: []byte(service)},
		"metadata/annotations.yaml": {Data: []byte("annotations:\n  operators.operatorframework.io.bundle.manifests.v1: content/\n")},
	})
	f.unpack(tenMinutes)
	f.expect(v1alpha1.BundleLookupPending, "JobIncomplete", "unpack job not completed")
	result := f.until("it is unpacked", func(r unpack.Result) bool { return r.Done })
	secrets, platform := f.logins()
	if diff := cmp.Diff([]client.ObjectKey{{Namespace: f.namespace, Name: "login"}}, secrets); diff != "" || platform {
		t.Errorf("logins of the program: %v, want false; Secrets (-want +got)\n%s", platform, diff)
	}
	if len(result.Lookup.Conditions) > 0 || len(result.Steps) != 5 {
		t.Errorf("got conditions %v and %d steps, want none and 5", result.Lookup.Conditions, len(result.Steps))
	}

	ref, _ := steps.ReferenceOf(result.Steps[0])
	content := &corev1.ConfigMap{}
	f.Must(f.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: ref.Name}, content))
	catalog := &v1alpha1.CatalogSource{}
	f.Must(f.Get(t.Context(), client.ObjectKey{Namespace: f.namespace, Name: "shop"}, catalog))
	want := map[string]string{
		"olm.managed": "true", "unpack.mainstay.dev/catalog-namespace": f.namespace, "unpack.mainstay.dev/catalog-uid": string(catalog.UID),
	}
	if diff := cmp.Diff(want, content.Labels); diff != "" || content.Immutable == nil || !*content.Immutable {
		t.Errorf("got immutable content: %v; labels (-want +got)\n%s", content.Immutable, diff)
	}
	if ref.Namespace != "default" || ref.Digest == "" || content.Annotations["olm.sourceImage"] != f.lookup.Path {
		t.Errorf("got the reference %+v and the annotations %v", ref, content.Annotations)
	}
	if len(f.jobs()) > 0 {
		t.Errorf("got Jobs %v, want none", f.jobs())
	}

	made, err := unpack.StepsOf(t.Context(), f, f.Trust, f.namespace, ref)
	f.Must(err)
	manifest, err := steps.Manifest(&v1alpha1.Step{Resolving: "kettle.v1", Resource: made[0].Resource, Status: v1alpha1.StepStatusUnknown}, made)
	if err != nil || !strings.Contains(manifest, `"replaces":"kettle.v0"`) {
		t.Errorf("got the manifest %s (%v)", manifest, err)
	}
	// Another namespace may not use it, even if it writes the reference itself.
	if _, err := unpack.StepsOf(t.Context(), f, f.Trust, "coffee", ref); err == nil || !strings.Contains(err.Error(), "namespace coffee may not use") {
		t.Errorf("reading it for another namespace: got %v, want a refusal", err)
	}

	// It is deleted with its catalog.
	collector := &unpack.Collector{Client: f.Client, Reader: f.Client, Namespace: "default"}
	f.Must(collector.Collect(t.Context()))
	f.Must(f.Get(t.Context(), client.ObjectKeyFromObject(content), content))
	f.Must(f.Delete(t.Context(), catalog))
	f.Must(collector.Collect(t.Context()))
	if err := f.Get(t.Context(), client.ObjectKeyFromObject(content), content); !apierrors.IsNotFound(err) {
		t.Errorf("reading the content of a deleted catalog: got %v, want NotFound", err)
	}
}

// The conditions explain why a bundle cannot be unpacked, with the same reasons as for Jobs.
func TestInlineFails(t *testing.T) {
	f := newInlineFixture(t)
	f.lookup.Path = f.host + "/" + f.namespace + "/none@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	pulled := func(r unpack.Result) bool {
		return strings.Contains(r.Lookup.Conditions[len(r.Lookup.Conditions)-1].Message, "ErrImagePull")
	}
	r := f.until("it cannot be pulled", pulled)
	if c := unpack.Condition(&r.Lookup, v1alpha1.BundleLookupPending); c == nil || c.Reason != "JobIncomplete" || !strings.HasPrefix(c.Message, "unpack job not completed: Reason: ErrImagePull, Message: ") {
		t.Errorf("got the conditions %+v", r.Lookup.Conditions)
	}
	if got := unpack.Progress([]v1alpha1.BundleLookup{f.lookup}); !strings.Contains(got, "cannot be pulled") {
		t.Errorf("got the message %q, want what to check", got)
	}

	f.push(fstest.MapFS{"metadata/annotations.yaml": {Data: []byte("annotations: {}\n")}})
	f.until("it is no bundle", func(r unpack.Result) bool { return unpack.Condition(&r.Lookup, v1alpha1.BundleLookupFailed) != nil })
	f.expect(v1alpha1.BundleLookupFailed, "BackoffLimitExceeded", "Job has reached the specified backoff limit: reading the bundle: manifests: file does not exist")
	const want = "Bundle unpacking failed - BackoffLimitExceeded: Job has reached the specified backoff limit: reading the bundle: manifests: file does not exist. " +
		"It is retried after about 5 min; to retry sooner, set the annotation operatorframework.io/bundle-unpack-min-retry-interval of the OperatorGroup"
	if got := f.Failure([]v1alpha1.BundleLookup{f.lookup}); got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
}
