package cli_test

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

// serveCatalog serves a catalog with bundles of the package mug from this process. The returned function
// changes the versions of the bundles.
func (c *fixture) serveCatalog(name string, versions ...string) (offer func(versions ...string)) {
	c.T.Helper()
	var content atomic.Value
	offer = func(versions ...string) {
		var entries []string
		text := &strings.Builder{}
		fmt.Fprintln(text, `{"schema":"olm.package","name":"mug","defaultChannel":"stable"}`)
		for _, version := range versions {
			entries = append(entries, fmt.Sprintf(`{"name":"mug.v%s"}`, version))
			fmt.Fprintf(text, `{"schema":"olm.bundle","package":"mug","name":"mug.v%s","image":"registry.example.com/mug:v%s",`+
				`"properties":[{"type":"olm.package","value":{"packageName":"mug","version":%q}}]}`+"\n", version, version, version)
		}

		fmt.Fprintf(text, `{"schema":"olm.channel","package":"mug","name":"stable","entries":[%s]}`+"\n", strings.Join(entries, ","))
		content.Store(text.String())
	}

	offer(versions...)
	catalogd := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(content.Load().(string)))
	}))
	c.T.Cleanup(catalogd.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: catalogd.Certificate().Raw})
	c.Must(c.Create(c.T.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "olmv1-system", Name: "catalogd-service-ca"}, Data: map[string]string{"ca.crt": string(authority)},
	}))
	updateStatus(c, name, &olmv1.ClusterCatalog{}, func(catalog *olmv1.ClusterCatalog) {
		catalog.Status.URLs = &olmv1.ClusterCatalogURLs{Base: catalogd.URL + "/catalogs/" + name}
	})

	return offer
}

// createMugRevision creates a revision of the extension mug.
func (c *fixture) createMugRevision(number int64, version string, objects []olmv1.ClusterObjectSetObject, conditions ...metav1.Condition) {
	c.T.Helper()
	set := &olmv1.ClusterObjectSet{
		ObjectMeta: metav1.ObjectMeta{
			Name:   fmt.Sprintf("mug-%d", number),
			Labels: map[string]string{olmv1.LabelOwnerKind: olmv1.ClusterExtensionKind, olmv1.LabelOwnerName: "mug"},
			Annotations: map[string]string{
				olmv1.AnnotationBundleName: "mug.v" + version, olmv1.AnnotationBundleVersion: version,
				olmv1.AnnotationBundleReference: "registry.example.com/mug@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
			},
		},
		Spec: olmv1.ClusterObjectSetSpec{
			LifecycleState: olmv1.LifecycleStateActive, Revision: number,
			Phases: []olmv1.ClusterObjectSetPhase{{Name: "deploy", Objects: objects}},
		},
	}

	if number == 2 {
		// The first object is stored in a Secret.
		c.moveObjectsToSecret(set)
		set.Spec.Phases[0].Objects = slices.Delete(set.Spec.Phases[0].Objects, 1, 2)
	}

	c.Must(c.Create(c.T.Context(), set))
	updateStatus(c, set.Name, &olmv1.ClusterObjectSet{}, func(set *olmv1.ClusterObjectSet) { set.Status.Conditions = conditions })
}

func mugDeployment(version string) olmv1.ClusterObjectSetObject {
	labels := map[string]any{"app": "mug"}
	return object("apps/v1", "Deployment", "kitchen", "mug", map[string]any{"spec": map[string]any{
		"selector": map[string]any{"matchLabels": labels},
		"template": map[string]any{
			"metadata": map[string]any{"labels": labels},
			"spec":     map[string]any{"containers": []any{map[string]any{"name": "mug", "image": "registry.example.com/mug:v" + version}}},
		},
	}})
}

// createFailingDeployment creates the Deployment with a pod that does not start, including its ReplicaSets
// and events.
func (c *fixture) createFailingDeployment(deployment client.Object) {
	c.T.Helper()
	c.Must(c.Create(c.T.Context(), deployment))
	live := &appsv1.Deployment{}
	c.Must(c.Get(c.T.Context(), client.ObjectKeyFromObject(deployment), live))
	live.Annotations = map[string]string{"deployment.kubernetes.io/revision": "2"}
	c.Must(c.Update(c.T.Context(), live))
	live.Status = appsv1.DeploymentStatus{ObservedGeneration: live.Generation, Replicas: 1, UpdatedReplicas: 1}
	c.Must(c.Status().Update(c.T.Context(), live))
	for _, revision := range []string{"1", "2"} {
		set := &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "kitchen", Name: "mug-" + revision, Labels: live.Spec.Selector.MatchLabels,
				Annotations: map[string]string{"deployment.kubernetes.io/revision": revision},
			},
			Spec: appsv1.ReplicaSetSpec{Selector: live.Spec.Selector, Template: live.Spec.Template},
		}

		c.Must(controllerutil.SetControllerReference(live, set, c.Scheme()))
		c.Must(c.Create(c.T.Context(), set))
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kitchen", Name: set.Name + "-pod", Labels: set.Labels},
			Spec:       live.Spec.Template.Spec,
		}
		pod.Spec.AutomountServiceAccountToken = new(bool)
		c.Must(controllerutil.SetControllerReference(set, pod, c.Scheme()))
		c.Must(c.Create(c.T.Context(), pod))
		updateStatus(c, pod.Name, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kitchen"}}, func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
				Name: "mug", Image: "registry.example.com/mug:v" + revision,
				State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "Back-off pulling image"}},
			}}
		})

		c.Must(c.Get(c.T.Context(), client.ObjectKeyFromObject(pod), pod))
		c.Must(c.Create(c.T.Context(), &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: "kitchen", Name: pod.Name},
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "kitchen", Name: pod.Name, UID: pod.UID},
			Type:           corev1.EventTypeWarning, Reason: "Failed", Message: "Failed to pull image: not found", Count: 3, LastTimestamp: longAgo,
		}))
	}
}

func testHistory(c *fixture, step stepFunc) {
	offer := c.serveCatalog("ours", "0.1.0", "0.2.0")
	step("history-unknown", "mainstay extension history nobody")
	step("explain-unknown", "mainstay extension explain nobody")
	testChecks(c, step)
	step("mug-install", "mainstay extension install mug --namespace kitchen --catalog-selector team=tea",
		reaction{"has not written", func() { c.writePlan("mug", "installation") }})
	step("history-none", "mainstay extension history mug")
	step("diff-none", "mainstay extension diff mug")
	step("rollback-none", "mainstay extension rollback mug")
	step("explain-not-seen", "mainstay extension explain mug")

	config := map[string]any{"data": map[string]any{"sugar": "1"}}
	c.createMugRevision(1, "0.1.0", []olmv1.ClusterObjectSetObject{
		object("v1", "ConfigMap", "kitchen", "sugar", config), object("v1", "ConfigMap", "kitchen", "lemon", nil), mugDeployment("1"),
	}, condition("Progressing", "True", "Succeeded", "All objects are rolled out", 1), condition("Succeeded", "True", "Succeeded", "", 1))
	step("diff-one", "mainstay extension diff mug")
	step("rollback-nothing-before", "mainstay extension rollback mug")
	config = map[string]any{"data": map[string]any{"sugar": "2"}}
	c.createMugRevision(2, "0.2.0", []olmv1.ClusterObjectSetObject{
		object("v1", "ConfigMap", "kitchen", "sugar", config), object("v1", "ConfigMap", "kitchen", "milk", nil), mugDeployment("2"),
	}, condition("Progressing", "False", "ProgressDeadlineExceeded", `Revision has not rolled out for 10 minute(s). Last status: phase "deploy" (1 of 1) waits for Deployment "kitchen/mug"`, 1))
	c.setExtensionStatus("mug", "0.1.0", condition("Installed", "True", "Succeeded", "Installed bundle mug.v0.1.0 successfully", 0),
		condition("Progressing", "False", "ProgressDeadlineExceeded", `Revision has not rolled out for 10 minute(s). Last status: phase "deploy" (1 of 1) waits for Deployment "kitchen/mug"`, 0))
	second := withName(&olmv1.ClusterObjectSet{}, "mug-2")
	c.Must(c.Get(c.T.Context(), client.ObjectKeyFromObject(second), second))
	sugar, deployment := object("v1", "ConfigMap", "kitchen", "sugar", config).Object, mugDeployment("2").Object
	for _, owned := range []client.Object{sugar, deployment} {
		c.Must(controllerutil.SetControllerReference(second, owned, c.Scheme()))
	}

	c.Must(c.Create(c.T.Context(), sugar))
	c.createFailingDeployment(deployment)

	step("history", "mainstay extension history mug")
	step("history-wide", "mainstay extension history mug -o wide")
	step("history-name", "mainstay extension history mug -o name")
	step("history-json", "mainstay extension history mug -o json")
	step("diff", "mainstay extension diff mug")
	step("diff-yaml", "mainstay extension diff mug --from 2 --to 1 -o yaml")
	step("diff-no-such", "mainstay extension diff mug --to 7")
	step("diff-unreadable", "mainstay extension diff kettle --from 1 --to 2")
	step("explain", "mainstay extension explain mug")
	step("explain-json", "mainstay extension explain mug -o json")

	step("rollback-to-failed", "mainstay extension rollback mug --to-revision 2")
	step("rollback-no-such", "mainstay extension rollback mug --to-revision 7")
	offer("0.2.0")
	step("rollback-not-offered", "mainstay extension rollback mug")
	offer("0.1.0", "0.2.0")
	step("rollback-refused", "mainstay extension rollback mug --crd-upgrade-safety Strict",
		reaction{"has not written", func() {
			c.writePlan("mug", "go back, which would be stopped", `crdUpgradeSafety: validating upgrade for CRD "mugs.example.com" failed: v1: ^.spec.size: a field was removed`)
		}})
	step("rollback-refused-spec", "mainstay extension list mug -o wide")
	step("rollback", "mainstay extension rollback mug --crd-upgrade-safety None",
		reaction{"has not written", func() { c.writePlan("mug", "go back") }})
	step("rollback-again", "mainstay extension rollback mug")
	step("rollback-wait", "mainstay extension rollback mug --wait",
		reaction{"has not reconciled", func() {
			set := withName(&olmv1.ClusterObjectSet{}, "mug-2")
			c.Must(c.Get(c.T.Context(), client.ObjectKeyFromObject(set), set))
			set.Spec.LifecycleState = olmv1.LifecycleStateArchived
			set.Annotations[olmv1.AnnotationFailure] = "Revision has not rolled out for 10 minute(s)"
			c.Must(c.Update(c.T.Context(), set))
			c.setExtensionStatus("mug", "0.1.0", condition("Installed", "True", "Succeeded", "Installed bundle mug.v0.1.0 successfully", 0),
				condition("Progressing", "True", "Succeeded", "desired state reached", 0))
		}})
	step("rollback-spec", "mainstay extension list mug -o wide")
	step("history-after", "mainstay extension history mug")
	step("rollback-to-installed", "mainstay extension rollback mug --to-revision 1")
	step("explain-after", "mainstay extension explain mug")

	c.createMugRevision(3, "0.1.0", []olmv1.ClusterObjectSetObject{mugDeployment("1")}, condition("Succeeded", "True", "Succeeded", "", 1))
	step("rollback-same-bundle", "mainstay extension rollback mug")
	step("rollback-to-same-bundle", "mainstay extension rollback mug --to-revision 1")
	c.Must(c.Delete(c.T.Context(), withName(&olmv1.ClusterExtension{}, "mug")))
	for number := range 3 {
		c.Must(c.Delete(c.T.Context(), withName(&olmv1.ClusterObjectSet{}, fmt.Sprintf("mug-%d", number+1))))
	}
}
