package retrieval

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
)

// look is how often a Job is looked at.
const look = 500 * time.Millisecond

// Workload reads release images by Jobs in the operator's namespace, which run the image on
// the operator's node and copy what the payload is made of into a folder of that node. What
// pulls the image is the container runtime, with its own mirrors, logins and trust. The
// program of the image must be this one.
type Workload struct {
	// Client reads and writes Jobs, and reads Pods, at the API server.
	Client client.Client
	// Namespace is where the Jobs are.
	Namespace string
	// Node is the name of the node that the operator runs on.
	Node string
	// Dir is the folder on that node. The operator reads it under the same name.
	Dir string
}

// Retrieve returns the payload of a release image. What is there already needs no Job. Jobs of
// other retrievals are removed first. It ends with the context, and at once when the image is
// not to be had.
func (w *Workload) Retrieve(ctx context.Context, target configv1.Release) (fs.FS, error) {
	if !strings.Contains(target.Image, "@") {
		return nil, fmt.Errorf("%s names its image by a tag, and a Job would run whatever the node has by that name: name it by digest", target.Image)
	}
	if files, ok := find(w.Dir, target.Image); ok {
		return files, nil
	}

	r := &retrieving{Workload: w, image: target.Image, job: w.jobFor(target)}
	if err := r.removeOthers(ctx); err != nil {
		return nil, err
	}

	err := wait.PollUntilContextCancel(ctx, look, true, r.step)
	if err != nil && ctx.Err() != nil && r.last != "" {
		err = fmt.Errorf("%w: %s", ctx.Err(), r.last)
	}
	if err != nil {
		return nil, fmt.Errorf("job %s/%s: %w", w.Namespace, r.job.Name, err)
	}

	files, ok := find(w.Dir, target.Image)
	if !ok {
		return nil, fmt.Errorf("job %s/%s is done, and %s does not hold the release: the operator must run on node %q and see that folder of it under the same name",
			w.Namespace, r.job.Name, w.Dir, w.Node)
	}

	return files, nil
}

// retrieving is one retrieval.
type retrieving struct {
	*Workload
	image string
	job   *batchv1.Job
	// mine is the Job that was seen at work: what it comes to counts. One that had ended
	// before, and left nothing, is of an earlier attempt.
	mine types.UID
	// last is what there was to wait for when the Job was last looked at.
	last string
}

// removeOthers removes the Jobs of other releases.
func (r *retrieving) removeOthers(ctx context.Context) error {
	var jobs batchv1.JobList
	if err := r.Client.List(ctx, &jobs, client.InNamespace(r.Namespace), client.MatchingLabels(jobLabels)); err != nil {
		return fmt.Errorf("listing the Jobs of retrievals: %w", err)
	}

	for i := range jobs.Items {
		if jobs.Items[i].Name == r.job.Name {
			continue
		}
		if err := r.remove(ctx, &jobs.Items[i]); err != nil {
			return err
		}
	}

	return nil
}

func (r *retrieving) remove(ctx context.Context, job *batchv1.Job) error {
	err := r.Client.Delete(ctx, job, client.PropagationPolicy("Background"), client.Preconditions{UID: &job.UID})
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("removing job %s/%s of an earlier retrieval: %w", r.Namespace, job.Name, err)
	}
	return nil
}

// step does what there is to do now, and tells whether the Job is done.
func (r *retrieving) step(ctx context.Context) (done bool, err error) {
	live := &batchv1.Job{}
	err = r.Client.Get(ctx, client.ObjectKeyFromObject(r.job), live)
	switch {
	case apierrors.IsNotFound(err):
		return false, r.create(ctx)
	case err != nil:
		r.last = "it cannot be read: " + err.Error()
		return false, nil //nolint:nilerr // the API server may come back
	case live.DeletionTimestamp != nil:
		return false, nil
	}

	complete, failed := endOf(live)
	_, isThere := find(r.Dir, r.image)
	switch {
	case complete && isThere:
		return true, nil
	case (complete || failed != "") && live.UID != r.mine:
		return false, r.remove(ctx, live)
	case complete:
		return true, nil
	}

	r.mine = live.UID
	hopeless, err := r.lookAtPods(ctx, live)
	switch {
	case err != nil:
		r.last = err.Error()
		return false, nil //nolint:nilerr // the same
	case hopeless:
		return false, errors.New(r.last)
	case failed != "":
		return false, errors.New(strings.TrimSuffix(failed+": "+r.last, ": "))
	}

	return false, nil
}

func (r *retrieving) create(ctx context.Context) error {
	job := r.job.DeepCopy()
	err := r.Client.Create(ctx, job)
	switch {
	case err == nil:
		r.mine = job.UID
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		return err
	default:
		r.last = "it cannot be made: " + err.Error()
	}

	return nil
}

// endOf reports whether a Job is complete, and why it failed when it did.
func endOf(job *batchv1.Job) (complete bool, failed string) {
	for _, condition := range job.Status.Conditions {
		switch {
		case condition.Status != corev1.ConditionTrue:
		case condition.Type == batchv1.JobComplete:
			complete = true
		case condition.Type == batchv1.JobFailed:
			failed = "it failed: " + condition.Message
		}
	}

	return complete, failed
}

// lookAtPods notes what the Job's Pods wait for or ended with, and tells whether the image is
// not to be had, however long one waits.
func (r *retrieving) lookAtPods(ctx context.Context, job *batchv1.Job) (hopeless bool, err error) {
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods, client.InNamespace(r.Namespace), client.MatchingLabels{batchv1.JobNameLabel: job.Name}); err != nil {
		return false, fmt.Errorf("its Pods cannot be read: %w", err)
	}
	if len(pods.Items) == 0 {
		r.last = "no Pod of it was made yet; its events say why"
	}

	for i := range pods.Items {
		for _, status := range pods.Items[i].Status.ContainerStatuses {
			if isHopeless(status) {
				hopeless = true
			}
			if said := saidBy(status); said != "" {
				r.last = said
			}
			if hopeless {
				return true, nil
			}
		}
	}

	return false, nil
}

// isHopeless reports whether a container waits for an image that does not come.
func isHopeless(status corev1.ContainerStatus) bool {
	waiting := status.State.Waiting
	if waiting == nil {
		return false
	}
	return waiting.Reason == "SignatureValidationFailed" ||
		waiting.Reason == "ErrImagePull" && (strings.Contains(waiting.Message, "manifest unknown") || strings.Contains(waiting.Message, "not found"))
}

// saidBy returns what a container waits for, or said when it ended badly.
func saidBy(status corev1.ContainerStatus) string {
	for _, state := range []corev1.ContainerState{status.State, status.LastTerminationState} {
		switch {
		case state.Waiting != nil && state.Waiting.Message != "":
			return state.Waiting.Reason + ": " + state.Waiting.Message
		case state.Terminated != nil && state.Terminated.ExitCode != 0:
			return fmt.Sprintf("its program ended with %d: %s", state.Terminated.ExitCode, strings.TrimSpace(state.Terminated.Message))
		}
	}

	return ""
}

var notInNames = regexp.MustCompile(`[^a-z0-9.-]+`)

// jobName is version-<version>-<hash>; the hash is that of the pull spec. Names of Jobs are
// labels of Pods, of at most 63 characters.
func jobName(target configv1.Release) string {
	sum := sha256.Sum256([]byte(target.Image))
	hash := hex.EncodeToString(sum[:5])
	version := notInNames.ReplaceAllString(strings.ToLower(target.Version), "-")
	const room = 63 - len("version--") - 10
	if len(version) > room {
		version = version[:room]
	}
	if version = strings.Trim(version, ".-"); version == "" {
		return "version-" + hash
	}

	return "version-" + version + "-" + hash
}
