package subscription_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/unpack"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

const image = "registry.example.com/a-bundle@sha256:6d2587129c846ec28d384540322b40b05833e7e00b25cca584e004af9a1d292e"

// findUnpackJob returns the Job that unpacks the image.
func (c *fixture) findUnpackJob() *batchv1.Job {
	c.T.Helper()
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: c.global, Name: unpack.Name(image)}}
	c.eventually(func() error { return c.get(job) })
	return job
}

// writeUnpackedBundle writes the content of the bundle as the unpack Job does.
func (c *fixture) writeUnpackedBundle(manifest string) {
	c.T.Helper()
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: c.global, Name: unpack.Name(image)}}
	env.EditObject(c.Fixture, configMap, func(m *corev1.ConfigMap) { m.Data = map[string]string{"csv.yaml": manifest} })
}

// A bundle in an image is unpacked before there is a plan, which then refers to it.
func TestBundleInAnImage(t *testing.T) {
	c := newFixture(t)
	r := catalogRelease{pkg: "a", version: "1.0.0", image: image}
	address, _ := serveCatalog(t, "", r)
	c.createCatalog(c.global, "c", address)
	sub := c.createSubscription("a")
	c.findUnpackJob()
	c.waitForStatus(sub, func(s *v1alpha1.SubscriptionStatus) bool {
		return condition(s, v1alpha1.SubscriptionBundleUnpacking).Reason == v1alpha1.UnpackingInProgress
	})
	if n := len(c.listPlans()); n != 0 {
		t.Errorf("got %d plans before the bundle is unpacked", n)
	}

	c.writeUnpackedBundle(r.csv())
	plan := c.waitForPlan(sub, "a.v1.0.0")
	if diff := cmp.Diff([]string{"ClusterServiceVersion a.v1.0.0", "ServiceAccount worker", "Role a.v1.0.0", "RoleBinding a.v1.0.0"}, steps(plan)); diff != "" {
		t.Errorf("steps (-want +got)\n%s", diff)
	}
	if l := plan.Status.BundleLookups; len(l) != 1 || l[0].Path != image || l[0].Identifier != "a.v1.0.0" || l[0].CatalogSourceRef.Name != "c" {
		t.Errorf("lookups: %+v", l)
	}
	if cond := condition(&sub.Status, v1alpha1.SubscriptionBundleUnpacking); cond.Type != "" {
		t.Errorf("got the condition %+v, want none", cond)
	}
}

// failUnpackJob sets the status of a Job that has run too long.
func (c *fixture) failUnpackJob(job *batchv1.Job) {
	c.T.Helper()
	before := job.DeepCopy()
	now := metav1.Now()
	const message = "Job was active longer than specified deadline"
	job.Status = batchv1.JobStatus{StartTime: &now, Failed: 1, Conditions: []batchv1.JobCondition{
		{Type: batchv1.JobFailureTarget, Status: corev1.ConditionTrue, Reason: "DeadlineExceeded", Message: message, LastTransitionTime: now},
		{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "DeadlineExceeded", Message: message, LastTransitionTime: now},
	}}
	c.Must(c.Status().Patch(c.T.Context(), job, client.MergeFrom(before)))
}

// An unpack that timed out reports that the image could not be pulled, and what the pod reported about it. The pod has been
// deleted before.
func TestUnpackTimeoutNamesThePullFailure(t *testing.T) {
	c := newFixture(t)
	address, _ := serveCatalog(t, "", catalogRelease{pkg: "a", version: "1.0.0", image: image})
	c.createCatalog(c.global, "c", address)
	sub := c.createSubscription("a")
	job := c.findUnpackJob()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.global, GenerateName: job.Name[:20], Labels: job.Spec.Template.Labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "pull", Image: image}}},
	}
	c.Must(c.Create(t.Context(), pod))
	const cause = "Reason: ImagePullBackOff, Message: Back-off pulling image: no such host"
	pod.Status.Phase = corev1.PodPending
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "pull", Image: image, State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "Back-off pulling image: no such host"},
	}}}
	c.Must(c.Status().Update(t.Context(), pod))
	c.waitForStatus(sub, func(s *v1alpha1.SubscriptionStatus) bool {
		return strings.Contains(condition(s, v1alpha1.SubscriptionBundleUnpacking).Message, cause)
	})

	c.Must(c.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	c.failUnpackJob(job)
	isExplained := func(s *v1alpha1.SubscriptionStatus) bool {
		message := condition(s, v1alpha1.SubscriptionBundleUnpackFailed).Message
		return strings.HasPrefix(message, "Bundle unpacking failed - DeadlineExceeded: Job was active longer than specified deadline. ") &&
			strings.Contains(message, ". Image "+image+" could not be pulled: ") && strings.Contains(message, cause)
	}
	c.waitForStatus(sub, isExplained)
	c.waitForEvent("BundleUnpackFailed", sub.Name, condition(&sub.Status, v1alpha1.SubscriptionBundleUnpackFailed).Message)
	// The next reconcile keeps the cause.
	env.EditObject(c.Fixture, sub, func(s *v1alpha1.Subscription) { s.Spec.StartingCSV = "a.v1.0.0" })
	c.createCatalog(c.namespace, "another", address)
	c.waitForStatus(sub, func(s *v1alpha1.SubscriptionStatus) bool { return len(s.CatalogHealth) == 2 && isExplained(s) })
}

// A bundle that cannot be pulled or is invalid is reported.
func TestInvalidBundle(t *testing.T) {
	c := newFixture(t)
	address, _ := serveCatalog(t, "", catalogRelease{pkg: "a", version: "1.0.0", image: image})
	c.createCatalog(c.global, "c", address)
	sub := c.createSubscription("a")
	job := c.findUnpackJob()
	c.failUnpackJob(job)
	c.waitForStatus(sub, func(s *v1alpha1.SubscriptionStatus) bool {
		failed := condition(s, v1alpha1.SubscriptionBundleUnpackFailed)
		return failed.Reason == v1alpha1.ReasonBundleUnpackFailed && condition(s, v1alpha1.SubscriptionBundleUnpacking).Type == "" &&
			len(failed.Message) > 90 && failed.Message[:90] == "Bundle unpacking failed - DeadlineExceeded: Job was active longer than specified deadline."
	})
	c.waitForEvent("BundleUnpackFailed", sub.Name, "Bundle unpacking failed - DeadlineExceeded: ")
	// The content is unpacked in the end, but invalid.
	c.writeUnpackedBundle(`{"apiVersion":"operators.coreos.com/v1alpha1","metadata":{"name":"a.v1.0.0"},"spec":{}}`)
	env.EditObject(c.Fixture, sub, func(s *v1alpha1.Subscription) { s.Labels = map[string]string{"look": "again"} })
	c.waitForStatus(sub, func(s *v1alpha1.SubscriptionStatus) bool {
		failed := condition(s, v1alpha1.SubscriptionBundleUnpackFailed)
		return failed.Reason == v1alpha1.ErrorPreventedUnpacking && failed.Message == fmt.Sprintf("bundle CSV %s missing Kind", "a.v1.0.0")
	})
	if n := len(c.listPlans()); n != 0 {
		t.Errorf("got %d plans", n)
	}
}
