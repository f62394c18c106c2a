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

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/extension/install"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// fixture is an API server with the controller, catalogs served from memory, and bundles read from
// the examples.
type fixture struct {
	*env.Fixture

	mu      sync.Mutex
	content map[string]*fbc.Content
	// contentErr is the error of every read of a catalog.
	contentErr error
	// others are the packages of catalogs in addition to hello-operator, and images bundles
	// in addition to the examples.
	others map[string]map[string]*fbc.Content
	images map[string]fs.FS
	// labels are the labels of images.
	labels map[string]map[string]string
	// kept are the references of each call of Keep, and keepErr is the
	// error that it returns.
	kept    [][]string
	keepErr error
}

func newFixture(t *testing.T, configure ...func(*install.Controller)) *fixture {
	w := newFixtureWithoutController(t)
	w.StartManager(env.Manager{
		Options: ctrl.Options{GracefulShutdownTimeout: ptr.To(env.WaitTimeout)}, // for the largest bundles on a busy machine
		Setup: func(mgr ctrl.Manager) error {
			controller := w.newController(mgr)
			for _, change := range configure {
				change(controller)
			}
			return controller.SetupWithManager(mgr)
		},
	})
	return w
}

// newFixtureWithoutController returns a fixture without a running manager.
func newFixtureWithoutController(t *testing.T) *fixture {
	w := &fixture{Fixture: env.NewFixture(t, olmv1.AddToScheme, corev1.AddToScheme, apiextensionsv1.AddToScheme), content: map[string]*fbc.Content{},
		others: map[string]map[string]*fbc.Content{}, images: map[string]fs.FS{}, labels: map[string]map[string]string{}}
	w.cleanUp()
	return w
}

// cleanUp deletes the remaining objects of earlier tests: extensions, revisions, and the one CRD that all of them
// have.
func (w *fixture) cleanUp() {
	w.T.Helper()
	w.Eventually("the objects of earlier tests are deleted", func() error {
		var extensions olmv1.ClusterExtensionList
		var sets olmv1.ClusterObjectSetList
		if err := errors.Join(w.List(w.T.Context(), &extensions), w.List(w.T.Context(), &sets)); err != nil {
			return err
		}

		var left []client.Object
		for i := range extensions.Items {
			left = append(left, &extensions.Items[i])
		}

		for i := range sets.Items {
			left = append(left, &sets.Items[i])
		}

		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := w.Get(w.T.Context(), client.ObjectKey{Name: greetings}, crd); err == nil {
			left = append(left, crd)
		} else if !apierrors.IsNotFound(err) {
			return err
		}

		for _, object := range left {
			if err := w.Delete(w.T.Context(), object); client.IgnoreNotFound(err) != nil {
				return err
			}
			if object != client.Object(crd) {
				if err := w.Patch(w.T.Context(), object, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))); client.IgnoreNotFound(err) != nil {
					return err
				}
			}
		}

		if len(left) > 0 {
			return fmt.Errorf("%d objects still exist, %s among them", len(left), left[0].GetName())
		}

		return nil
	})
}

// newController returns the controller under test, with the catalogs and bundles of the fixture.
func (w *fixture) newController(mgr ctrl.Manager) *install.Controller {
	return &install.Controller{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Catalogs: w, Bundles: w, SystemNamespace: "default", Program: "test",
		ServedResources: discovery.NewDiscoveryClientForConfigOrDie(mgr.GetConfig()).ServerResourcesForGroupVersion,
	}
}

// useSubtest makes failures and cleanups belong to a subtest, until it ends.
func (w *fixture) useSubtest(t *testing.T) {
	outer := w.T
	w.T = t
	t.Cleanup(func() { w.T = outer })
}

// Content implements install.CatalogReader.
func (w *fixture) Content(_ context.Context, baseURL, packageName string) (*fbc.Content, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.contentErr != nil {
		return nil, w.contentErr
	}
	if packageName != "hello-operator" {
		if content := w.others[baseURL][packageName]; content != nil {
			return content, nil
		}
		return &fbc.Content{}, nil
	}

	return w.content[baseURL], nil
}

// Open returns the example bundles. Images that it returned before can be opened by digest.
func (w *fixture) Open(ctx context.Context, image string) (*install.BundleImage, error) {
	image, _, _ = strings.Cut(image, "@")
	found, err := w.filesOfImage(ctx, image)
	if err != nil {
		return nil, err
	}
	opened, err := openBundle(found, image)
	if err != nil {
		return nil, err
	}

	w.mu.Lock()
	defer w.mu.Unlock()
	opened.Labels = w.labels[image]
	return opened, nil
}

// openBundle returns the image that holds the files of a bundle.
func openBundle(found fs.FS, image string) (*install.BundleImage, error) {
	read, err := bundle.ReadFiles(found)
	return &install.BundleImage{Files: read, Canonical: image + digest}, err
}

// filesOfImage returns the files of the images in the simulated registries.
func (w *fixture) filesOfImage(ctx context.Context, image string) (fs.FS, error) {
	w.mu.Lock()
	made := w.images[image]
	w.mu.Unlock()
	if made != nil {
		return made, nil
	}

	_, version, _ := strings.Cut(image, ":")
	switch version {
	case "unreachable":
		return nil, errors.New("registry quay.io does not answer")
	case "silent":
		<-ctx.Done()
		return nil, ctx.Err()
	case "broken":
		return fstest.MapFS{"metadata/annotations.yaml": {Data: []byte("annotations: {}")}}, nil
	}

	root, err := checkout.Root()
	if err != nil {
		return nil, err
	}

	return os.DirFS(filepath.Join(root, "examples", "bundles", "hello-operator", version)), nil
}

// Keep records the images in use, and fails if the test
// configures an error.
func (w *fixture) Keep(_ context.Context, inUse []string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept = append(w.kept, inUse)
	return w.keepErr
}

func (w *fixture) createCatalog(name string, versions ...string) *olmv1.ClusterCatalog {
	w.T.Helper()
	catalog := &olmv1.ClusterCatalog{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"test": name}}}
	catalog.Spec.Source = olmv1.CatalogSource{Type: olmv1.SourceTypeImage, Image: &olmv1.ImageSource{Ref: "quay.io/example/catalog:v1"}}
	w.CreateForTest(catalog)
	w.setCatalogVersions(catalog, versions...)
	return catalog
}

// setCatalogVersions sets the versions in a catalog, each an update of the previous one.
func (w *fixture) setCatalogVersions(catalog *olmv1.ClusterCatalog, versions ...string) {
	w.T.Helper()
	base := "https://catalogd/catalogs/" + catalog.Name
	content := &fbc.Content{}
	if len(versions) > 0 {
		channel := fbc.Channel{Package: "hello-operator", Name: "stable"}
		replaces := ""
		for _, version := range versions {
			name := "hello-operator.v" + version
			declared, registry := version, "quay.io"
			if version == "silent" {
				registry = "silent.example"
			}
			if version == "broken" || version == "unreachable" || version == "silent" {
				declared = "0.0.1"
			}

			channel.Entries = append(channel.Entries, fbc.ChannelEntry{Name: name, Replaces: replaces})
			content.Bundles = append(content.Bundles, fbc.Bundle{
				Package: "hello-operator", Name: name, Image: registry + "/example/hello:" + version,
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
	w.Must(w.Status().Patch(w.T.Context(), catalog, client.MergeFrom(before)))
}

// labelCatalog labels a catalog, so that extensions select it.
func (w *fixture) labelCatalog(name, value string) {
	w.T.Helper()
	catalog := w.getCatalog(name)
	w.PatchObject(catalog, func() { catalog.Labels["test"] = value })
}

// markSucceeded simulates the rollout of a revision.
func (w *fixture) markSucceeded(set *olmv1.ClusterObjectSet) {
	w.T.Helper()
	before := set.DeepCopy()
	for _, c := range []metav1.Condition{
		{Type: olmv1.TypeProgressing, Status: metav1.ConditionTrue, Reason: olmv1.ReasonSucceeded},
		{Type: olmv1.TypeAvailable, Status: metav1.ConditionTrue, Reason: olmv1.ReasonProbesSucceeded, Message: "all objects are ready"},
		{Type: olmv1.TypeSucceeded, Status: metav1.ConditionTrue, Reason: olmv1.ReasonSucceeded},
	} {
		meta.SetStatusCondition(&set.Status.Conditions, c)
	}

	w.Must(w.Status().Patch(w.T.Context(), set, client.MergeFrom(before)))
}

// removeFinalizers simulates the removal of the revisions of an extension that are being deleted.
func (w *fixture) removeFinalizers(name string) {
	w.T.Helper()
	var sets olmv1.ClusterObjectSetList
	w.Must(w.List(w.T.Context(), &sets, client.MatchingLabels{olmv1.LabelOwnerName: name}))

	for i := range sets.Items {
		set := &sets.Items[i]
		if set.DeletionTimestamp == nil {
			continue
		}
		if err := w.Patch(w.T.Context(), set, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))); client.IgnoreNotFound(err) != nil {
			w.T.Fatal(err)
		}
	}
}

func (w *fixture) createNamespace(name string) {
	w.T.Helper()
	w.CreateForTest(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

func (w *fixture) delete(object client.Object) {
	w.T.Helper()
	w.Must(w.Delete(w.T.Context(), object))
}

func (w *fixture) getExtension(name string) *olmv1.ClusterExtension {
	w.T.Helper()
	ext := &olmv1.ClusterExtension{}
	w.Must(w.Get(w.T.Context(), client.ObjectKey{Name: name}, ext))
	return ext
}

func (w *fixture) getCatalog(name string) *olmv1.ClusterCatalog {
	w.T.Helper()
	catalog := &olmv1.ClusterCatalog{}
	w.Must(w.Get(w.T.Context(), client.ObjectKey{Name: name}, catalog))
	return catalog
}

// waitForRevision waits until a revision exists.
func (w *fixture) waitForRevision(name string) *olmv1.ClusterObjectSet {
	w.T.Helper()
	set := &olmv1.ClusterObjectSet{}
	w.Eventually("revision "+name+" exists", func() error {
		return w.Get(w.T.Context(), client.ObjectKey{Name: name}, set)
	})
	return set
}

// expectCondition waits until a condition has the wanted status, reason and message, or start of
// the message.
func (w *fixture) expectCondition(name, conditionType, want string) {
	w.T.Helper()
	w.Eventually(conditionType+" of "+name+" is "+want, func() error {
		got := "absent"
		if c := meta.FindStatusCondition(w.getExtension(name).Status.Conditions, conditionType); c != nil {
			got = fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message)
		}
		if !strings.HasPrefix(got, want) {
			return fmt.Errorf("got %s", got)
		}
		return nil
	})
}

func newExtension(name, namespace string) *olmv1.ClusterExtension {
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
