package retrieval

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

func TestMain(m *testing.M) { os.Exit(env.Run(m)) }

// waitTimeout limits every wait of a test.
const waitTimeout = 60 * time.Second

const signed = "registry.example.com/release@sha256:d017b6b08f7397c8f5e857272599a4d4f5dd73b197d1b9125112a7df679a7c64"

// fixture is a Workload in its own namespace. The tests act as controller and kubelet for its
// Jobs.
type fixture struct {
	*Workload
	t *testing.T
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	c := env.Client(t, corev1.AddToScheme, batchv1.AddToScheme)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "retrieval-"}}
	if err := c.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	return &fixture{t: t, Workload: &Workload{Client: c, Namespace: namespace.Name, Node: "master-0", Dir: t.TempDir()}}
}

// playJob waits for a Job that did not exist before, and calls a function with it.
func (f *fixture) playJob(before []types.UID, act func(ctx context.Context, job *batchv1.Job) error) <-chan error {
	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(f.t.Context(), waitTimeout)
		defer cancel()
		for ; ctx.Err() == nil; time.Sleep(10 * time.Millisecond) { // polls for a state
			list := f.listJobs(ctx)
			for i := range list {
				if !slices.Contains(before, list[i].UID) && list[i].Name != "other" {
					done <- act(ctx, &list[i])
					return
				}
			}
		}
		done <- errors.New("no Job was made")
	}()

	return done
}

func (f *fixture) listJobs(ctx context.Context) []batchv1.Job {
	var list batchv1.JobList
	if err := f.Client.List(ctx, &list, client.InNamespace(f.Namespace)); err != nil && ctx.Err() == nil {
		f.t.Error(err)
	}
	return list.Items
}

// completeJob stores the release like the program of the Job, and completes the Job.
func (f *fixture) completeJob(ctx context.Context, job *batchv1.Job) error {
	if err := Put(ctx, f.Dir, job.Spec.Template.Spec.Containers[0].Image, content); err != nil {
		return err
	}
	return f.finishJob(ctx, job, batchv1.JobSuccessCriteriaMet, batchv1.JobComplete, "")
}

// finishJob sets the conditions of a finished Job, as its controller does.
func (f *fixture) finishJob(ctx context.Context, job *batchv1.Job, before, end batchv1.JobConditionType, message string) error {
	now := metav1.Now()
	job.Status.StartTime = &now
	if end == batchv1.JobComplete {
		job.Status.CompletionTime, job.Status.Succeeded = &now, 1
	}

	for _, condition := range []batchv1.JobConditionType{before, end} {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{
			Type: condition, Status: corev1.ConditionTrue, Reason: "Test", Message: message, LastTransitionTime: now, LastProbeTime: now,
		})
	}

	return f.Client.Status().Update(ctx, job)
}

// createPod creates the Pod of a Job with a container state.
func (f *fixture) createPod(ctx context.Context, job *batchv1.Job, state corev1.ContainerState) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, GenerateName: job.Name + "-", Labels: map[string]string{batchv1.JobNameLabel: job.Name}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "copy", Image: signed}}},
	}
	if err := f.Client.Create(ctx, pod); err != nil {
		return err
	}

	pod.Status = corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{Name: "copy", Image: signed, State: state}}}
	return f.Client.Status().Update(ctx, pod)
}

// retrieveTarget retrieves the target with a timeout.
func (f *fixture) retrieveTarget(ctx context.Context) (fs.FS, error) {
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	return f.Retrieve(ctx, target)
}

func (f *fixture) expectPlayed(played <-chan error) {
	f.t.Helper()
	if err := <-played; err != nil {
		f.t.Fatal(err)
	}
}

var target = configv1.Release{Version: "1.2.0-rc.1+Build_7", Image: signed}

func TestJob(t *testing.T) {
	f := newFixture(t)
	other := f.newRetrievalJob(configv1.Release{Version: "1.0.0", Image: "registry.example.com/release@sha256:0"})
	other.Name = "other"
	if err := f.Client.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}

	played := f.playJob(nil, f.completeJob)
	files, err := f.retrieveTarget(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	f.expectPlayed(played)
	if data, err := fs.ReadFile(files, "manifests/0000_00_a_1.yaml"); err != nil || string(data) != "own" {
		t.Errorf("got content %q of the release (error %v), want own", data, err)
	}

	all := slices.DeleteFunc(f.listJobs(t.Context()), func(job batchv1.Job) bool { return job.DeletionTimestamp != nil })
	if len(all) != 1 {
		t.Fatalf("got %d Jobs, want 1: %v", len(all), all)
	}

	pod := all[0].Spec.Template.Spec
	if name := all[0].Name; !regexp.MustCompile(`^version-1\.2\.0-rc\.1-build-7-[0-9a-f]{10}$`).MatchString(name) {
		t.Errorf("got the Job name %q, want the version and a hash", name)
	}
	if pod.NodeName != "master-0" || pod.Containers[0].Image != signed || pod.Volumes[0].HostPath.Path != f.Dir || *pod.AutomountServiceAccountToken {
		t.Errorf("got Pod %+v, want one on node master-0 with the release image, the folder and no token", pod)
	}

	// The release is stored now: neither a Job nor an API server is needed.
	without := &Workload{Namespace: f.Namespace, Node: f.Node, Dir: f.Dir}
	if _, err := without.Retrieve(t.Context(), target); err != nil {
		t.Errorf("got error %v for a stored release without an API server, want none", err)
	}
}

// A Job that has ended without storing the release is recreated. A running Job is awaited.
func TestJobOfAnEarlierAttempt(t *testing.T) {
	f := newFixture(t)
	old := f.newRetrievalJob(target)
	if err := f.Client.Create(t.Context(), old); err != nil {
		t.Fatal(err)
	}

	uid := old.UID
	if err := f.finishJob(t.Context(), old, batchv1.JobFailureTarget, batchv1.JobFailed, "of old"); err != nil {
		t.Fatal(err)
	}

	played := f.playJob([]types.UID{uid}, f.completeJob)
	if _, err := f.retrieveTarget(t.Context()); err != nil {
		t.Fatal(err)
	}

	f.expectPlayed(played)
	if all := f.listJobs(t.Context()); len(all) != 1 || all[0].UID == uid {
		t.Errorf("got Jobs %v, want one new Job", all)
	}

	// The Job completes between the two checks of a poll.
	f = newFixture(t)
	done := f.newRetrievalJob(target)
	if err := f.Client.Create(t.Context(), done); err != nil {
		t.Fatal(err)
	}
	if err := f.completeJob(t.Context(), done); err != nil {
		t.Fatal(err)
	}

	r := &jobRetrieval{Workload: f.Workload, image: target.Image, job: f.newRetrievalJob(target)}
	if isDone, err := r.pollJob(t.Context()); !isDone || err != nil {
		t.Errorf("a Job that has stored the release: got done %t (error %v), want true", isDone, err)
	}

	f = newFixture(t)
	atWork := f.newRetrievalJob(target)
	if err := f.Client.Create(t.Context(), atWork); err != nil {
		t.Fatal(err)
	}

	played = f.playJob(nil, f.completeJob)
	if _, err := f.retrieveTarget(t.Context()); err != nil {
		t.Fatal(err)
	}

	f.expectPlayed(played)
	if all := f.listJobs(t.Context()); len(all) != 1 || all[0].UID != atWork.UID {
		t.Errorf("got Jobs %v, want the running Job", all)
	}
}

func TestJobsThatFail(t *testing.T) {
	for name, test := range map[string]struct {
		act  func(f *fixture, ctx context.Context, job *batchv1.Job) error
		want string
	}{
		"no such image": {func(f *fixture, ctx context.Context, job *batchv1.Job) error {
			return f.createPod(ctx, job, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "reading manifest: manifest unknown"}})
		}, "ErrImagePull: reading manifest: manifest unknown"},
		"not signed": {func(f *fixture, ctx context.Context, job *batchv1.Job) error {
			return f.createPod(ctx, job, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "SignatureValidationFailed", Message: "no signature"}})
		}, "SignatureValidationFailed: no signature"},
		"its program fails": {func(f *fixture, ctx context.Context, job *batchv1.Job) error {
			err := f.createPod(ctx, job, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: "no space left on device\n"}})
			return errors.Join(err, f.finishJob(ctx, job, batchv1.JobFailureTarget, batchv1.JobFailed, "Job has reached the specified backoff limit"))
		}, "it failed: Job has reached the specified backoff limit: its container exited with code 1: no space left on device"},
		"another node": {func(f *fixture, ctx context.Context, job *batchv1.Job) error {
			return f.finishJob(ctx, job, batchv1.JobSuccessCriteriaMet, batchv1.JobComplete, "")
		}, `does not hold the release: the operator must run on node "master-0"`},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			played := f.playJob(nil, func(ctx context.Context, job *batchv1.Job) error { return test.act(f, ctx, job) })
			_, err := f.retrieveTarget(t.Context())
			f.expectPlayed(played)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want %s", err, test.want)
			}
		})
	}
}

// The wait for a Job that does not end stops with the context. The error contains the message of
// its Pod.
func TestJobThatHangs(t *testing.T) {
	f := newFixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	played := f.playJob(nil, func(within context.Context, job *batchv1.Job) error {
		return f.createPod(within, job, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "the registry is away"}})
	})
	workload := *f.Workload
	workload.Client = notifyingClient{f.Client, cancel}
	_, err := workload.Retrieve(ctx, target)
	f.expectPlayed(played)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "ImagePullBackOff: the registry is away") {
		t.Errorf("got error %v, want context.Canceled with the message of the Pod", err)
	}
}

// notifyingClient signals when it has listed a Pod with a message.
type notifyingClient struct {
	client.Client
	seen func()
}

func (l notifyingClient) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := l.Client.List(ctx, list, options...)
	if pods, ok := list.(*corev1.PodList); ok && len(pods.Items) > 0 && len(pods.Items[0].Status.ContainerStatuses) > 0 {
		l.seen()
	}
	return err
}

func TestJobNeedsADigest(t *testing.T) {
	_, err := (&Workload{Dir: t.TempDir()}).Retrieve(t.Context(), configv1.Release{Image: "registry.example.com/release:1.2.0"})
	if err == nil || !strings.Contains(err.Error(), "use a digest") {
		t.Errorf("got error %v, want one that requires a digest", err)
	}
}

func TestJobName(t *testing.T) {
	long := retrievalJobName(configv1.Release{Version: "1.2.0-" + strings.Repeat("x", 80), Image: signed})
	if len(long) != 63 {
		t.Errorf("got the name %q of %d characters, want 63", long, len(long))
	}
	if name := retrievalJobName(configv1.Release{Image: signed}); !regexp.MustCompile(`^version-[0-9a-f]{10}$`).MatchString(name) {
		t.Errorf("got the name %q without a version, want version and a hash", name)
	}
}

// The kustomize component in config makes the shipped Deployment retrieve releases by Jobs.
func TestShippedComponent(t *testing.T) {
	f := newFixture(t)
	root, err := checkout.Root()
	if err != nil {
		t.Fatal(err)
	}

	read := func(name string, into any) {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(root, "config", "cluster-version-operator", filepath.FromSlash(name)))
		if err == nil {
			err = yaml.Unmarshal(data, into)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}

	deployment, account := &unstructured.Unstructured{}, &unstructured.Unstructured{}
	read("deployment.yaml", &deployment.Object)
	read("retrieval-job/service_account.yaml", &account.Object)
	var component struct {
		Patches []struct{ Patch string }
	}
	read("retrieval-job/kustomization.yaml", &component)
	deployment.SetNamespace(f.Namespace)
	if err := f.Client.Create(t.Context(), deployment, client.FieldValidation("Strict")); err != nil {
		t.Fatal(err)
	}

	patch, err := yaml.YAMLToJSON([]byte(component.Patches[0].Patch))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Client.Patch(t.Context(), deployment, client.RawPatch(types.JSONPatchType, patch), client.FieldValidation("Strict")); err != nil {
		t.Fatal(err)
	}

	patched := &appsv1.Deployment{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(deployment.Object, patched); err != nil {
		t.Fatal(err)
	}

	pod := patched.Spec.Template.Spec
	mount := pod.Containers[0].VolumeMounts[len(pod.Containers[0].VolumeMounts)-1]
	volume := pod.Volumes[len(pod.Volumes)-1]
	if !slices.Contains(pod.Containers[0].Args, "--retrieval=job") || volume.Name != mount.Name || volume.HostPath.Path != mount.MountPath || mount.MountPath != DefaultDir {
		t.Errorf("got unexpected Pods %+v", pod)
	}
	if account.GetName() != Account || account.GetNamespace() != "openshift-cluster-version" {
		t.Errorf("got service account %s/%s, want openshift-cluster-version/%s", account.GetNamespace(), account.GetName(), Account)
	}
}
