package unpack_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/steps"
	"github.com/mainstay-dev/mainstay/internal/classic/unpack"
	"github.com/mainstay-dev/mainstay/internal/testing/builder"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
	"github.com/mainstay-dev/mainstay/internal/testing/golden"
	"github.com/mainstay-dev/mainstay/internal/testing/mortal"
)

func TestMain(m *testing.M) { os.Exit(env.Run(m)) }

const image = "registry.example.com/kettle/bundle@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// fixture has an API server's client, a namespace with a catalog, and a clock.
type fixture struct {
	*env.Fixture
	*unpack.Unpacker
	namespace string
	now       time.Time
	lookup    v1alpha1.BundleLookup
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	w := &fixture{Fixture: env.NewFixture(t, clientgoscheme.AddToScheme, v1alpha1.AddToScheme), now: time.Now()}
	w.namespace = w.NewNamespace("unpack-")
	w.Must(w.Create(t.Context(), &v1alpha1.CatalogSource{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "shop"},
		Spec:       v1alpha1.CatalogSourceSpec{SourceType: v1alpha1.SourceTypeGrpc, Address: "localhost:1", Secrets: []string{"login", ""}},
	}))
	w.Unpacker = w.unpacker(w.Client)
	ref := &corev1.ObjectReference{Namespace: w.namespace, Name: "shop"}
	w.lookup = unpack.Lookup(image, "kettle.v1", "kettle.v0", `{"properties":[]}`, ref, w.now)

	return w
}

func (f *fixture) unpacker(c client.Client) *unpack.Unpacker {
	return &unpack.Unpacker{
		Catalogs: c, Trust: f.trust(), Now: func() time.Time { return f.now },
		Jobs: &unpack.Jobs{Client: c, Reader: c, Images: unpack.Images{OPM: "quay.io/example/opm@sha256:1", Util: "quay.io/example/util:v1"}, SetUserID: true},
	}
}

// trust configures the catalog's namespace as that of global catalogs.
func (f *fixture) trust() unpack.Trust { return unpack.Trust{Operator: "default", Global: f.namespace} }

// unpack requests the bundle once.
func (f *fixture) unpack(limits unpack.Limits) unpack.Result {
	f.T.Helper()
	result, err := f.Unpack(f.T.Context(), "tea", f.lookup, limits)
	f.Must(err)
	f.lookup = result.Lookup
	return result
}

// until requests the bundle until a condition holds. A second passes between two requests.
func (f *fixture) until(what string, is func(unpack.Result) bool) unpack.Result {
	f.T.Helper()
	var last unpack.Result
	f.eventually(what, func() bool {
		last = f.unpack(unpack.Limits{})
		f.now = f.now.Add(time.Second)
		return is(last)
	})

	return last
}

// eventually waits until a check is true.
func (f *fixture) eventually(what string, is func() bool) {
	f.T.Helper()
	f.EventuallyTrue(what, is, func() string { return fmt.Sprintf("got the conditions %+v", f.lookup.Conditions) })
}

func isDone(r unpack.Result) bool { return r.Done }

// expect checks that a condition is True, and no other.
func (f *fixture) expect(kind, reason, message string) {
	f.T.Helper()
	var got []string
	for _, c := range f.lookup.Conditions {
		if c.Type != v1alpha1.BundleLookupNotPersisted {
			got = append(got, fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message))
		}
	}

	want := []string{fmt.Sprintf("%s=True %s: %s", kind, reason, message)}
	if diff := cmp.Diff(want, got); diff != "" {
		f.T.Error(diff)
	}
}

func (f *fixture) jobs() []batchv1.Job {
	f.T.Helper()
	var jobs batchv1.JobList
	f.Must(f.List(f.T.Context(), &jobs, client.InNamespace(f.namespace)))
	slices.SortFunc(jobs.Items, func(a, b batchv1.Job) int { return strings.Compare(a.Name, b.Name) })
	return jobs.Items
}

// fail sets the status of a failed Job.
func (f *fixture) fail(job batchv1.Job, reason, message string) {
	f.T.Helper()
	at := metav1.NewTime(f.now)
	job.Status.StartTime = &at
	job.Status.Conditions = []batchv1.JobCondition{
		{Type: batchv1.JobFailureTarget, Status: corev1.ConditionTrue, Reason: reason, Message: message, LastTransitionTime: at},
		{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: reason, Message: message, LastTransitionTime: at},
	}
	f.Must(f.Status().Update(f.T.Context(), &job))
}

// fill writes the ConfigMap as the Job does.
func (f *fixture) fill(manifests ...string) {
	f.T.Helper()
	files := map[string]string{}
	for i, text := range manifests {
		files[strconv.Itoa(i)] = text
	}
	f.fillFiles(files)
}

// fillFiles writes the ConfigMap as the Job does.
func (f *fixture) fillFiles(files map[string]string) {
	f.T.Helper()
	var configMap corev1.ConfigMap
	f.Must(f.Get(f.T.Context(), client.ObjectKey{Namespace: f.namespace, Name: unpack.Name(image)}, &configMap))
	configMap.Annotations = map[string]string{"olm.contentEncoding": "gzip+base64", "olm.sourceImage": image}
	configMap.BinaryData = map[string][]byte{}
	for name, text := range files {
		configMap.BinaryData[name] = builder.Compress(f.T, text)
	}

	f.Must(f.Update(f.T.Context(), &configMap))
}

const (
	csv = `{"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion","metadata":{"name":"kettle.v1"},"spec":{"install":{"strategy":"deployment","spec":{
"deployments":[],"permissions":[{"serviceAccountName":"kettle","rules":[{"verbs":["get"],"resources":["pods"],"apiGroups":[""]}]}]}}}}`
	service = `{"apiVersion":"v1","kind":"Service","metadata":{"name":"kettle"}}`
)

var tenMinutes = unpack.Limits{Timeout: unpack.DefaultTimeout}

// A bundle is unpacked by a Job, and converted to steps that refer to it.
func TestUnpack(t *testing.T) {
	f := newFixture(t)
	f.expect(v1alpha1.BundleLookupPending, "JobNotStarted", "unpack job not yet started")
	result := f.unpack(tenMinutes)
	f.expect(v1alpha1.BundleLookupPending, "JobIncomplete", "unpack job not completed")
	if result.Done || result.RequeueAfter != 5*time.Second {
		t.Errorf("got the result %+v", result)
	}

	golden.Check(t, "objects.yaml", []byte(f.objects()))
	before := f.lookup
	f.now = f.now.Add(time.Minute)
	f.unpack(tenMinutes)
	if diff := cmp.Diff(before, f.lookup); diff != "" {
		t.Errorf("the lookup changed before the Job ended:\n%s", diff)
	}

	f.fill(csv, service)
	result = f.unpack(tenMinutes)
	if !result.Done || result.RequeueAfter != 0 || len(result.Lookup.Conditions) > 0 {
		t.Fatalf("got the result %+v", result)
	}

	var made []string
	for _, step := range result.Steps {
		made = append(made, step.Resource.Kind)
		ref, ok := steps.ReferenceOf(step)
		want := steps.Reference{
			Kind: "ConfigMap", Name: unpack.Name(image), Namespace: f.namespace, CatalogSourceName: "shop", CatalogSourceNamespace: f.namespace,
			Replaces: "kettle.v0", Properties: `{"properties":[]}`, Digest: ref.Digest,
		}
		if diff := cmp.Diff(want, ref); diff != "" || !ok {
			t.Errorf("%v %s", ok, diff)
		}

		again, err := unpack.StepsOf(t.Context(), f, f.trust(), "tea", ref)
		f.Must(err)
		manifest, err := steps.Manifest(step, again)
		f.Must(err)
		if step.Resource.Kind == v1alpha1.ClusterServiceVersionKind && !strings.Contains(manifest, `"replaces":"kettle.v0"`) {
			t.Errorf("got the ClusterServiceVersion %s", manifest)
		}
	}

	if diff := cmp.Diff([]string{"ClusterServiceVersion", "Service", "ServiceAccount", "Role", "RoleBinding"}, made); diff != "" {
		t.Error(diff)
	}

	// The Job is not needed any more and is not recreated.
	f.Must(f.DeleteAllOf(t.Context(), &batchv1.Job{}, client.InNamespace(f.namespace), client.PropagationPolicy(metav1.DeletePropagationBackground)))
	if f.unpack(tenMinutes); len(f.jobs()) > 0 {
		t.Errorf("got the Jobs %v, want none", f.jobs())
	}
}

// objects returns the created objects as YAML, without the fields that the API server adds.
func (f *fixture) objects() string {
	f.T.Helper()
	key := client.ObjectKey{Namespace: f.namespace, Name: unpack.Name(image)}
	var text strings.Builder
	for _, object := range []client.Object{&corev1.ConfigMap{}, &corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{}, &batchv1.Job{}} {
		f.Must(f.Get(f.T.Context(), key, object))
		object.SetManagedFields(nil)
		object.SetUID("")
		object.SetResourceVersion("")
		object.SetCreationTimestamp(metav1.Time{})
		owners := object.GetOwnerReferences()
		for i := range owners {
			owners[i].UID = ""
		}

		object.SetOwnerReferences(owners)
		if job, ok := object.(*batchv1.Job); ok {
			job.Spec.Selector = nil
			for _, label := range []string{"controller-uid", "batch.kubernetes.io/controller-uid"} {
				delete(job.Spec.Template.Labels, label)
			}
		}

		out, err := yaml.Marshal(object)
		f.Must(err)
		fmt.Fprintf(&text, "--- # %T\n%s", object, strings.ReplaceAll(string(out), f.namespace, "NAMESPACE"))
	}

	return text.String()
}

func TestNameOfImage(t *testing.T) {
	if got := unpack.Name("a"); got != "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48b" {
		t.Errorf("got the name %s", got)
	}
}

// A failed Job is reported, and retried when allowed or when it is deleted.
func TestFailure(t *testing.T) {
	f := newFixture(t)
	f.unpack(tenMinutes)
	first := f.jobs()[0]
	f.fail(first, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
	if r := f.unpack(tenMinutes); r.RequeueAfter != 5*time.Minute {
		t.Errorf("got a requeue after %v", r.RequeueAfter)
	}

	f.expect(v1alpha1.BundleLookupFailed, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
	if got := f.Failure([]v1alpha1.BundleLookup{f.lookup}); !strings.HasPrefix(got, "Bundle unpacking failed - BackoffLimitExceeded: Job has reached the specified backoff limit. ") {
		t.Errorf("got the message %q", got)
	}

	retrying := unpack.Limits{Timeout: unpack.DefaultTimeout, MinRetryInterval: time.Minute}
	if r := f.unpack(retrying); r.RequeueAfter > time.Minute || len(f.jobs()) != 1 {
		t.Errorf("got a requeue after %v and %d Jobs", r.RequeueAfter, len(f.jobs()))
	}

	for failures := 2; failures <= 7; failures++ {
		f.now = f.now.Add(2 * time.Minute)
		f.unpack(retrying)
		f.expect(v1alpha1.BundleLookupPending, "JobIncomplete", "unpack job not completed")
		jobs := f.jobs()
		if len(jobs) != min(failures, 5) {
			t.Fatalf("got %d Jobs", len(jobs))
		}

		for _, job := range jobs {
			if len(job.Status.Conditions) == 0 {
				// The API server truncates a generated name and adds five characters.
				if !strings.HasPrefix(job.Name, unpack.Name(image)[:58]) || job.Name == unpack.Name(image) {
					t.Errorf("got the Job name %s", job.Name)
				}
				f.fail(job, "DeadlineExceeded", "Job was active longer than specified deadline")
			}
		}

		f.unpack(retrying)
		f.expect(v1alpha1.BundleLookupFailed, "DeadlineExceeded", "Job was active longer than specified deadline")
	}

	// When the failed Jobs are deleted, another one is created.
	f.Must(f.DeleteAllOf(t.Context(), &batchv1.Job{}, client.InNamespace(f.namespace), client.PropagationPolicy(metav1.DeletePropagationBackground)))
	f.unpack(tenMinutes)
	f.expect(v1alpha1.BundleLookupPending, "JobIncomplete", "unpack job not completed")
	if f.Failure([]v1alpha1.BundleLookup{f.lookup}) != "" {
		t.Error("got a failure condition, want none")
	}

	f.fill(csv)
	if !f.unpack(tenMinutes).Done {
		t.Error("the bundle is not unpacked")
	}
}

// A Job that differs from the desired one is recreated.
func TestChangedTimeout(t *testing.T) {
	f := newFixture(t)
	f.unpack(tenMinutes)
	old := f.jobs()[0]
	if got := *old.Spec.ActiveDeadlineSeconds; got != 600 {
		t.Errorf("got a deadline of %d s", got)
	}

	for _, test := range []struct {
		timeout time.Duration
		want    *int64
	}{{0, nil}, {1500 * time.Millisecond, new(int64)}} {
		f.unpack(unpack.Limits{Timeout: test.timeout})
		f.expect(v1alpha1.BundleLookupPending, "JobNotStarted", "unpack job not yet started")
		f.unpack(unpack.Limits{Timeout: test.timeout})
		job := f.jobs()[0]
		if job.UID == old.UID {
			t.Error("got the old Job")
		}
		if test.want != nil {
			*test.want = 2
		}
		if diff := cmp.Diff(test.want, job.Spec.ActiveDeadlineSeconds); diff != "" {
			t.Error(diff)
		}

		old = job
	}
}

// Reasons why pods wait are reported.
func TestDescribePendingPods(t *testing.T) {
	f := newFixture(t)
	f.unpack(tenMinutes)
	job := f.jobs()[0]
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "pod", Labels: job.Spec.Template.Labels}, Spec: job.Spec.Template.Spec}
	pod.Spec.ServiceAccountName = ""
	f.Must(f.Create(t.Context(), pod))
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{
		Name: "pull", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "Back-off pulling image"}},
	}}
	f.Must(f.Status().Update(t.Context(), pod))
	f.unpack(tenMinutes)
	f.expect(v1alpha1.BundleLookupPending, "JobIncomplete",
		"unpack job not completed: Unpack pod("+f.namespace+"/pod) container(pull) is pending. Reason: ImagePullBackOff, Message: Back-off pulling image")
	if got := unpack.Progress([]v1alpha1.BundleLookup{f.lookup}); !strings.Contains(got, "cannot be pulled") || !strings.Contains(got, "Back-off pulling image") {
		t.Errorf("got the message %q", got)
	}
}

func TestNoCatalog(t *testing.T) {
	f := newFixture(t)
	f.lookup.CatalogSourceRef.Name = "gone"
	f.unpack(tenMinutes)
	f.expect(v1alpha1.BundleLookupPending, "CatalogSourceMissing", "referenced catalogsource not found")
}

// Invalid content is distinguished from failures that can be retried.
func TestInvalidContent(t *testing.T) {
	f := newFixture(t)
	f.unpack(tenMinutes)
	f.fill(strings.Replace(csv, `"apiVersion":"operators.coreos.com/v1alpha1",`, "", 1))
	_, err := f.Unpack(t.Context(), "tea", f.lookup, tenMinutes)
	invalid := (*steps.InvalidError)(nil)
	if !errors.As(err, &invalid) || err.Error() != "bundle CSV kettle.v1 missing APIVersion" {
		t.Errorf("got error %v", err)
	}
}

func TestLimits(t *testing.T) {
	for _, test := range []struct {
		timeout, retry string
		want           unpack.Limits
	}{
		{"", "", unpack.Limits{Timeout: time.Minute}},
		{"0", "5m", unpack.Limits{MinRetryInterval: 5 * time.Minute}},
		{"2s", "0", unpack.Limits{Timeout: 2 * time.Second}},
		{"-1s", "-1s", unpack.Limits{Timeout: time.Minute}},
		{"soon", "later", unpack.Limits{Timeout: time.Minute}},
	} {
		group := &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
			"operatorframework.io/bundle-unpack-timeout": test.timeout, "operatorframework.io/bundle-unpack-min-retry-interval": test.retry,
		}}}
		if diff := cmp.Diff(test.want, unpack.LimitsOf(group, time.Minute)); diff != "" {
			t.Errorf("%q, %q: %s", test.timeout, test.retry, diff)
		}
	}

	if diff := cmp.Diff(unpack.Limits{Timeout: time.Minute}, unpack.LimitsOf(nil, time.Minute)); diff != "" {
		t.Error(diff)
	}
}

// A program continues the unpacking that a killed one has begun.
func TestKilledAtEachWrite(t *testing.T) {
	f := newFixture(t)
	deaths := 0
	for {
		done := make(chan struct{})
		life := mortal.Start(t.Context(), env.Start(t), 1, func(ctx context.Context, connection *rest.Config) {
			defer close(done)
			c, err := client.New(connection, client.Options{Scheme: f.Scheme()})
			if err != nil {
				return
			}
			_, _ = f.unpacker(c).Unpack(ctx, "tea", f.lookup, tenMinutes) // the result is checked below
		})

		<-done
		died := life.IsDead()
		life.Kill()
		if !died {
			break
		}

		deaths++
	}

	if deaths != 5 {
		t.Errorf("got %d stopped programs, want one for each of five objects", deaths)
	}
	if len(f.jobs()) != 1 {
		t.Errorf("got the Jobs %v", f.jobs())
	}

	f.fill(csv)
	if !f.unpack(tenMinutes).Done {
		t.Error("the bundle is not unpacked")
	}
}
