package subscription_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/unpack"
)

const image = "registry.example.com/a-bundle@sha256:6d2587129c846ec28d384540322b40b05833e7e00b25cca584e004af9a1d292e"

// job returns the Job that unpacks the image.
func (c *cluster) job() *batchv1.Job {
	c.t.Helper()
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: c.global, Name: unpack.Name(image)}}
	c.eventually(func() error { return c.get(job) })
	return job
}

// unpacked plays the Job: it writes the content of the bundle.
func (c *cluster) unpacked(manifest string) {
	c.t.Helper()
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: c.global, Name: unpack.Name(image)}}
	edit(c, configMap, func(m *corev1.ConfigMap) { m.Data = map[string]string{"csv.yaml": manifest} })
}

// A bundle in an image is unpacked before there is a plan, which then refers to it.
func TestBundleInAnImage(t *testing.T) {
	c := start(t)
	r := release{pkg: "a", version: "1.0.0", image: image}
	address, _ := serve(t, "", r)
	c.catalog(c.global, "c", address)
	sub := c.subscribe("a")
	c.job()
	c.until(sub, func(s *v1alpha1.SubscriptionStatus) bool {
		return condition(s, v1alpha1.SubscriptionBundleUnpacking).Reason == v1alpha1.UnpackingInProgress
	})
	if n := len(c.plans()); n != 0 {
		t.Errorf("there are %d plans before the bundle is there", n)
	}

	c.unpacked(r.csv())
	plan := c.planned(sub, "a.v1.0.0")
	if diff := cmp.Diff([]string{"ClusterServiceVersion a.v1.0.0", "ServiceAccount worker", "Role a.v1.0.0", "RoleBinding a.v1.0.0"}, steps(plan)); diff != "" {
		t.Errorf("steps (-want +got)\n%s", diff)
	}
	if l := plan.Status.BundleLookups; len(l) != 1 || l[0].Path != image || l[0].Identifier != "a.v1.0.0" || l[0].CatalogSourceRef.Name != "c" {
		t.Errorf("lookups: %+v", l)
	}
	if cond := condition(&sub.Status, v1alpha1.SubscriptionBundleUnpacking); cond.Type != "" {
		t.Errorf("it still says %+v", cond)
	}
}

// A bundle that cannot be had, or is none, is told of.
func TestBundleThatIsNoUse(t *testing.T) {
	c := start(t)
	address, _ := serve(t, "", release{pkg: "a", version: "1.0.0", image: image})
	c.catalog(c.global, "c", address)
	sub := c.subscribe("a")
	job := c.job()
	before := job.DeepCopy()
	now := metav1.Now()
	job.Status = batchv1.JobStatus{StartTime: &now, Failed: 1, Conditions: []batchv1.JobCondition{
		{Type: batchv1.JobFailureTarget, Status: corev1.ConditionTrue, Reason: "DeadlineExceeded", Message: "Job was active longer than specified deadline", LastTransitionTime: now},
		{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "DeadlineExceeded", Message: "Job was active longer than specified deadline", LastTransitionTime: now},
	}}
	c.must(c.Status().Patch(t.Context(), job, client.MergeFrom(before)))
	c.until(sub, func(s *v1alpha1.SubscriptionStatus) bool {
		failed := condition(s, v1alpha1.SubscriptionBundleUnpackFailed)
		return failed.Reason == v1alpha1.ReasonBundleUnpackFailed && condition(s, v1alpha1.SubscriptionBundleUnpacking).Type == "" &&
			len(failed.Message) > 90 && failed.Message[:90] == "Bundle unpacking failed - DeadlineExceeded: Job was active longer than specified deadline."
	})
	c.eventually(func() error {
		return c.event(func(e *eventsv1.Event) bool {
			return e.Reason == "BundleUnpackFailed" && e.Regarding.UID == sub.UID && strings.HasPrefix(e.Note, "Bundle unpacking failed - DeadlineExceeded: ")
		})
	})
	// The content is there after all, and is no use.
	c.unpacked(`{"apiVersion":"operators.coreos.com/v1alpha1","metadata":{"name":"a.v1.0.0"},"spec":{}}`)
	edit(c, sub, func(s *v1alpha1.Subscription) { s.Labels = map[string]string{"look": "again"} })
	c.until(sub, func(s *v1alpha1.SubscriptionStatus) bool {
		failed := condition(s, v1alpha1.SubscriptionBundleUnpackFailed)
		return failed.Reason == v1alpha1.ErrorPreventedUnpacking && failed.Message == fmt.Sprintf("bundle CSV %s missing Kind", "a.v1.0.0")
	})
	if n := len(c.plans()); n != 0 {
		t.Errorf("there are %d plans", n)
	}
}
