package cli_test

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	operatorsv1alpha1 "github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/testing/builder"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// fixture is a test with an API server. Its methods act as the controllers.
type fixture struct{ *env.Fixture }

func newFixture(t *testing.T) *fixture {
	t.Helper()
	kubeconfig(t, env.Start(t))
	return &fixture{env.NewFixture(t, olmv1.AddToScheme, corev1.AddToScheme, appsv1.AddToScheme, apiextensionsv1.AddToScheme, operatorsv1alpha1.AddToScheme)}
}

// updateStatus reads an object, edits it and updates its status.
func updateStatus[T client.Object](c *fixture, name string, obj T, edit func(T)) {
	c.T.Helper()
	c.Must(c.Get(c.T.Context(), client.ObjectKey{Name: name, Namespace: obj.GetNamespace()}, obj))
	edit(obj)
	c.Must(c.Status().Update(c.T.Context(), obj))
}

// longAgo is a time whose age does not change while the test runs.
var longAgo = metav1.NewTime(time.Now().Add(-100 * 24 * time.Hour))

func condition(conditionType, status, reason, message string, generation int64) metav1.Condition {
	return metav1.Condition{
		Type: conditionType, Status: metav1.ConditionStatus(status), Reason: reason, Message: message,
		ObservedGeneration: generation, LastTransitionTime: longAgo,
	}
}

func (c *fixture) setCatalogConditions(name string, conditions ...metav1.Condition) {
	c.T.Helper()
	updateStatus(c, name, &olmv1.ClusterCatalog{}, func(catalog *olmv1.ClusterCatalog) {
		catalog.Status.Conditions = conditions
		for i := range conditions {
			conditions[i].ObservedGeneration = catalog.Generation
			if conditions[i].Type != olmv1.TypeServing || conditions[i].Status != metav1.ConditionTrue {
				continue
			}
			catalog.Status.LastUnpacked = &longAgo
			catalog.Status.ResolvedSource = &olmv1.ResolvedCatalogSource{Type: olmv1.SourceTypeImage, Image: &olmv1.ResolvedImageSource{
				Ref: "registry.example.com/catalog@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
			}}
		}
	})
}

func (c *fixture) setExtensionStatus(name, installed string, conditions ...metav1.Condition) {
	c.T.Helper()
	updateStatus(c, name, &olmv1.ClusterExtension{}, func(e *olmv1.ClusterExtension) {
		e.Status.Conditions = conditions
		for i := range conditions {
			conditions[i].ObservedGeneration = e.Generation
		}
		if installed != "" {
			e.Status.Install = &olmv1.ClusterExtensionInstallStatus{Bundle: olmv1.BundleMetadata{Name: name + ".v" + installed, Version: installed}}
		}
	})
}

// object returns a manifest.
func object(apiVersion, kind, namespace, name string, fields map[string]any) olmv1.ClusterObjectSetObject {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	for key, value := range fields {
		u.Object[key] = value
	}

	u.SetAPIVersion(apiVersion)
	u.SetKind(kind)
	u.SetNamespace(namespace)
	u.SetName(name)

	return olmv1.ClusterObjectSetObject{Object: u}
}

// createRevision creates a revision of the extension kettle, with three phases.
func (c *fixture) createRevision(number int64, version string) {
	c.T.Helper()
	name := "kettle-" + string(rune('0'+number))
	labels := map[string]any{"app": "kettle"}
	pod := map[string]any{
		"metadata": map[string]any{"labels": labels},
		"spec":     map[string]any{"containers": []any{map[string]any{"name": "kettle", "image": "registry.example.com/kettle:v" + version}}},
	}
	set := &olmv1.ClusterObjectSet{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Labels:      map[string]string{olmv1.LabelOwnerKind: olmv1.ClusterExtensionKind, olmv1.LabelOwnerName: "kettle"},
			Annotations: map[string]string{olmv1.AnnotationBundleName: "kettle.v" + version, olmv1.AnnotationBundleVersion: version},
		},
		Spec: olmv1.ClusterObjectSetSpec{
			LifecycleState: olmv1.LifecycleStateActive, Revision: number,
			Phases: []olmv1.ClusterObjectSetPhase{
				{Name: "configuration", Objects: []olmv1.ClusterObjectSetObject{
					object("v1", "ConfigMap", "kitchen", "water", nil), object("v1", "ConfigMap", "kitchen", "tea", nil),
				}},
				{Name: "deploy", Objects: []olmv1.ClusterObjectSetObject{
					object("apps/v1", "Deployment", "kitchen", "kettle", map[string]any{
						"spec": map[string]any{"selector": map[string]any{"matchLabels": labels}, "template": pod},
					}),
				}},
				{Name: "publish", Objects: []olmv1.ClusterObjectSetObject{
					object("monitoring.example.com/v1", "Gauge", "kitchen", "heat", nil),
				}},
			},
		},
	}
	if number == 2 {
		c.moveObjectsToSecret(set)
	}

	c.Must(c.Create(c.T.Context(), set))
}

// moveObjectsToSecret moves the objects of the first phase into a Secret, and omits the second.
func (c *fixture) moveObjectsToSecret(set *olmv1.ClusterObjectSet) {
	c.T.Helper()
	first := set.Spec.Phases[0].Objects
	data, err := first[0].Object.MarshalJSON()
	c.Must(err)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kitchen", Name: set.Name},
		Type:       olmv1.SecretTypeObjectData, Data: map[string][]byte{"there": data},
	}
	c.Must(c.Create(c.T.Context(), secret))
	for i, key := range []string{"there", "missing"} {
		first[i] = olmv1.ClusterObjectSetObject{Ref: &olmv1.ObjectSourceRef{Namespace: "kitchen", Name: set.Name, Key: key}}
	}
}

// applyPhase creates the objects of a phase of a revision, except for kinds that the cluster does not serve.
func (c *fixture) applyPhase(revision string, phase int) {
	c.T.Helper()
	set := &olmv1.ClusterObjectSet{}
	c.Must(c.Get(c.T.Context(), client.ObjectKey{Name: revision}, set))
	for _, entry := range set.Spec.Phases[phase].Objects {
		c.Must(controllerutil.SetControllerReference(set, entry.Object, c.Scheme()))
		c.Must(c.Create(c.T.Context(), entry.Object))
	}
}

// markDeploymentAvailable sets the status of a Deployment whose replicas are available.
func (c *fixture) markDeploymentAvailable(namespace, name string) {
	c.T.Helper()
	updateStatus(c, name, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}}, func(d *appsv1.Deployment) {
		d.Status = builder.AvailableStatus(d)
	})
}

// addFinalizer adds a finalizer to an object.
func (c *fixture) addFinalizer(obj client.Object, finalizer string) {
	c.T.Helper()
	c.Must(c.Get(c.T.Context(), client.ObjectKeyFromObject(obj), obj))
	controllerutil.AddFinalizer(obj, finalizer)
	c.Must(c.Update(c.T.Context(), obj))
}

// removeFinalizers removes all finalizers of an object.
func (c *fixture) removeFinalizers(obj client.Object) {
	c.T.Helper()
	c.Must(c.Get(c.T.Context(), client.ObjectKeyFromObject(obj), obj))
	obj.SetFinalizers(nil)
	c.Must(c.Update(c.T.Context(), obj))
}

// requireDeleting checks that an object does not exist or is being deleted.
func (c *fixture) requireDeleting(obj client.Object) {
	c.T.Helper()
	err := c.Get(c.T.Context(), client.ObjectKeyFromObject(obj), obj)
	if err == nil && obj.GetDeletionTimestamp() != nil {
		return
	}
	if !apierrors.IsNotFound(err) {
		c.T.Errorf("%T %s: got %v, want it to be deleted", obj, obj.GetName(), err)
	}
}

// waitForDeletionOfExtensionKinds waits until the CRDs of OLM v1 do not exist anymore. An uninstallation deletes, and names,
// those that still terminate once more.
func (c *fixture) waitForDeletionOfExtensionKinds() {
	c.T.Helper()
	for _, kind := range []string{"clustercatalogs", "clusterextensions", "clusterobjectsets"} {
		c.WaitUntilGone(&apiextensionsv1.CustomResourceDefinition{}, "", kind+".olm.operatorframework.io")
	}
}

// finalizeNamespace completes the deletion of a namespace, as the namespace controller would.
func (c *fixture) finalizeNamespace(name string) {
	c.T.Helper()
	namespace := withName(&corev1.Namespace{}, name)
	c.Must(c.Get(c.T.Context(), client.ObjectKeyFromObject(namespace), namespace))
	namespace.Spec.Finalizers = nil
	c.Must(c.SubResource("finalize").Update(c.T.Context(), namespace))
	c.WaitUntilGone(namespace, "", namespace.Name)
}

func withName[T client.Object](obj T, name string) T {
	obj.SetName(name)
	return obj
}

// The commands run in the order in which a user would run them on a new cluster.
func TestCluster(t *testing.T) {
	c := newFixture(t)
	step := func(name, line string, on ...reaction) {
		t.Helper()
		check(t, "cluster/"+name, command{line: words(line), on: on})
	}
	t.Run("install", func(t *testing.T) { c.T = t; testInstall(c, step) })
	t.Run("catalogs", func(t *testing.T) { c.T = t; testCatalogs(c, step) })
	t.Run("extensions", func(t *testing.T) { c.T = t; testExtensions(c, step) })
	t.Run("upgrade", func(t *testing.T) { c.T = t; testUpgrade(c, step) })
	t.Run("history", func(t *testing.T) { c.T = t; testHistory(c, step) })
	t.Run("plan", func(t *testing.T) { c.T = t; testPlan(c, step) })
	t.Run("removal", func(t *testing.T) { c.T = t; testRemoval(c, step) })
	t.Run("uninstall", func(t *testing.T) { c.T = t; testUninstall(c, step) })
	t.Run("classic", func(t *testing.T) { c.T = t; testClassicPart(c, step) })
}

type stepFunc func(name, line string, on ...reaction)

func testInstall(c *fixture, step stepFunc) {
	step("install-late", "mainstay install --wait --timeout 1ms")
	step("install", "mainstay install --wait",
		reaction{"its controller has not seen", func() { c.markDeploymentAvailable("olmv1-system", "catalogd-controller-manager") }},
		reaction{"catalogd-controller-manager: done", func() { c.markDeploymentAvailable("olmv1-system", "operator-controller-controller-manager") }})
	c.checkInstalledAsPrinted()
	step("install-no-such-namespace", "mainstay install --pull-secret registries/pull")
	c.Must(c.Create(c.T.Context(), withName(&corev1.Namespace{}, "registries")))
	step("install-again-narrow", "mainstay install --require-service-account --pull-secret registries/pull --image registry.example.com/mainstay:v1 -o name")
	binding := &unstructured.Unstructured{}
	binding.SetAPIVersion("rbac.authorization.k8s.io/v1")
	binding.SetKind("ClusterRoleBinding")
	c.requireDeleting(withName(binding, "operator-controller-cluster-admin"))
}

func testCatalogs(c *fixture, step stepFunc) {
	step("catalog-list-none", "mainstay catalog list")
	step("catalog-add", "mainstay catalog add ours --image registry.example.com/catalog:v1 --poll-interval 10m --priority 5 --label team=tea --wait",
		reaction{"has not reconciled", func() {
			c.setCatalogConditions("ours", condition("Progressing", "True", "Retrying", "source catalog content: pull image: connection refused", 0))
		}},
		reaction{"connection refused", func() {
			c.setCatalogConditions("ours", condition("Progressing", "True", "Succeeded", "Successfully unpacked and stored content from resolved source", 0),
				condition("Serving", "False", "Unavailable", "", 0))
		}},
		reaction{"unpack: done", func() {
			c.setCatalogConditions("ours", condition("Progressing", "True", "Succeeded", "Successfully unpacked and stored content from resolved source", 0),
				condition("Serving", "True", "Available", "Serving desired content from resolved source", 0))
		}})

	step("catalog-add-again", "mainstay catalog add ours --image registry.example.com/catalog:v1")
	step("catalog-add-invalid", "mainstay catalog add bad --image catalog")
	step("catalog-add-odd-interval", "mainstay catalog add bad --image registry.example.com/catalog:v1 --poll-interval 90s")
	step("catalog-add-no-wait", "mainstay catalog add a-catalog-with-a-name-that-is-longer-than-most-columns --image registry.example.com/other:v1 -o name")
	step("catalog-add-blocked", "mainstay catalog add broken --image registry.example.com/broken:v1 --wait",
		reaction{"has not reconciled", func() {
			c.setCatalogConditions("broken", condition("Progressing", "False", "Blocked", "the image is not a catalog", 0))
		}})
	step("catalog-add-late", "mainstay catalog add late --image registry.example.com/late:v1 --wait --timeout 1ms -o name")
	step("catalog-list", "mainstay catalog list")
	step("catalog-list-wide", "mainstay catalog list -o wide")
	step("catalog-list-name", "mainstay catalog list -o name")
	step("catalog-list-one", "mainstay catalog list ours -o yaml")
	step("catalog-list-unknown", "mainstay catalog list nobody")
	c.addFinalizer(withName(&olmv1.ClusterCatalog{}, "late"), olmv1.FinalizerDeleteServerCache)
	step("catalog-delete", "mainstay catalog delete late --wait",
		reaction{"finalizers", func() { c.removeFinalizers(withName(&olmv1.ClusterCatalog{}, "late")) }})
	step("catalog-delete-unknown", "mainstay catalog delete late")
	step("catalog-complete", "mainstay __complete catalog delete o")
}

func testExtensions(c *fixture, step stepFunc) {
	step("extension-list-none", "mainstay extension list")
	step("extension-no-namespace", "mainstay extension install kettle --namespace kitchen")
	step("extension-invalid", "mainstay extension install kettle --create-namespace --namespace kitchen --channel Not_Valid")
	step("extension-install", "mainstay extension install kettle --create-namespace --namespace kitchen --version 0.1.0 --wait",
		reaction{"has not written", func() {
			c.writePlan("kettle", "installation", `place: namespace "kitchen" does not exist: create it, the extension's namespaced objects go there`)
		}},
		reaction{"has not reconciled", func() {
			c.setExtensionStatus("kettle", "", condition("Installed", "False", "Failed", "No bundle installed", 0),
				condition("Progressing", "True", "Retrying", `no bundles found for package "kettle" matching version "0.1.0"`, 0))
		}},
		reaction{"no bundles found", func() {
			c.createRevision(1, "0.1.0")
			c.setExtensionStatus("kettle", "", condition("Installed", "False", "Failed", "No bundle installed", 0),
				condition("Progressing", "True", "RollingOut", "Applying revision kettle-1", 0))
		}},
		reaction{"0/2 ConfigMap", func() { c.applyPhase("kettle-1", 0) }},
		reaction{"configuration: done", func() { c.applyPhase("kettle-1", 1) }},
		reaction{"its controller has not seen", func() { c.markDeploymentAvailable("kitchen", "kettle") }},
		reaction{"does not know the kind", func() {
			updateStatus(c, "kettle-1", &olmv1.ClusterObjectSet{}, func(set *olmv1.ClusterObjectSet) {
				set.Status.Conditions = []metav1.Condition{condition("Succeeded", "True", "Succeeded", "Revision 1 succeeded", 1)}
			})
			c.setExtensionStatus("kettle", "0.1.0", condition("Installed", "True", "Succeeded", "Installed bundle kettle.v0.1.0 successfully", 0),
				condition("Progressing", "True", "Succeeded", "Desired state reached", 0))
		}})

	step("extension-install-again", "mainstay extension install kettle --namespace kitchen")
	step("extension-status", "mainstay extension status kettle")
	step("extension-status-json", "mainstay extension status kettle -o json")
	step("extension-status-unknown", "mainstay extension status teapot")
	step("extension-install-blocked", "mainstay extension install teapot --namespace kitchen --check=false --wait",
		reaction{"has not reconciled", func() {
			c.setExtensionStatus("teapot", "", condition("Progressing", "False", "InvalidConfiguration", `spec.config.inline: unknown field "spout"`, 0))
		}})
	step("extension-install-late", "mainstay extension install pot --namespace kitchen --check=false --wait --timeout 1ms -o name")
	step("extension-list", "mainstay extension list")
	step("extension-list-wide", "mainstay extension list -o wide")
	step("extension-list-name", "mainstay extension list -o name")
	step("extension-list-json", "mainstay extension list kettle -o json")
	step("extension-complete", "mainstay __complete extension status k")
	step("extension-complete-namespace", "mainstay __complete extension install kettle --namespace ki")
}

func testUpgrade(c *fixture, step stepFunc) {
	step("upgrade-nothing", "mainstay extension upgrade kettle")
	step("upgrade-unknown", "mainstay extension upgrade nobody --version 1.0.0")
	step("upgrade-same", "mainstay extension upgrade kettle --version 0.1.0")
	step("upgrade", "mainstay extension upgrade kettle --version 0.2.0 --channel stable --self-certified --wait",
		reaction{"has not written", func() { c.writePlan("kettle", "update") }},
		reaction{"has not reconciled", func() {
			c.setExtensionStatus("kettle", "0.1.0", condition("Installed", "True", "Succeeded", "Installed bundle kettle.v0.1.0 successfully", 0),
				condition("Progressing", "False", "Blocked", `"NoExistingFieldRemoved" of upgrade safety validation failed`, 0))
		}})

	c.createRevision(2, "0.2.0")
	step("upgrade-status", "mainstay extension status kettle")
	c.Must(c.Update(c.T.Context(), func() client.Object {
		set := withName(&olmv1.ClusterObjectSet{}, "kettle-1")
		c.Must(c.Get(c.T.Context(), client.ObjectKeyFromObject(set), set))
		set.Spec.LifecycleState = olmv1.LifecycleStateArchived
		return set
	}()))

	updateStatus(c, "kettle-2", &olmv1.ClusterObjectSet{}, func(set *olmv1.ClusterObjectSet) {
		set.Status.Conditions = []metav1.Condition{
			condition("Available", "False", "ProbeFailure", "an object is not ready", 1),
			condition("Succeeded", "True", "Succeeded", "Revision 2 succeeded", 1),
		}
	})

	step("upgrade-status-degraded", "mainstay extension status kettle")
	step("upgrade-unpin", "mainstay extension upgrade kettle --version= --channel= --self-certified=false --check=false -o yaml")
	c.addFinalizer(withName(&olmv1.ClusterExtension{}, "pot"), olmv1.FinalizerCleanupContentManagerCache)
	step("extension-uninstall-late", "mainstay extension uninstall pot --wait --timeout 1ms")
	step("extension-status-deleting", "mainstay extension status pot")
	step("upgrade-deleting", "mainstay extension upgrade pot --version 1.0.0")
	c.removeFinalizers(withName(&olmv1.ClusterExtension{}, "pot"))
	step("extension-uninstall", "mainstay extension uninstall teapot")
	step("extension-uninstall-unknown", "mainstay extension uninstall teapot")
}

func testUninstall(c *fixture, step stepFunc) {
	step("uninstall-refused", "mainstay uninstall")
	step("uninstall-keep-crds", "mainstay uninstall --keep-crds --wait",
		reaction{`namespace "olmv1-system": is being deleted`, func() {
			updateStatus(c, "olmv1-system", &corev1.Namespace{}, func(namespace *corev1.Namespace) {
				namespace.Status.Conditions = []corev1.NamespaceCondition{
					{Type: corev1.NamespaceDeletionDiscoveryFailure, Status: corev1.ConditionFalse, Message: "All resources successfully discovered"},
					{Type: corev1.NamespaceContentRemaining, Status: corev1.ConditionTrue, Message: "Some resources are remaining: pods. has 2 resource instances"},
				}
			})
		}},
		reaction{"pods. has 2 resource instances", func() { c.finalizeNamespace("olmv1-system") }})

	c.requireDeleting(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "olmv1-system", Name: "catalogd-controller-manager"}})
	c.Must(c.Get(c.T.Context(), client.ObjectKey{Name: "kettle"}, &olmv1.ClusterExtension{}))
	step("uninstall-both", "mainstay uninstall --keep-crds --delete-extensions")
	step("uninstall-everything", "mainstay uninstall --delete-extensions")
	c.waitForDeletionOfExtensionKinds()

	step("uninstall-again", "mainstay uninstall")
}
