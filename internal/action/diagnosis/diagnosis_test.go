package diagnosis

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/testing/golden"
)

// newFacts returns the facts of an extension without status, changed by edits.
func newFacts(edits ...func(*Facts)) Facts {
	f := Facts{Extension: &olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: "kettle", Generation: 3}}}
	f.Extension.Spec = olmv1.ClusterExtensionSpec{
		Namespace: "kitchen",
		Source:    olmv1.SourceConfig{SourceType: olmv1.ExtensionSourceTypeCatalog, Catalog: &olmv1.CatalogFilter{PackageName: "kettle"}},
	}
	for _, edit := range edits {
		edit(&f)
	}
	return f
}

func condition(kind, status, reason, message string) func(*Facts) {
	return func(f *Facts) {
		f.Extension.Status.Conditions = append(f.Extension.Status.Conditions, metav1.Condition{
			Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, Message: message, ObservedGeneration: f.Extension.Generation,
		})
	}
}

func progressing(status, reason, message string) func(*Facts) {
	return condition(olmv1.TypeProgressing, status, reason, message)
}

func installed(version string) func(*Facts) {
	return func(f *Facts) {
		f.Extension.Status.Install = &olmv1.ClusterExtensionInstallStatus{Bundle: olmv1.BundleMetadata{Name: "kettle.v" + version, Version: version}}
	}
}

// revision adds a revision: active, good or archived.
func revision(number int64, version, state string) func(*Facts) {
	return func(f *Facts) {
		set := olmv1.ClusterObjectSet{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("kettle-%d", number), Annotations: map[string]string{olmv1.AnnotationBundleName: "kettle.v" + version},
		}}
		set.Spec.Revision, set.Spec.LifecycleState = number, olmv1.LifecycleStateActive
		switch state {
		case "good":
			set.Status.Conditions = []metav1.Condition{{Type: olmv1.TypeSucceeded, Status: metav1.ConditionTrue}}
		case "archived":
			set.Spec.LifecycleState = olmv1.LifecycleStateArchived
		}
		f.Revisions = append(f.Revisions, set)
	}
}

func catalog(name, serving, reason, progress string) func(*Facts) {
	return func(f *Facts) {
		c := olmv1.ClusterCatalog{ObjectMeta: metav1.ObjectMeta{Name: name}}
		c.Status.Conditions = []metav1.Condition{
			{Type: olmv1.TypeServing, Status: metav1.ConditionStatus(serving), Reason: reason},
			{Type: olmv1.TypeProgressing, Status: metav1.ConditionTrue, Reason: olmv1.ReasonRetrying, Message: progress},
		}
		f.Catalogs = append(f.Catalogs, c)
	}
}

func account(f *Facts) {
	f.Extension.Spec.ServiceAccount = &olmv1.ServiceAccountReference{Name: "cook"}
}

// deployment adds an awaited Deployment with the objects that it owns.
func deployment(message string, below ...func(*AwaitedObject)) func(*Facts) {
	return awaited("Deployment", "kitchen", "kettle", message, below...)
}

func awaited(kind, namespace, name, message string, below ...func(*AwaitedObject)) func(*Facts) {
	return func(f *Facts) {
		a := AwaitedObject{Kind: kind, Namespace: namespace, Name: name, Message: message}
		for _, add := range below {
			add(&a)
		}
		f.Awaited = append(f.Awaited, a)
	}
}

func pod(name string, status corev1.PodStatus) func(*AwaitedObject) {
	return func(a *AwaitedObject) {
		a.Pods = append(a.Pods, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kitchen", Name: name}, Status: status})
	}
}

func container(state corev1.ContainerState, last *corev1.ContainerStateTerminated, restarts int32) corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
		Name: "kettle", Image: "registry.example.com/kettle:v2", State: state, RestartCount: restarts,
		LastTerminationState: corev1.ContainerState{Terminated: last},
	}}}
}

func waiting(reason, message string) corev1.PodStatus {
	return container(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}, nil, 0)
}

func refused(message string) func(*AwaitedObject) {
	return func(a *AwaitedObject) {
		set := appsv1.ReplicaSet{}
		set.Status.Conditions = []appsv1.ReplicaSetCondition{{Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, Message: message}}
		a.ReplicaSets = append(a.ReplicaSets, set)
	}
}

func event(kind, name, reason, message string, count int32) func(*AwaitedObject) {
	return func(a *AwaitedObject) {
		a.Events = append(a.Events, corev1.Event{
			Type: corev1.EventTypeWarning, Reason: reason, Message: message, Count: count,
			InvolvedObject: corev1.ObjectReference{Kind: kind, Namespace: "kitchen", Name: name},
			LastTimestamp:  metav1.Time{Time: time.Unix(int64(len(a.Events)), 0)},
		})
	}
}

// updating is an update from a good revision.
func updating(f *Facts) {
	installed("0.1.0")(f)
	revision(1, "0.1.0", "good")(f)
	revision(2, "0.2.0", "active")(f)
	progressing("True", "RollingOut", `phase "deploy" (2 of 2) waits for Deployment "kitchen/kettle": 0 of 1 replica is available`)(f)
}

const late = `Revision has not rolled out for 10 minute(s). Last status: phase "deploy" (2 of 2) waits for Deployment "kitchen/kettle": 0 of 1 replica is available`

const unavailable = "0 of 1 replica is available"

func TestExplain(t *testing.T) {
	for name, f := range map[string]Facts{
		"not-seen": newFacts(),
		"seen-before": newFacts(progressing("True", "Succeeded", "desired state reached"), func(f *Facts) {
			f.Extension.Generation = 4
		}),
		"well":   newFacts(installed("0.1.0"), revision(1, "0.1.0", "good"), progressing("True", "Succeeded", "desired state reached"), condition("Available", "True", "ProbesSucceeded", "")),
		"pinned": newFacts(installed("0.1.0"), revision(1, "0.1.0", "good"), progressing("True", "Succeeded", "desired state reached"), func(f *Facts) { f.Extension.Spec.Source.Catalog.Version = "0.1.0" }),
		"planned-only": newFacts(progressing("True", "Succeeded", "Planned only: see ConfigMap olmv1-system/plan-kettle"), func(f *Facts) {
			f.Extension.Annotations = map[string]string{olmv1.AnnotationPlan: olmv1.PlanOnly}
		}),
		"deprecated": newFacts(installed("0.1.0"), revision(1, "0.1.0", "good"), progressing("True", "Succeeded", "desired state reached"),
			condition("BundleDeprecated", "True", "Deprecated", "kettle.v0.1.0 boils dry, use 0.2.0"), condition("PackageDeprecated", "False", "Deprecated", "")),
		"degraded": newFacts(installed("0.1.0"), revision(1, "0.1.0", "good"), progressing("True", "Succeeded", "desired state reached"),
			condition("Available", "False", "ProbeFailure", `phase "deploy" (2 of 2) waits for Deployment "kitchen/kettle": 0 of 1 replica is available`),
			deployment(unavailable, pod("kettle-a", waiting("CreateContainerConfigError", `secret "water" not found`)))),
		"unknown-availability": newFacts(installed("0.1.0"), revision(1, "0.1.0", "good"), progressing("True", "Succeeded", "desired state reached"),
			condition("Available", "Unknown", "Reconciling", "The objects were not looked at: the API server is away")),
		"nothing-offered":   newFacts(progressing("True", "Retrying", `no bundles found for package "kettle"`), catalog("ours", "True", "Available", "")),
		"no-catalog":        newFacts(progressing("True", "Retrying", `no bundles found for package "kettle"`)),
		"catalog-down":      newFacts(progressing("True", "Retrying", `no bundles found for package "kettle"`), catalog("ours", "False", "Unavailable", "pull image: connection refused"), catalog("theirs", "True", "Available", "")),
		"catalog-off":       newFacts(progressing("True", "Retrying", `no bundles found for package "kettle"`), catalog("ours", "False", "UserSpecifiedUnavailable", "")),
		"ambiguous":         newFacts(progressing("True", "Retrying", `found bundles for package "kettle" in multiple catalogs with the same priority [ours theirs]`), catalog("ours", "True", "Available", ""), catalog("theirs", "True", "Available", "")),
		"no-namespace":      newFacts(progressing("True", "Retrying", `namespace "kitchen" does not exist: create it, the extension's namespaced objects go there`)),
		"no-account":        newFacts(account, progressing("True", "Retrying", `installation cannot proceed due to missing ServiceAccount: create ServiceAccount "cook" in namespace "kitchen"`)),
		"rights":            newFacts(account, progressing("True", "Retrying", "pre-authorization failed: service account requires the following permissions to manage cluster extension:\n  Namespace:\"\" APIGroups:[] Resources:[services] Verbs:[list,watch]\n  Namespace:\"kitchen\" APIGroups:[apps] Resources:[deployments] Verbs:[create]")),
		"collision":         newFacts(revision(1, "0.1.0", "active"), progressing("True", "Retrying", `revision object collisions: phase "configuration" (1 of 2): ConfigMap 'water' already exists in namespace 'kitchen' and cannot be managed by operator-controller: it is not controlled by anything`)),
		"configuration":     newFacts(progressing("False", "InvalidConfiguration", `bundle "kettle.v0.1.0": spec.config.inline: unknown field "spout"`)),
		"blocked":           newFacts(installed("0.1.0"), revision(1, "0.1.0", "good"), progressing("False", "Blocked", `bundle "kettle.v0.2.0": it has two ClusterServiceVersions`)),
		"unsafe":            newFacts(installed("0.1.0"), revision(1, "0.1.0", "good"), progressing("True", "Retrying", `validating upgrade for CRD "mugs.example.com" failed: v1: ^.spec.size: a field was removed`)),
		"first-rollout":     newFacts(revision(1, "0.1.0", "active"), progressing("True", "RollingOut", `phase "deploy" (2 of 2) waits for Deployment "kitchen/kettle": its controller has not seen the latest change yet`), deployment("its controller has not seen the latest change yet")),
		"resolving":         newFacts(progressing("True", "RollingOut", "the first revision is being created")),
		"image-pull":        newFacts(updating, deployment(unavailable, pod("kettle-a", waiting("ImagePullBackOff", `Back-off pulling image "registry.example.com/kettle:v2"`)), event("Pod", "kettle-a", "Failed", `Failed to pull image "registry.example.com/kettle:v2": not found`, 4), event("Pod", "kettle-a", "BackOff", "Back-off pulling image", 9))),
		"crash":             newFacts(updating, deployment(unavailable, pod("kettle-a", container(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}, &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", Message: "no water\n"}, 7)))),
		"out-of-memory":     newFacts(updating, deployment(unavailable, pod("kettle-a", container(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}, &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}, 7)))),
		"unscheduled":       newFacts(updating, deployment(unavailable, pod("kettle-a", corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available: 3 Insufficient memory."}}}))),
		"not-ready":         newFacts(updating, deployment(unavailable, pod("kettle-a", container(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, nil, 0)))),
		"ended":             newFacts(updating, deployment(unavailable, pod("kettle-a", container(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 2, Reason: "Error"}}, nil, 0)))),
		"evicted":           newFacts(updating, deployment(unavailable, pod("kettle-a", corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "The node was low on resource: memory."}))),
		"mount":             newFacts(updating, deployment(unavailable, pod("kettle-a", waiting("ContainerCreating", "")), event("Pod", "kettle-a", "FailedMount", `MountVolume.SetUp failed for volume "cert": secret "cert" not found`, 12))),
		"pod-security":      newFacts(updating, deployment(unavailable, refused(`pods "kettle-a" is forbidden: violates PodSecurity "restricted:latest": privileged`), event("ReplicaSet", "kettle-1", "FailedCreate", `Error creating: pods "kettle-a" is forbidden: violates PodSecurity "restricted:latest": privileged`, 3))),
		"quota":             newFacts(updating, deployment(unavailable, refused(`pods "kettle-a" is forbidden: exceeded quota: small`))),
		"pod-account":       newFacts(updating, deployment(unavailable, refused(`error looking up service account kitchen/kettle: serviceaccount "kettle" not found`))),
		"several-replicas":  newFacts(updating, deployment("0 of 2 replicas are available", pod("kettle-a", waiting("ErrImagePull", "not found")), pod("kettle-b", waiting("ErrImagePull", "not found")))),
		"crd-names":         newFacts(revision(1, "0.1.0", "active"), progressing("True", "RollingOut", `phase "crds" (1 of 2) waits`), awaited("CustomResourceDefinition", "", "mugs.example.com", `its names are not accepted: "mugs" is already in use`)),
		"job":               newFacts(revision(1, "0.1.0", "active"), progressing("True", "RollingOut", `phase "deploy" (2 of 2) waits`), awaited("Job", "kitchen", "descale", "it has failed (BackoffLimitExceeded): Job has reached the specified backoff limit")),
		"kind-unknown":      newFacts(revision(1, "0.1.0", "active"), progressing("True", "RollingOut", `phase "publish" (3 of 3) waits`), awaited("Gauge", "kitchen", "heat", "the cluster does not know the kind yet")),
		"late":              newFacts(updating, func(f *Facts) { f.Extension.Status.Conditions = nil }, progressing("False", "ProgressDeadlineExceeded", late), deployment(unavailable, pod("kettle-a", waiting("ErrImagePull", "not found")))),
		"rolled-back":       newFacts(installed("0.1.0"), revision(1, "0.1.0", "good"), revision(2, "0.2.0", "archived"), progressing("False", "ProgressDeadlineExceeded", "the update to bundle kettle.v0.2.0 was abandoned: "+late)),
		"rolled-back-worse": newFacts(installed("0.1.0"), revision(1, "0.1.0", "good"), revision(2, "0.2.0", "archived"), progressing("False", "ProgressDeadlineExceeded", "the update to bundle kettle.v0.2.0 was abandoned: "+late), condition("Available", "False", "ProbeFailure", "it waits"), deployment(unavailable)),
		"many": newFacts(updating, func(f *Facts) {
			for i := range 8 {
				awaited("ConfigMap", "kitchen", fmt.Sprintf("tea-%d", i), "not created yet")(f)
			}
		}),
		"unread": newFacts(updating, func(f *Facts) {
			f.Unread = []string{"You are not allowed to read the pods and events below Deployment kitchen/kettle."}
		}),
		"removal": newFacts(progressing("True", "RollingOut", `removing revision kettle-1: removing phase "crds" (1 of 2) waits for CustomResourceDefinition "mugs.example.com": it is waiting for 1 instance of its kind to be deleted: Mug "kitchen/blue" (held by finalizer example.com/mug)`), func(f *Facts) {
			now := metav1.Now()
			f.Extension.DeletionTimestamp = &now
		}),
		"removal-begun": newFacts(func(f *Facts) {
			now := metav1.Now()
			f.Extension.DeletionTimestamp = &now
		}),
	} {
		t.Run(name, func(t *testing.T) {
			golden.Check(t, name+".txt", []byte(text(Explain(f))))
		})
	}
}

// text returns an explanation in the form for users.
func text(e Explanation) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", e.Name, e.Summary)
	var write func(reasons []Reason, indent string)
	write = func(reasons []Reason, indent string) {
		for _, r := range reasons {
			fmt.Fprintf(&b, "%s- %s\n", indent, r.Text)
			write(r.Because, indent+"  ")
		}
	}

	write(e.Why, "  ")
	for _, advice := range e.Do {
		fmt.Fprintf(&b, "  => %s\n", advice)
	}

	return b.String()
}
