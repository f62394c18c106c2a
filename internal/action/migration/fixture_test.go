package migration_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	operatorsv2 "github.com/mainstay-dev/mainstay/api/operators/v2"
	"github.com/mainstay-dev/mainstay/internal/action/migration"
	"github.com/mainstay-dev/mainstay/internal/action/migration/plan"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/classic/catalogoperator"
	"github.com/mainstay-dev/mainstay/internal/classic/olmoperator"
	"github.com/mainstay-dev/mainstay/internal/extension/install"
	"github.com/mainstay-dev/mainstay/internal/extension/rollout"
	"github.com/mainstay-dev/mainstay/internal/extension/serving"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/testing/catalogserver"
	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

func TestMain(m *testing.M) { os.Exit(env.Run(m)) }

var kinds = []func(*runtime.Scheme) error{
	clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, apiregistrationv1.AddToScheme, batchv1.AddToScheme, networkingv1.AddToScheme,
	configv1.AddToScheme, v1alpha1.AddToScheme, operatorsv1.AddToScheme, operatorsv2.AddToScheme, olmv1.AddToScheme,
}

// fixture is an API server with the controllers of OLM Classic and of OLM v1, and an operator in a
// namespace of its own. It replaces the controllers of Deployments and the garbage collector.
type fixture struct {
	*env.Fixture
	// name distinguishes the operator, its package and its CRD from those of other tests.
	name, namespace string
	// versions are the files of the bundles, by version.
	versions map[string]fstest.MapFS
	content  *fbc.Content

	mu sync.Mutex
	// templates are the pod templates that the Deployments have had.
	templates map[string][]corev1.PodTemplateSpec
}

// newFixture starts all controllers and serves a catalog of an operator with versions of the sample
// operator, each an update of the one before it. edit changes the files of the bundles.
func newFixture(t *testing.T, name string, edit func(version, file, text string) string, versions ...string) *fixture {
	t.Helper()
	f := &fixture{Fixture: env.NewFixture(t, kinds...), name: name, versions: map[string]fstest.MapFS{}, templates: map[string][]corev1.PodTemplateSpec{}}
	f.namespace = f.NewNamespace(name + "-")
	for _, version := range versions {
		f.versions[version] = f.readBundle(version, edit)
	}

	catalog := f.writeCatalog(versions)
	address := catalogserver.ServeFolder(t, catalog)
	f.startSite()
	f.startManager("config/classic/olm-operator/role.yaml", olmoperator.ConfigureOptions, func(mgr ctrl.Manager) error {
		return olmoperator.Setup(mgr, olmoperator.Options{Namespace: "olm", Program: "v1.2.3"})
	})
	f.startManager("config/classic/catalog-operator/role.yaml", func(o *ctrl.Options) {
		o.Client.Cache = &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}}}
		catalogoperator.Tune(o)
	}, func(mgr ctrl.Manager) error {
		return catalogoperator.Setup(mgr, catalogoperator.Options{InstallPlanRetryTimeout: time.Minute})
	})
	f.startManager("", func(*ctrl.Options) {}, f.setupExtensions)
	f.createCatalogs(address)

	return f
}

// setupExtensions adds the controllers of OLM v1 to a manager.
func (f *fixture) setupExtensions(mgr ctrl.Manager) error {
	controller := &install.Controller{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Catalogs: f, Bundles: opener{f}, SystemNamespace: "default", Program: "test",
		ServedResources: discovery.NewDiscoveryClientForConfigOrDie(mgr.GetConfig()).ServerResourcesForGroupVersion,
	}
	return errors.Join(controller.SetupWithManager(mgr), rollout.Setup(mgr, rollout.Options{SystemNamespace: "default"}), serving.Setup(mgr, serving.Options{SystemNamespace: "default"}))
}

// startManager starts a program with the rights of a file of roles, or those of an administrator.
func (f *fixture) startManager(roles string, tune func(*ctrl.Options), setup func(ctrl.Manager) error) {
	f.T.Helper()
	options := ctrl.Options{GracefulShutdownTimeout: ptr.To(10 * time.Second)}
	tune(&options)
	f.StartManager(env.Manager{
		Roles: roles, Options: options, Setup: setup,
		Connect: func(connection *rest.Config) { connection.UserAgent = "mainstay/v1" }, // the field manager of the released program
	})
}

// readBundle returns the files of a version of the sample operator under the name of the fixture.
func (f *fixture) readBundle(version string, edit func(version, file, text string) string) fstest.MapFS {
	f.T.Helper()
	root, err := checkout.Root()
	f.Must(err)
	folder := os.DirFS(filepath.Join(root, "examples", "bundles", "hello-operator", version))
	files := fstest.MapFS{}
	f.Must(fs.WalkDir(folder, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(folder, path)
		if err != nil {
			return err
		}

		text := strings.NewReplacer("hello-operator", f.name, "hello.example.com", f.name+".example.com").Replace(string(data))
		if edit != nil {
			text = edit(version, path, text)
		}
		files[strings.ReplaceAll(path, "hello", f.name)] = &fstest.MapFile{Data: []byte(text)}
		return nil
	}))

	return files
}

// writeCatalog writes a file-based catalog with the manifests of all versions, and returns its folder.
func (f *fixture) writeCatalog(versions []string) string {
	f.T.Helper()
	var out bytes.Buffer
	fmt.Fprintf(&out, "schema: olm.package\nname: %[1]s\ndefaultChannel: stable\n---\nschema: olm.channel\npackage: %[1]s\nname: stable\nentries:\n", f.name)
	f.content = &fbc.Content{Package: &fbc.Package{Name: f.name, DefaultChannel: "stable"}, Channels: []fbc.Channel{{Package: f.name, Name: "stable"}}}
	replaces := ""
	for _, version := range versions {
		name := f.name + ".v" + version
		fmt.Fprintf(&out, "- name: %s\n", name)
		if replaces != "" {
			fmt.Fprintf(&out, "  replaces: %s\n", replaces)
		}
		f.content.Channels[0].Entries = append(f.content.Channels[0].Entries, fbc.ChannelEntry{Name: name, Replaces: replaces})
		f.content.Bundles = append(f.content.Bundles, newBundleBlob(f.name, version))
		replaces = name
	}

	for _, version := range versions {
		fmt.Fprintf(&out, "---\nschema: olm.bundle\npackage: %[1]s\nname: %[1]s.v%[2]s\nproperties:\n- type: olm.package\n  value: {packageName: %[1]s, version: %[2]s}\n", f.name, version)
		for path, file := range f.versions[version] {
			if !strings.HasPrefix(path, "manifests/") {
				continue
			}
			data, err := yaml.YAMLToJSON(file.Data)
			f.Must(err)
			fmt.Fprintf(&out, "- type: olm.bundle.object\n  value:\n    data: %s\n", base64.StdEncoding.EncodeToString(data))
		}
	}

	folder := f.T.TempDir()
	f.Must(os.WriteFile(filepath.Join(folder, "catalog.yaml"), out.Bytes(), 0o600))
	return folder
}

// publish adds a version to the ClusterCatalog, as an update of the last one. edit changes the files of
// the bundle.
func (f *fixture) publish(version string, edit func(version, file, text string) string) {
	f.T.Helper()
	versions := f.readBundle(version, edit)
	updated := &fbc.Content{Package: f.content.Package, Channels: slices.Clone(f.content.Channels), Bundles: slices.Clone(f.content.Bundles)}
	channel := &updated.Channels[0]
	channel.Entries = append(slices.Clone(channel.Entries), fbc.ChannelEntry{Name: f.name + ".v" + version, Replaces: channel.Entries[len(channel.Entries)-1].Name})
	updated.Bundles = append(updated.Bundles, newBundleBlob(f.name, version))
	f.mu.Lock()
	defer f.mu.Unlock()
	f.versions[version], f.content = versions, updated
}

func newBundleBlob(name, version string) fbc.Bundle {
	return fbc.Bundle{
		Package: name, Name: name + ".v" + version, Image: "quay.io/example/" + name + ":" + version,
		Properties: []fbc.Property{{Type: fbc.PropertyPackage, Value: fmt.Appendf(nil, `{"packageName":%q,"version":%q}`, name, version)}},
	}
}

func (f *fixture) currentContent() *fbc.Content {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.content
}

// createCatalogs creates the CatalogSource and the ClusterCatalog.
func (f *fixture) createCatalogs(address string) {
	f.T.Helper()
	source := &v1alpha1.CatalogSource{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "fruit"},
		Spec:       v1alpha1.CatalogSourceSpec{SourceType: v1alpha1.SourceTypeGrpc, Address: address},
	}
	f.create(source)
	catalog := &olmv1.ClusterCatalog{ObjectMeta: metav1.ObjectMeta{Name: f.namespace, Labels: map[string]string{olmv1.LabelMetadataName: f.namespace}}}
	catalog.Spec.Source = olmv1.CatalogSource{Type: olmv1.SourceTypeImage, Image: &olmv1.ImageSource{Ref: "quay.io/example/catalog:v1"}}
	f.create(catalog)
	before := catalog.DeepCopy()
	catalog.Status.URLs = &olmv1.ClusterCatalogURLs{Base: "https://catalogd/catalogs/" + f.namespace}
	catalog.Status.ResolvedSource = &olmv1.ResolvedCatalogSource{
		Type: olmv1.SourceTypeImage, Image: &olmv1.ResolvedImageSource{Ref: "quay.io/example/catalog@sha256:" + strings.Repeat("0", 64)},
	}
	meta.SetStatusCondition(&catalog.Status.Conditions, metav1.Condition{Type: olmv1.TypeServing, Status: metav1.ConditionTrue, Reason: olmv1.ReasonAvailable})
	f.Must(f.Status().Patch(f.T.Context(), catalog, client.MergeFrom(before)))
}

// Content implements install.CatalogReader.
func (f *fixture) Content(_ context.Context, _, packageName string) (*fbc.Content, error) {
	if packageName != f.name {
		return &fbc.Content{}, nil
	}
	return f.currentContent(), nil
}

// Bundles implements install.CatalogReader.
func (f *fixture) Bundles(context.Context, string) iter.Seq2[*fbc.Bundle, error] {
	return func(yield func(*fbc.Bundle, error) bool) {
		bundles := f.currentContent().Bundles
		for i := range bundles {
			if !yield(&bundles[i], nil) {
				return
			}
		}
	}
}

// Offers implements migration.Catalogs.
func (f *fixture) Offers(_ context.Context, packageName, bundleName string) ([]plan.Offer, error) {
	offer, ok := migration.FindOffer(f.currentContent(), bundleName)
	if !ok || packageName != f.name {
		return nil, nil
	}
	offer.Catalog = f.namespace
	return []plan.Offer{offer}, nil
}

// filesOf returns the files of a bundle image.
func (f *fixture) filesOf(image string) (fstest.MapFS, error) {
	image, _, _ = strings.Cut(image, "@")
	_, version, _ := strings.Cut(image, ":")
	f.mu.Lock()
	defer f.mu.Unlock()
	if files := f.versions[version]; files != nil {
		return files, nil
	}
	return nil, fmt.Errorf("there is no image %s", image)
}

// opener implements install.BundleOpener.
type opener struct{ f *fixture }

func (o opener) Open(_ context.Context, image string) (*install.BundleImage, error) {
	files, err := o.f.filesOf(image)
	if err != nil {
		return nil, err
	}
	read, err := bundle.ReadFiles(files)
	image, _, _ = strings.Cut(image, "@")
	return &install.BundleImage{Files: read, Canonical: image + "@sha256:" + strings.Repeat("1", 64)}, err
}

func (o opener) Keep(context.Context, []string) error { return nil }

// loader implements migration.Bundles.
type loader struct{ f *fixture }

func (l loader) Open(_ context.Context, image string) (*bundle.Bundle, error) {
	files, err := l.f.filesOf(image)
	if err != nil {
		return nil, err
	}
	return bundle.Load(files)
}

// create creates an object until the test ends. The deletion may fail then, because of a webhook that no longer responds.
func (f *fixture) create(object client.Object) {
	f.T.Helper()
	f.CreateAll(object)
	f.T.Cleanup(func() { _ = f.Delete(context.Background(), object) })
}

// get reads an object of the namespace, or of the cluster.
func get[T client.Object](f *fixture, object T, name string) T {
	f.T.Helper()
	f.Must(f.Get(f.T.Context(), f.keyOf(object, name), object))
	return object
}

func (f *fixture) keyOf(object client.Object, name string) client.ObjectKey {
	switch object.(type) {
	case *olmv1.ClusterExtension, *apiextensionsv1.CustomResourceDefinition:
		return client.ObjectKey{Name: name}
	}
	return client.ObjectKey{Namespace: f.namespace, Name: name}
}

func (f *fixture) exists(object client.Object, name string) bool {
	f.T.Helper()
	key := f.keyOf(object, name)
	return f.Find(object, key.Namespace, key.Name)
}

// installWithClassic creates an OperatorGroup and a Subscription, and waits until the operator works.
func (f *fixture) installWithClassic(targets []string, version string, edit ...func(*v1alpha1.Subscription)) {
	f.T.Helper()
	f.create(&operatorsv1.OperatorGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "group"}, Spec: operatorsv1.OperatorGroupSpec{TargetNamespaces: targets},
	})
	subscription := &v1alpha1.Subscription{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: f.name},
		Spec: v1alpha1.SubscriptionSpec{
			CatalogSource: "fruit", CatalogSourceNamespace: f.namespace, Package: f.name, Channel: "stable", StartingCSV: f.name + ".v" + version,
		},
	}
	for _, change := range edit {
		change(subscription)
	}
	f.create(subscription)
	if subscription.Spec.InstallPlanApproval == v1alpha1.ApprovalManual {
		f.approve(f.name + ".v" + version)
	}
	f.waitForClassic(version)
	f.create(f.newGreeting())
}

// approve waits for the InstallPlan of a CSV, and approves it.
func (f *fixture) approve(csv string) {
	f.T.Helper()
	f.Eventually("the InstallPlan of "+csv, func() error {
		var plans v1alpha1.InstallPlanList
		if err := f.List(f.T.Context(), &plans, client.InNamespace(f.namespace)); err != nil {
			return err
		}
		for i := range plans.Items {
			if p := &plans.Items[i]; slices.Contains(p.Spec.ClusterServiceVersionNames, csv) {
				before := p.DeepCopy()
				p.Spec.Approved = true
				return f.Patch(f.T.Context(), p, client.MergeFrom(before))
			}
		}
		return fmt.Errorf("got %d InstallPlans, none of them for it", len(plans.Items))
	})
}

// waitForClassic waits until OLM Classic reports that the operator works.
func (f *fixture) waitForClassic(version string) {
	f.T.Helper()
	f.Eventually("the operator works in OLM Classic", func() error {
		subscription, csv := &v1alpha1.Subscription{}, &v1alpha1.ClusterServiceVersion{}
		if err := f.Get(f.T.Context(), f.keyOf(subscription, f.name), subscription); err != nil {
			return err
		}
		if s := subscription.Status; s.InstalledCSV != f.name+".v"+version || s.State != v1alpha1.SubscriptionStateAtLatest && s.State != v1alpha1.SubscriptionStateUpgradePending {
			return fmt.Errorf("got the status %+v of the Subscription", s)
		}
		if err := f.Get(f.T.Context(), f.keyOf(csv, f.name+".v"+version), csv); err != nil {
			return err
		}
		if csv.Status.Phase != v1alpha1.CSVPhaseSucceeded {
			return fmt.Errorf("got phase %q of the CSV: %s", csv.Status.Phase, csv.Status.Message)
		}
		return f.checkPlansAreStill()
	})
}

// checkPlansAreStill returns an error if an InstallPlan is being executed. The operator may work before its plan is
// complete.
func (f *fixture) checkPlansAreStill() error {
	var plans v1alpha1.InstallPlanList
	if err := f.List(f.T.Context(), &plans, client.InNamespace(f.namespace)); err != nil {
		return err
	}
	for i := range plans.Items {
		switch p := &plans.Items[i]; p.Status.Phase {
		case v1alpha1.InstallPlanPhaseComplete, v1alpha1.InstallPlanPhaseRequiresApproval:
		default:
			return fmt.Errorf("InstallPlan %s: got phase %q", p.Name, p.Status.Phase)
		}
	}
	return nil
}

// newMigration returns the migration of the operator.
func (f *fixture) newMigration(options plan.Options) *migration.Migrate {
	return &migration.Migrate{Operation: f.newOperation(), Catalogs: f, Bundles: loader{f}, Options: options}
}

// uidOf returns the UID of an object. The test fails if the object is being deleted: nothing can undo that, so
// no earlier step has deleted an object that is not.
func (f *fixture) uidOf(object client.Object, name string) types.UID {
	f.T.Helper()
	f.Must(f.Get(f.T.Context(), f.keyOf(object, name), object))
	if at := object.GetDeletionTimestamp(); at != nil {
		f.T.Errorf("%T %s: got the deletion timestamp %s, want none", object, name, at)
	}
	return object.GetUID()
}
