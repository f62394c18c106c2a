package install_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/extension/install"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

func TestMain(m *testing.M) { os.Exit(env.Run(m)) }

const digest = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// TestJourney walks an extension from nothing to an update and to its removal. The
// roll-out is played: the revisions' own controller is tested in its own package.
func TestJourney(t *testing.T) {
	w := newWorld(t)
	w.namespace("journey")
	catalog := w.catalog("journey", "1.0.0")
	w.create(extension("journey", "journey"))

	set := w.revision("journey-1")
	w.expect("journey", olmv1.TypeProgressing, "True RollingOut revision journey-1 is about to be rolled out")
	w.expect("journey", olmv1.TypeInstalled, "False Failed No bundle installed")
	if got := set.Annotations[olmv1.AnnotationBundleReference]; got != "quay.io/example/hello:1.0.0"+digest {
		t.Errorf("the revision names the bundle %q", got)
	}
	want := []string{"identity", "crds", "roles", "bindings", "infrastructure", "deploy"}
	var got []string
	for _, phase := range set.Spec.Phases {
		got = append(got, phase.Name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("phases (-want +got):\n%s", diff)
	}

	w.succeed(set)
	w.expect("journey", olmv1.TypeProgressing, "True Succeeded desired state reached")
	w.expect("journey", olmv1.TypeInstalled, "True Succeeded Installed bundle quay.io/example/hello:1.0.0"+digest+" successfully")
	w.expect("journey", olmv1.TypeAvailable, "True ProbesSucceeded all objects are ready")
	w.expect("journey", olmv1.TypeDeprecated, "False Deprecated ")
	ext := w.get("journey")
	if diff := cmp.Diff([]string{olmv1.FinalizerCleanupUnpackCache, olmv1.FinalizerCleanupContentManagerCache}, ext.Finalizers); diff != "" {
		t.Errorf("finalizers (-want +got):\n%s", diff)
	}
	var order []string
	for _, c := range ext.Status.Conditions {
		order = append(order, c.Type)
	}
	wantOrder := []string{"Deprecated", "PackageDeprecated", "ChannelDeprecated", "BundleDeprecated", "Installed", "Progressing", "Available"}
	if diff := cmp.Diff(wantOrder, order); diff != "" {
		t.Errorf("order of the conditions (-want +got):\n%s", diff)
	}

	// The catalog offers an update.
	w.offer(catalog, "1.0.0", "1.1.0")
	second := w.revision("journey-2")
	w.eventually("two revisions are active", func() error {
		if n := len(w.get("journey").Status.ActiveRevisions); n != 2 {
			return fmt.Errorf("%d revisions are active", n)
		}
		return nil
	})
	if bundle := w.get("journey").Status.Install.Bundle; bundle.Version != "1.0.0" {
		t.Errorf("version %s counts as installed before its roll-out is complete", bundle.Version)
	}
	w.succeed(second)
	w.eventually("the first revision is archived", func() error {
		if state := w.revision("journey-1").Spec.LifecycleState; state != olmv1.LifecycleStateArchived {
			return fmt.Errorf("it is %s", state)
		}
		return nil
	})
	w.expect("journey", olmv1.TypeInstalled, "True Succeeded Installed bundle quay.io/example/hello:1.1.0"+digest+" successfully")

	// A version that does not exist changes nothing.
	ext = w.get("journey")
	w.change(ext, func() { ext.Spec.Source.Catalog.Version = "9.x" })
	w.expect("journey", olmv1.TypeProgressing, `True Retrying error upgrading from currently installed version "1.1.0": `+
		`no bundles found for package "hello-operator" matching version "9.x"`)
	ext = w.get("journey")
	installed := meta.FindStatusCondition(ext.Status.Conditions, olmv1.TypeInstalled)
	deprecated := meta.FindStatusCondition(ext.Status.Conditions, olmv1.TypeDeprecated)
	if installed.Status != metav1.ConditionTrue || installed.ObservedGeneration != ext.Generation || ext.Status.Install.Bundle.Version != "1.1.0" {
		t.Errorf("a failed request changed what is installed: %+v", installed)
	}
	if deprecated.ObservedGeneration == ext.Generation {
		t.Error("the deprecation conditions were observed at a generation that was not resolved")
	}

	w.delete(ext)
	w.eventually("the extension is gone", func() error {
		err := w.c.Get(t.Context(), client.ObjectKeyFromObject(ext), ext)
		if err == nil {
			return errors.New("it is there")
		}
		return client.IgnoreNotFound(err)
	})
}

// TestBadInput tells of each cause in the right condition, and goes on by itself
// when the cause is gone.
func TestBadInput(t *testing.T) {
	w := newWorld(t)
	w.namespace("bad")
	cases := []struct {
		name    string
		catalog func(name string)
		change  func(*olmv1.ClusterExtension)
		want    string
		mend    func(name string)
	}{
		{
			name:   "no-namespace",
			change: func(e *olmv1.ClusterExtension) { e.Spec.Namespace = "absent" },
			want:   `True Retrying namespace "absent" does not exist: create it, the extension's namespaced objects go there`,
			mend:   func(string) { w.namespace("absent") },
		},
		{
			name: "no-account",
			change: func(e *olmv1.ClusterExtension) {
				e.Spec.ServiceAccount = &olmv1.ServiceAccountReference{Name: "installer"}
			},
			want: `True Retrying installation cannot proceed due to missing ServiceAccount: create ServiceAccount "installer" in namespace "bad"`,
			mend: func(string) {
				w.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "installer", Namespace: "bad"}})
			},
		},
		{
			name:    "no-package",
			catalog: func(name string) { w.catalog(name) },
			want:    `True Retrying no bundles found for package "hello-operator"`,
			mend:    func(name string) { w.offer(w.getCatalog(name), "1.0.0") },
		},
		{
			name:    "no-catalog",
			catalog: func(string) {},
			want:    `True Retrying no bundles found for package "hello-operator"`,
			mend:    func(name string) { w.catalog(name, "1.0.0") },
		},
		{
			name: "ambiguous",
			catalog: func(name string) {
				w.catalog(name, "1.0.0")
				w.catalog(name+"-two", "1.0.0")
				w.label(name+"-two", name)
			},
			want: `True Retrying found bundles for package "hello-operator" in multiple catalogs with the same priority [ambiguous ambiguous-two]`,
			mend: func(name string) {
				catalog := w.getCatalog(name)
				w.change(catalog, func() { catalog.Spec.Priority = 10 })
			},
		},
		{
			name:    "no-csv",
			catalog: func(name string) { w.catalog(name, "broken") },
			want:    "False Blocked",
			mend:    func(name string) { w.offer(w.getCatalog(name), "1.0.0") },
		},
		{
			name:    "unreachable-registry",
			catalog: func(name string) { w.catalog(name, "unreachable") },
			want:    `True Retrying bundle "hello-operator.vunreachable": registry quay.io does not answer`,
			mend:    func(name string) { w.offer(w.getCatalog(name), "1.0.0") },
		},
		{
			name: "bad-configuration",
			change: func(e *olmv1.ClusterExtension) {
				e.Annotations = map[string]string{olmv1.AnnotationWatchNamespace: "Not_A_Name"}
			},
			want: "False InvalidConfiguration",
			mend: func(name string) {
				ext := w.get(name)
				w.change(ext, func() { ext.Annotations = nil })
			},
		},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			w.in(t)
			ext := extension(tc.name, "bad")
			if tc.change != nil {
				tc.change(ext)
			}
			if tc.catalog == nil {
				w.catalog(tc.name, "1.0.0")
			} else {
				tc.catalog(tc.name)
			}
			w.create(ext)
			w.expect(tc.name, olmv1.TypeProgressing, tc.want)
			tc.mend(tc.name)
			w.revision(tc.name + "-1")
		})
	}
}

// world is an API server with the controller on it, catalogs that are served from
// memory, and bundles that are read from the examples.
type world struct {
	t *testing.T
	c client.Client

	mu      sync.Mutex
	content map[string]*fbc.Content
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, c: env.Client(t, olmv1.AddToScheme, corev1.AddToScheme), content: map[string]*fbc.Content{}}
	skip := true
	mgr, err := ctrl.NewManager(env.Start(t), ctrl.Options{
		Scheme:     env.Scheme(t, olmv1.AddToScheme, corev1.AddToScheme),
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: &skip},
	})
	if err != nil {
		t.Fatal(err)
	}
	controller := &install.Controller{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Catalogs: w, Bundles: w, SystemNamespace: "default", Program: "test",
	}
	if err := controller.SetupWithManager(mgr); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return w
}

// in makes a subtest the one that fails and cleans up, until it ends.
func (w *world) in(t *testing.T) {
	outer := w.t
	w.t = t
	t.Cleanup(func() { w.t = outer })
}

// Content is the played catalog.
func (w *world) Content(_ context.Context, baseURL, packageName string) (*fbc.Content, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if packageName != "hello-operator" {
		return &fbc.Content{}, nil
	}
	return w.content[baseURL], nil
}

// Open gives the example bundles.
func (w *world) Open(_ context.Context, image string) (fs.FS, string, error) {
	_, version, _ := strings.Cut(image, ":")
	switch version {
	case "unreachable":
		return nil, "", errors.New("registry quay.io does not answer")
	case "broken":
		return fstest.MapFS{"metadata/annotations.yaml": {Data: []byte("annotations: {}")}}, image + digest, nil
	}
	root, err := env.Root()
	if err != nil {
		return nil, "", err
	}
	return os.DirFS(filepath.Join(root, "examples", "bundles", "hello-operator", version)), image + digest, nil
}

func (w *world) Keep(context.Context, []string) error { return nil }

func (w *world) catalog(name string, versions ...string) *olmv1.ClusterCatalog {
	w.t.Helper()
	catalog := &olmv1.ClusterCatalog{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"test": name}}}
	catalog.Spec.Source = olmv1.CatalogSource{Type: olmv1.SourceTypeImage, Image: &olmv1.ImageSource{Ref: "quay.io/example/catalog:v1"}}
	w.create(catalog)
	w.offer(catalog, versions...)
	return catalog
}

// offer sets the versions in a catalog, each an update of the one before.
func (w *world) offer(catalog *olmv1.ClusterCatalog, versions ...string) {
	w.t.Helper()
	base := "https://catalogd/catalogs/" + catalog.Name
	content := &fbc.Content{}
	if len(versions) > 0 {
		channel := fbc.Channel{Package: "hello-operator", Name: "stable"}
		replaces := ""
		for _, version := range versions {
			name := "hello-operator.v" + version
			declared := version
			if version == "broken" || version == "unreachable" {
				declared = "0.0.1"
			}
			channel.Entries = append(channel.Entries, fbc.ChannelEntry{Name: name, Replaces: replaces})
			content.Bundles = append(content.Bundles, fbc.Bundle{
				Package: "hello-operator", Name: name, Image: "quay.io/example/hello:" + version,
				Properties: []fbc.Property{{Type: fbc.PropertyPackage, Value: fmt.Appendf(nil, `{"packageName":"hello-operator","version":%q}`, declared)}},
			})
			replaces = name
		}
		content.Package = &fbc.Package{Name: "hello-operator", DefaultChannel: "stable"}
		content.Channels = []fbc.Channel{channel}
	}
	w.mu.Lock()
	w.content[base] = content
	w.mu.Unlock()
	before := catalog.DeepCopy()
	catalog.Status.URLs = &olmv1.ClusterCatalogURLs{Base: base}
	catalog.Status.ResolvedSource = &olmv1.ResolvedCatalogSource{
		Type: olmv1.SourceTypeImage, Image: &olmv1.ResolvedImageSource{Ref: fmt.Sprintf("quay.io/example/catalog@sha256:%064x", len(versions)+1+time.Now().Nanosecond())},
	}
	meta.SetStatusCondition(&catalog.Status.Conditions, metav1.Condition{Type: olmv1.TypeServing, Status: metav1.ConditionTrue, Reason: olmv1.ReasonAvailable})
	if err := w.c.Status().Patch(w.t.Context(), catalog, client.MergeFrom(before)); err != nil {
		w.t.Fatal(err)
	}
}

// label puts a catalog among those that an extension selects.
func (w *world) label(name, value string) {
	w.t.Helper()
	catalog := w.getCatalog(name)
	w.change(catalog, func() { catalog.Labels["test"] = value })
}

// succeed plays the roll-out of a revision.
func (w *world) succeed(set *olmv1.ClusterObjectSet) {
	w.t.Helper()
	before := set.DeepCopy()
	for _, c := range []metav1.Condition{
		{Type: olmv1.TypeProgressing, Status: metav1.ConditionTrue, Reason: olmv1.ReasonSucceeded},
		{Type: olmv1.TypeAvailable, Status: metav1.ConditionTrue, Reason: olmv1.ReasonProbesSucceeded, Message: "all objects are ready"},
		{Type: olmv1.TypeSucceeded, Status: metav1.ConditionTrue, Reason: olmv1.ReasonSucceeded},
	} {
		meta.SetStatusCondition(&set.Status.Conditions, c)
	}
	if err := w.c.Status().Patch(w.t.Context(), set, client.MergeFrom(before)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) namespace(name string) {
	w.t.Helper()
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

func (w *world) create(object client.Object) {
	w.t.Helper()
	if err := w.c.Create(w.t.Context(), object); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := client.IgnoreNotFound(w.c.Delete(context.Background(), object)); err != nil {
			w.t.Error(err)
		}
	})
}

// change writes an edit of an object, whatever the controller wrote since it was read.
func (w *world) change(object client.Object, edit func()) {
	w.t.Helper()
	before := object.DeepCopyObject().(client.Object)
	edit()
	if err := w.c.Patch(w.t.Context(), object, client.MergeFrom(before)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) delete(object client.Object) {
	w.t.Helper()
	if err := w.c.Delete(w.t.Context(), object); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) get(name string) *olmv1.ClusterExtension {
	w.t.Helper()
	ext := &olmv1.ClusterExtension{}
	if err := w.c.Get(w.t.Context(), client.ObjectKey{Name: name}, ext); err != nil {
		w.t.Fatal(err)
	}
	return ext
}

func (w *world) getCatalog(name string) *olmv1.ClusterCatalog {
	w.t.Helper()
	catalog := &olmv1.ClusterCatalog{}
	if err := w.c.Get(w.t.Context(), client.ObjectKey{Name: name}, catalog); err != nil {
		w.t.Fatal(err)
	}
	return catalog
}

// revision waits for a revision.
func (w *world) revision(name string) *olmv1.ClusterObjectSet {
	w.t.Helper()
	set := &olmv1.ClusterObjectSet{}
	w.eventually("revision "+name+" exists", func() error {
		return w.c.Get(w.t.Context(), client.ObjectKey{Name: name}, set)
	})
	return set
}

// expect waits until a condition reads as wanted: its status, reason and message, or
// the start of them.
func (w *world) expect(name, conditionType, want string) {
	w.t.Helper()
	w.eventually(conditionType+" of "+name+" is "+want, func() error {
		got := "absent"
		if c := meta.FindStatusCondition(w.get(name).Status.Conditions, conditionType); c != nil {
			got = fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message)
		}
		if !strings.HasPrefix(got, want) {
			return fmt.Errorf("it is %s", got)
		}
		return nil
	})
}

func (w *world) eventually(what string, check func() error) {
	w.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("%s: %v", what, err)
		}
		select {
		case <-w.t.Context().Done():
			w.t.Fatalf("%s: %v", what, w.t.Context().Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func extension(name, namespace string) *olmv1.ClusterExtension {
	ext := &olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: name}}
	ext.Spec.Namespace = namespace
	ext.Spec.Source = olmv1.SourceConfig{
		SourceType: olmv1.ExtensionSourceTypeCatalog,
		Catalog: &olmv1.CatalogFilter{
			PackageName: "hello-operator",
			Selector:    &metav1.LabelSelector{MatchLabels: map[string]string{"test": name}},
		},
	}
	return ext
}
