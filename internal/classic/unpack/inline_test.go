package unpack_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/registry"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/steps"
	"github.com/mainstay-dev/mainstay/internal/classic/unpack"
	registries "github.com/mainstay-dev/mainstay/internal/image"
)

// inlineFixture is a fixture with a registry, whose catalog belongs to a tenant.
type inlineFixture struct {
	*fixture
	host   string
	puller *registries.Client

	mu      sync.Mutex
	secrets []client.ObjectKey // that were asked for last
}

func newInlineFixture(t *testing.T) *inlineFixture {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	w := &inlineFixture{
		fixture: newFixture(t), host: strings.TrimPrefix(server.URL, "http://"),
		puller: registries.NewClient(registries.Options{Insecure: true, Limits: unpack.ImageLimits}),
	}
	inline := unpack.NewInline(unpack.InlineOptions{Client: w.Client, Reader: w.Client, Namespace: "default", Registries: w.registries})
	w.Unpacker = &unpack.Unpacker{Catalogs: w.Client, Trust: unpack.Trust{Operator: "default", Global: "olm"}, Inline: inline}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- inline.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})

	return w
}

func (f *inlineFixture) registries(_ context.Context, secrets ...client.ObjectKey) (*registries.Client, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.secrets = secrets
	return f.puller, nil
}

// push pushes an image with some files, whose bundle is asked for from then on.
func (f *inlineFixture) push(files fstest.MapFS) {
	f.t.Helper()
	built, err := registries.Build(registries.Spec{OS: "linux", Architecture: "amd64", Layers: []registries.Layer{{Tree: files, Target: "/"}}})
	f.must(err)
	f.lookup.Path, err = f.puller.Push(f.t.Context(), f.host+"/"+f.namespace+"/kettle:v1", nil, built)
	f.must(err)
}

// until asks for the bundle until a condition of it holds, or it is unpacked.
func (f *inlineFixture) until(what string, is func(unpack.Result) bool) unpack.Result {
	f.t.Helper()
	var last unpack.Result
	err := wait.PollUntilContextTimeout(f.t.Context(), 20*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		last = f.unpack(tenMinutes) //nolint:contextcheck // It has the context of the test.
		return is(last), nil
	})
	if err != nil {
		f.t.Fatalf("never: %s; the conditions are %+v", what, last.Lookup.Conditions)
	}

	return last
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
	if diff := cmp.Diff([]client.ObjectKey{{Namespace: f.namespace, Name: "login"}}, f.secrets); diff != "" {
		t.Errorf("logins (-want +got)\n%s", diff)
	}
	if len(result.Lookup.Conditions) > 0 || len(result.Steps) != 5 {
		t.Errorf("got conditions %v and %d steps, want none and 5", result.Lookup.Conditions, len(result.Steps))
	}

	ref, _ := steps.ReferenceOf(result.Steps[0])
	content := &corev1.ConfigMap{}
	f.must(f.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: ref.Name}, content))
	catalog := &v1alpha1.CatalogSource{}
	f.must(f.Get(t.Context(), client.ObjectKey{Namespace: f.namespace, Name: "shop"}, catalog))
	want := map[string]string{
		"olm.managed": "true", "unpack.mainstay.dev/catalog-namespace": f.namespace, "unpack.mainstay.dev/catalog-uid": string(catalog.UID),
	}
	if diff := cmp.Diff(want, content.Labels); diff != "" || content.Immutable == nil || !*content.Immutable {
		t.Errorf("the content is immutable: %v; labels (-want +got)\n%s", content.Immutable, diff)
	}
	if ref.Namespace != "default" || ref.Digest == "" || content.Annotations["olm.sourceImage"] != f.lookup.Path {
		t.Errorf("the reference is %+v, the annotations are %v", ref, content.Annotations)
	}
	if len(f.jobs()) > 0 {
		t.Errorf("got Jobs %v, want none", f.jobs())
	}

	made, err := unpack.StepsOf(t.Context(), f, f.Trust, f.namespace, ref)
	f.must(err)
	manifest, err := steps.Manifest(&v1alpha1.Step{Resolving: "kettle.v1", Resource: made[0].Resource, Status: v1alpha1.StepStatusUnknown}, made)
	if err != nil || !strings.Contains(manifest, `"replaces":"kettle.v0"`) {
		t.Errorf("the manifest is %s (%v)", manifest, err)
	}
	// Another namespace may not use it, even if it writes the reference itself.
	if _, err := unpack.StepsOf(t.Context(), f, f.Trust, "coffee", ref); err == nil || !strings.Contains(err.Error(), "namespace coffee may not use") {
		t.Errorf("reading it for another namespace: got %v, want a refusal", err)
	}

	// It goes with its catalog.
	collector := &unpack.Collector{Client: f.Client, Reader: f.Client, Namespace: "default"}
	f.must(collector.Collect(t.Context()))
	f.must(f.Get(t.Context(), client.ObjectKeyFromObject(content), content))
	f.must(f.Delete(t.Context(), catalog))
	f.must(collector.Collect(t.Context()))
	if err := f.Get(t.Context(), client.ObjectKeyFromObject(content), content); !apierrors.IsNotFound(err) {
		t.Errorf("reading the content of a catalog that is gone: got %v, want NotFound", err)
	}
}

// What keeps a bundle from being unpacked shows in the conditions, by the reasons that Jobs have.
func TestInlineFails(t *testing.T) {
	f := newInlineFixture(t)
	f.lookup.Path = f.host + "/" + f.namespace + "/none@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	pulled := func(r unpack.Result) bool {
		return strings.Contains(r.Lookup.Conditions[len(r.Lookup.Conditions)-1].Message, "ErrImagePull")
	}
	r := f.until("it cannot be pulled", pulled)
	if c := unpack.Condition(&r.Lookup, v1alpha1.BundleLookupPending); c == nil || c.Reason != "JobIncomplete" || !strings.HasPrefix(c.Message, "unpack job not completed: Reason: ErrImagePull, Message: ") {
		t.Errorf("the conditions are %+v", r.Lookup.Conditions)
	}
	if got := unpack.Progress([]v1alpha1.BundleLookup{f.lookup}); !strings.Contains(got, "cannot be pulled") {
		t.Errorf("the Subscription says %q, want what to check", got)
	}

	f.push(fstest.MapFS{"metadata/annotations.yaml": {Data: []byte("annotations: {}\n")}})
	f.until("it is no bundle", func(r unpack.Result) bool { return unpack.Condition(&r.Lookup, v1alpha1.BundleLookupFailed) != nil })
	f.expect(v1alpha1.BundleLookupFailed, "BackoffLimitExceeded", "Job has reached the specified backoff limit: reading the bundle: manifests: file does not exist")
	want := fmt.Sprintf("Bundle unpacking failed - BackoffLimitExceeded: Job has reached the specified backoff limit: reading the bundle: manifests: file does not exist. "+
		"It is retried after about 5 min; to retry sooner, recreate CatalogSource shop in namespace %s", f.namespace)
	if got := f.Failure([]v1alpha1.BundleLookup{f.lookup}); got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
}
