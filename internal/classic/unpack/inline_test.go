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

// inlineWorld is a world whose catalog is a tenant's, and a registry.
type inlineWorld struct {
	*world
	host   string
	puller *registries.Client

	mu      sync.Mutex
	secrets []client.ObjectKey // that were asked for last
}

func enterInline(t *testing.T) *inlineWorld {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	w := &inlineWorld{
		world: enter(t), host: strings.TrimPrefix(server.URL, "http://"),
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

func (w *inlineWorld) registries(_ context.Context, secrets ...client.ObjectKey) (*registries.Client, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.secrets = secrets
	return w.puller, nil
}

// push pushes an image with some files, whose bundle is asked for from then on.
func (w *inlineWorld) push(files fstest.MapFS) {
	w.t.Helper()
	built, err := registries.Build(registries.Spec{OS: "linux", Architecture: "amd64", Layers: []registries.Layer{{Tree: files, Target: "/"}}})
	w.must(err)
	w.lookup.Path, err = w.puller.Push(w.t.Context(), w.host+"/"+w.namespace+"/kettle:v1", nil, built)
	w.must(err)
}

// until asks for the bundle until a condition of it holds, or it is unpacked.
func (w *inlineWorld) until(what string, is func(unpack.Result) bool) unpack.Result {
	w.t.Helper()
	var last unpack.Result
	err := wait.PollUntilContextTimeout(w.t.Context(), 20*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		last = w.unpack(tenMinutes) //nolint:contextcheck // It has the context of the test.
		return is(last), nil
	})
	if err != nil {
		w.t.Fatalf("never: %s; the conditions are %+v", what, last.Lookup.Conditions)
	}

	return last
}

// A bundle of a tenant's catalog is unpacked where the tenant cannot write, with the logins of the catalog.
func TestInline(t *testing.T) {
	w := enterInline(t)
	w.push(fstest.MapFS{
		"content/csv.yaml":          {Data: []byte(csv)},
		"content/service.yaml":      {Data: []byte(service)},
		"metadata/annotations.yaml": {Data: []byte("annotations:\n  operators.operatorframework.io.bundle.manifests.v1: content/\n")},
	})
	w.unpack(tenMinutes)
	w.expect(v1alpha1.BundleLookupPending, "JobIncomplete", "unpack job not completed")
	result := w.until("it is unpacked", func(r unpack.Result) bool { return r.Done })
	if diff := cmp.Diff([]client.ObjectKey{{Namespace: w.namespace, Name: "login"}}, w.secrets); diff != "" {
		t.Errorf("logins (-want +got)\n%s", diff)
	}
	if len(result.Lookup.Conditions) > 0 || len(result.Steps) != 5 {
		t.Errorf("got conditions %v and %d steps, want none and 5", result.Lookup.Conditions, len(result.Steps))
	}

	ref, _ := steps.ReferenceOf(result.Steps[0])
	content := &corev1.ConfigMap{}
	w.must(w.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: ref.Name}, content))
	catalog := &v1alpha1.CatalogSource{}
	w.must(w.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "shop"}, catalog))
	want := map[string]string{
		"olm.managed": "true", "unpack.mainstay.dev/catalog-namespace": w.namespace, "unpack.mainstay.dev/catalog-uid": string(catalog.UID),
	}
	if diff := cmp.Diff(want, content.Labels); diff != "" || content.Immutable == nil || !*content.Immutable {
		t.Errorf("the content is immutable: %v; labels (-want +got)\n%s", content.Immutable, diff)
	}
	if ref.Namespace != "default" || ref.Digest == "" || content.Annotations["olm.sourceImage"] != w.lookup.Path {
		t.Errorf("the reference is %+v, the annotations are %v", ref, content.Annotations)
	}
	if len(w.jobs()) > 0 {
		t.Errorf("got Jobs %v, want none", w.jobs())
	}

	made, err := unpack.StepsOf(t.Context(), w, w.Trust, w.namespace, ref)
	w.must(err)
	manifest, err := steps.Manifest(&v1alpha1.Step{Resolving: "kettle.v1", Resource: made[0].Resource, Status: v1alpha1.StepStatusUnknown}, made)
	if err != nil || !strings.Contains(manifest, `"replaces":"kettle.v0"`) {
		t.Errorf("the manifest is %s (%v)", manifest, err)
	}
	// Another namespace may not use it, even if it writes the reference itself.
	if _, err := unpack.StepsOf(t.Context(), w, w.Trust, "coffee", ref); err == nil || !strings.Contains(err.Error(), "namespace coffee may not use") {
		t.Errorf("reading it for another namespace: got %v, want a refusal", err)
	}

	// It goes with its catalog.
	collector := &unpack.Collector{Client: w.Client, Reader: w.Client, Namespace: "default"}
	w.must(collector.Collect(t.Context()))
	w.must(w.Get(t.Context(), client.ObjectKeyFromObject(content), content))
	w.must(w.Delete(t.Context(), catalog))
	w.must(collector.Collect(t.Context()))
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(content), content); !apierrors.IsNotFound(err) {
		t.Errorf("reading the content of a catalog that is gone: got %v, want NotFound", err)
	}
}

// What keeps a bundle from being unpacked shows in the conditions, by the reasons that Jobs have.
func TestInlineFails(t *testing.T) {
	w := enterInline(t)
	w.lookup.Path = w.host + "/" + w.namespace + "/none@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	pulled := func(r unpack.Result) bool {
		return strings.Contains(r.Lookup.Conditions[len(r.Lookup.Conditions)-1].Message, "ErrImagePull")
	}
	r := w.until("it cannot be pulled", pulled)
	if c := unpack.Condition(&r.Lookup, v1alpha1.BundleLookupPending); c == nil || c.Reason != "JobIncomplete" || !strings.HasPrefix(c.Message, "unpack job not completed: Reason: ErrImagePull, Message: ") {
		t.Errorf("the conditions are %+v", r.Lookup.Conditions)
	}
	if got := unpack.Progress([]v1alpha1.BundleLookup{w.lookup}); !strings.Contains(got, "cannot be pulled") {
		t.Errorf("the Subscription says %q, want what to check", got)
	}

	w.push(fstest.MapFS{"metadata/annotations.yaml": {Data: []byte("annotations: {}\n")}})
	w.until("it is no bundle", func(r unpack.Result) bool { return unpack.Condition(&r.Lookup, v1alpha1.BundleLookupFailed) != nil })
	w.expect(v1alpha1.BundleLookupFailed, "BackoffLimitExceeded", "Job has reached the specified backoff limit: reading the bundle: manifests: file does not exist")
	want := fmt.Sprintf("Bundle unpacking failed - BackoffLimitExceeded: Job has reached the specified backoff limit: reading the bundle: manifests: file does not exist. "+
		"It is tried again after about 5 min; to try sooner, create CatalogSource shop in namespace %s again", w.namespace)
	if got := w.Failure([]v1alpha1.BundleLookup{w.lookup}); got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
}
