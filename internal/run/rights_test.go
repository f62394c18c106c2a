package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/rbac"
	"github.com/mainstay-dev/mainstay/internal/render"
	"github.com/mainstay-dev/mainstay/internal/testing/audit"
	"github.com/mainstay-dev/mainstay/internal/testing/builder"
	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
	"github.com/mainstay-dev/mainstay/internal/testing/ociregistry"
)

const (
	catalogdAccount   = "catalogd-controller-manager"
	controllerAccount = "operator-controller-controller-manager"
	home              = "rights"
	installerAccount  = "installer"
)

// unusedRights are the granted permissions that the test does not use, each with the situation in which a server
// uses it.
var unusedRights = map[string]string{
	"catalogd-manager-role: get serviceaccounts":                                                     "it runs in a pod, and its account may name pull secrets",
	"catalogd-manager-role: create events.events.k8s.io":                                             "declarations of mirrors contradict each other",
	"catalogd-manager-role: patch events.events.k8s.io":                                              "they do so again",
	"catalogd-manager-role: update configmaps":                                                       "the certificate is renewed",
	"catalogd-manager-role: update secrets":                                                          "the certificate is renewed",
	"operator-controller-manager-role: patch events.events.k8s.io":                                   "a Secret is in the way of a certificate for longer than a minute",
	"operator-controller-manager-role: delete clusterextensionrevisions.olm.operatorframework.io":    "another implementation has installed an extension",
	"operator-controller-manager-role: list clusterextensionrevisions.olm.operatorframework.io":      "another implementation has installed an extension",
	"operator-controller-manager-role: patch clusterextensionrevisions.olm.operatorframework.io":     "another implementation has installed an extension",
	"operator-controller-manager-role: update clusterextensions/finalizers.olm.operatorframework.io": "the API server has the admission plugin OwnerReferencesPermissionEnforcement",
	"operator-controller-manager-role: update clusterobjectsets/finalizers.olm.operatorframework.io": "the API server has the admission plugin OwnerReferencesPermissionEnforcement",
}

// TestShippedRights runs catalogd and operator-controller with their installed roles and --require-service-account,
// through the life of extensions: installation, plan, update, webhooks, objects in Secrets, dependencies, drift and
// removal. The roles are sufficient, and do not grant permissions that are never used.
func TestShippedRights(t *testing.T) {
	s := newFixture(t)
	s.run("catalogd", catalogdAccount, "--catalogs-server-addr", s.catalogs, "--external-address", s.catalogs)
	s.run("operator-controller", controllerAccount, "--require-service-account")
	s.serveCatalog()
	s.checkPlan()
	s.installExtension("1.0.0")
	s.installExtension("1.2.0")
	s.installExtension("1.3.0")
	s.requireDriftCorrected()
	s.checkDependency()
	s.forgedService()
	s.removeExtension()

	bindings := slices.Concat(s.bindings("catalogd-manager-role", catalogdAccount), s.bindings("operator-controller-manager-role", controllerAccount))
	for _, right := range env.Requests(t).Unused(bindings) {
		if unusedRights[right.String()] == "" {
			t.Errorf("no server used the right %q: remove its marker, or name in unusedRights when it is used", right)
		}
	}
}

// bindings returns the ClusterRole and the Role with a name, bound to a service account.
func (s *fixture) bindings(role, account string) []audit.Binding {
	s.T.Helper()
	cluster, namespaced := &rbacv1.ClusterRole{}, &rbacv1.Role{}
	err := errors.Join(s.Get(s.T.Context(), client.ObjectKey{Name: role}, cluster),
		s.Get(s.T.Context(), client.ObjectKey{Namespace: action.DefaultSystemNamespace, Name: role}, namespaced))
	s.Must(err)

	accounts := []string{accountUser(account)}
	return []audit.Binding{{Role: role, Rules: cluster.Rules, Accounts: accounts}, {Role: role, Rules: namespaced.Rules, Accounts: accounts}}
}

// accountUser returns the user name of a service account of the installation.
func accountUser(account string) string {
	return "system:serviceaccount:" + action.DefaultSystemNamespace + ":" + account
}

// fixture is an API server with an installation of Mainstay whose components are not running, and a registry.
type fixture struct {
	*env.Fixture
	// catalogs is the address of catalogd, and repository is the repository of the images.
	catalogs, repository string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	scheme, err := action.Scheme()
	if err != nil {
		t.Fatal(err)
	}

	s := &fixture{Fixture: env.NewFixture(t, func(to *runtime.Scheme) error { *to = *scheme; return clientgoscheme.AddToScheme(to) })}
	installation := action.Installation{RequireServiceAccount: true}
	objects, err := installation.Manifests()
	if err != nil {
		t.Fatal(err)
	}

	for _, object := range objects {
		if object.GetKind() == "Deployment" {
			continue
		}
		if err := s.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(action.InstallFieldManager), client.ForceOwnership); err != nil {
			t.Fatal(err)
		}
	}

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	_, port, _ := net.SplitHostPort(listener.Addr().String())
	listener.Close()
	s.catalogs = "localhost:" + port
	s.repository = ociregistry.Start(t).Host + "/rights"

	return s
}

// run runs a server as a service account of the installation until the end of the test.
func (s *fixture) run(server, account string, args ...string) {
	s.T.Helper()
	cmd := NewCommand("test")
	cmd.SetArgs(append([]string{
		server, "--kubeconfig", env.WriteKubeconfig(s.T, env.ConnectAs(s.T, action.DefaultSystemNamespace, account)), "--leader-elect", "--cache-dir", s.T.TempDir(),
		"--health-probe-bind-address", "0", "--metrics-bind-address", "0",
	}, args...))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- cmd.ExecuteContext(ctx) }()
	s.T.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			s.T.Error(err)
		}
	})
}

// bundle returns an example bundle under another name or version. Version 1.3.0 has more objects than fit into a
// revision.
func (s *fixture) bundle(name, version string) fstest.MapFS {
	s.T.Helper()
	root, err := checkout.Root()
	s.Must(err)

	from := version
	if version == "1.3.0" {
		from = "1.2.0"
	}

	source, files := os.DirFS(filepath.Join(root, "examples", "bundles", "hello-operator", from)), fstest.MapFS{}
	rename := strings.NewReplacer("hello-operator", name+"-operator", "hello.example.com", name+".example.com", from, version)
	err = fs.WalkDir(source, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(source, path)
		files[rename.Replace(path)] = &fstest.MapFile{Data: []byte(rename.Replace(string(text)))}
		return err
	})
	s.Must(err)

	if version == "1.3.0" {
		for _, large := range []string{"one", "two"} {
			text := fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: large-%s}\ndata:\n  text: %s\n", large, bytes.Repeat([]byte("x"), 500<<10))
			files["manifests/large-"+large+".yaml"] = &fstest.MapFile{Data: []byte(text)}
		}
	}

	return files
}

// push pushes a bundle and returns the reference of the image.
func (s *fixture) push(name, version string) string {
	s.T.Helper()
	spec, err := image.BundleSpec(s.bundle(name, version), nil)
	s.Must(err)
	return s.pushImage(name+":"+version, spec)
}

func (s *fixture) pushImage(name string, spec image.Spec) string {
	s.T.Helper()
	ref := s.repository + "/" + name
	ociregistry.Push(s.T, ref, spec)
	return ref
}

// serveCatalog serves three versions of hello-operator, and an operator that depends on another one, and creates
// the account of the extensions with the least rights for hello-operator.
func (s *fixture) serveCatalog() {
	s.T.Helper()
	var text strings.Builder
	add := func(name string, properties string, versions ...string) {
		fmt.Fprintf(&text, `{"schema":"olm.package","name":"%[1]s-operator","defaultChannel":"stable"}`+"\n", name)
		var entries []string
		for i, version := range versions {
			entry := fmt.Sprintf(`{"name":"%s-operator.v%s"}`, name, version)
			if i > 0 {
				entry = fmt.Sprintf(`{"name":"%s-operator.v%s","replaces":"%s-operator.v%s"}`, name, version, name, versions[i-1])
			}
			entries = append(entries, entry)
			fmt.Fprintf(&text, `{"schema":"olm.bundle","package":"%[1]s-operator","name":"%[1]s-operator.v%[2]s","image":%[3]q,"properties":[`+
				`{"type":"olm.package","value":{"packageName":"%[1]s-operator","version":"%[2]s"}}%[4]s]}`+"\n", name, version, s.push(name, version), properties)
		}
		fmt.Fprintf(&text, `{"schema":"olm.channel","package":"%s-operator","name":"stable","entries":[%s]}`+"\n", name, strings.Join(entries, ","))
	}

	add("hello", "", "1.0.0", "1.2.0", "1.3.0")
	add("other", `,{"type":"olm.package.required","value":{"packageName":"third-operator","versionRange":">=1.0.0"}}`, "1.0.0")
	add("third", "", "1.0.0")
	catalog := &olmv1.ClusterCatalog{ObjectMeta: metav1.ObjectMeta{Name: home}}
	catalog.Spec.Source = olmv1.CatalogSource{Type: olmv1.SourceTypeImage, Image: &olmv1.ImageSource{
		Ref: s.pushImage("catalog:v1", image.CatalogSpec(fstest.MapFS{"catalog/catalog.json": {Data: []byte(text.String())}})),
	}}
	objects := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: home}}, catalog}

	var required []*rbac.Requirements
	for _, version := range []string{"1.0.0", "1.2.0", "1.3.0"} {
		b, err := bundle.Load(s.bundle("hello", version))
		s.Must(err)

		rendered, err := render.Render(b, render.Options{InstallNamespace: home})
		s.Must(err)

		required = append(required, rbac.Required(rendered, rbac.Options{Resource: rbac.BundleResource, Extension: "hello"}))
	}

	grants, err := rbac.Least(required...)
	s.Must(err)

	for _, object := range (rbac.Installer{Extension: "hello", Namespace: home, ServiceAccount: installerAccount}).Objects(grants) {
		objects = append(objects, object)
	}

	for _, object := range objects {
		s.Must(s.Create(s.T.Context(), object))
	}
}

func (s *fixture) extension(name string) *olmv1.ClusterExtension {
	extension := &olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: name}}
	extension.Spec.Namespace, extension.Spec.ServiceAccount = home, &olmv1.ServiceAccountReference{Name: installerAccount}
	extension.Spec.Source = olmv1.SourceConfig{SourceType: olmv1.ExtensionSourceTypeCatalog, Catalog: &olmv1.CatalogFilter{PackageName: name + "-operator"}}
	return extension
}

// checkPlan creates an extension that is only planned, changes its spec, and removes the plan annotation.
func (s *fixture) checkPlan() {
	s.T.Helper()
	extension := s.extension("hello")
	extension.Spec.Source.Catalog.Version = "1.0.0"
	extension.Annotations = map[string]string{olmv1.AnnotationPlan: olmv1.PlanOnly}
	s.Must(s.Create(s.T.Context(), extension))

	key := client.ObjectKey{Namespace: action.DefaultSystemNamespace, Name: olmv1.PlanName("hello")}
	planned := func(version string) {
		s.Eventually("a plan of "+version, func() error {
			plan := &corev1.ConfigMap{}
			if err := s.Get(s.T.Context(), key, plan); err != nil {
				return err
			}
			if !strings.Contains(plan.Data[olmv1.PlanText], "installation of hello-operator.v"+version) || strings.Contains(plan.Data[olmv1.PlanText], "forbidden") {
				return errors.New(plan.Data[olmv1.PlanText])
			}
			return nil
		})
	}

	planned("1.0.0")
	env.EditObject(s.Fixture, extension, func(e *olmv1.ClusterExtension) { e.Spec.Source.Catalog.Version = "1.2.0" })
	planned("1.2.0")
	env.EditObject(s.Fixture, extension, func(e *olmv1.ClusterExtension) { e.Spec.Source.Catalog.Version, e.Annotations = "1.0.0", nil })
	s.Eventually("the plan is deleted", func() error {
		if err := s.Get(s.T.Context(), key, &corev1.ConfigMap{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the plan still exists: %w", err)
		}
		return nil
	})
}

// installExtension installs a version, and acts as the Deployment controller for it.
func (s *fixture) installExtension(version string) {
	s.T.Helper()
	extension := s.extension("hello")
	env.EditObject(s.Fixture, extension, func(e *olmv1.ClusterExtension) { e.Spec.Source.Catalog.Version = version })
	s.Eventually(version+" is installed", func() error {
		deployment := &appsv1.Deployment{}
		if err := s.Get(s.T.Context(), client.ObjectKey{Namespace: home, Name: "hello-operator"}, deployment); err == nil {
			deployment.Status = builder.AvailableStatus(deployment)
			_ = s.Status().Update(s.T.Context(), deployment)
		}
		if err := s.Get(s.T.Context(), client.ObjectKeyFromObject(extension), extension); err != nil {
			return err
		}

		progressing := meta.FindStatusCondition(extension.Status.Conditions, olmv1.TypeProgressing)
		if extension.Status.Install == nil || extension.Status.Install.Bundle.Version != version || progressing.Reason != olmv1.ReasonSucceeded {
			return fmt.Errorf("%+v", extension.Status)
		}

		return nil
	})
}

// requireDriftCorrected deletes an object of the extension and waits until it is created again.
func (s *fixture) requireDriftCorrected() {
	s.T.Helper()
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "large-one"}}
	s.Must(s.Delete(s.T.Context(), config))
	s.Eventually("a deleted object is recreated", func() error { return s.Get(s.T.Context(), client.ObjectKeyFromObject(config), config) })
}

// checkDependency waits until operator-controller has created an extension, which the admission policy allows.
func (s *fixture) checkDependency() {
	s.T.Helper()
	extension := s.extension("other")
	extension.Spec.Install = &olmv1.ClusterExtensionInstallConfig{Dependencies: &olmv1.DependenciesConfig{Policy: olmv1.DependencyPolicyInstall}}
	s.Must(s.Create(s.T.Context(), extension))

	s.Eventually("an extension is created for the dependency", func() error {
		var list olmv1.ClusterExtensionList
		if err := s.List(s.T.Context(), &list); err != nil {
			return err
		}
		if !slices.ContainsFunc(list.Items, func(e olmv1.ClusterExtension) bool { return e.Spec.Source.Catalog.PackageName == "third-operator" }) {
			_ = s.Get(s.T.Context(), client.ObjectKeyFromObject(extension), extension)
			return fmt.Errorf("%+v", extension.Status.Conditions)
		}
		return nil
	})
}

// forgedService requests a certificate that operator-controller refuses to issue and reports in an Event.
func (s *fixture) forgedService() {
	s.T.Helper()
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: home, Name: "forged", Labels: map[string]string{olmv1.LabelOwnerKind: olmv1.ClusterExtensionKind, olmv1.LabelOwnerName: "hello"},
			Annotations: map[string]string{render.AnnotationServingCertificate: "chosen"},
		},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}},
	}
	s.Must(s.Create(s.T.Context(), service))

	s.Eventually("the refusal is reported", func() error {
		for request := range env.Requests(s.T) {
			if request.Account == accountUser(controllerAccount) && request.Verb == "create" && request.Resource == "events" && request.Group == "events.k8s.io" {
				return nil
			}
		}
		return errors.New("there is no Event")
	})
}

// removeExtension deletes all extensions, and waits until their objects in the system namespace are deleted.
func (s *fixture) removeExtension() {
	s.T.Helper()
	s.Must(s.DeleteAllOf(s.T.Context(), &olmv1.ClusterExtension{}))

	s.Eventually("all extensions are deleted", func() error {
		var extensions olmv1.ClusterExtensionList
		var sets olmv1.ClusterObjectSetList
		if err := errors.Join(s.List(s.T.Context(), &extensions), s.List(s.T.Context(), &sets)); err != nil {
			return err
		}
		if diff := cmp.Diff([]int{0, 0}, []int{len(extensions.Items), len(sets.Items)}); diff != "" {
			return fmt.Errorf("extensions and revisions (-want +got):\n%s%+v", diff, sets.Items)
		}

		return nil
	})

	catalog := &olmv1.ClusterCatalog{ObjectMeta: metav1.ObjectMeta{Name: home}}
	s.Must(s.Delete(s.T.Context(), catalog))

	s.Eventually("the catalog is deleted", func() error {
		if err := s.Get(s.T.Context(), client.ObjectKeyFromObject(catalog), catalog); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the catalog still exists: %w", err)
		}
		return nil
	})
}
