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
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// jobPollInterval is the interval at which a Job is polled.
const jobPollInterval = 500 * time.Millisecond

// Workload retrieves release images by Jobs in the operator's namespace. A Job runs the image on
// the operator's node and copies its payload to a directory of that node. The container runtime
// pulls the image, with its own mirrors, credentials and CAs. The image must contain this
// program.
type Workload struct {
	// Client reads and writes Jobs, and reads Pods, on the API server.
	Client client.Client
	// Namespace is the namespace of the Jobs.
	Namespace string
	// Node is the name of the node that the operator runs on.
	Node string
	// Dir is the directory on that node. It must be mounted at the same path in the operator.
	Dir string
}

// Retrieve returns the payload of a release image. A stored release needs no Job. Jobs of other
// retrievals are removed first. Retrieve returns an error when the context ends, and immediately
// if the image is unavailable.
func (w *Workload) Retrieve(ctx context.Context, target configv1.Release) (fs.FS, error) {
	if !strings.Contains(target.Image, "@") {
		return nil, fmt.Errorf("%s names its image by a tag, which may differ on the node: use a digest", target.Image)
	}
	if files, ok := findRelease(w.Dir, target.Image); ok {
		return files, nil
	}

	r := &jobRetrieval{Workload: w, image: target.Image, job: w.newRetrievalJob(target)}
	if err := r.removeOtherJobs(ctx); err != nil {
		return nil, err
	}

	err := wait.PollUntilContextCancel(ctx, jobPollInterval, true, r.pollJob)
	if err != nil && ctx.Err() != nil && r.lastStatus != "" {
		err = fmt.Errorf("%w: %s", ctx.Err(), r.lastStatus)
	}
	if err != nil {
		return nil, fmt.Errorf("job %s/%s: %w", w.Namespace, r.job.Name, err)
	}

	files, ok := findRelease(w.Dir, target.Image)
	if !ok {
		return nil, fmt.Errorf("job %s/%s is done, and %s does not hold the release: the operator must run on node %q and mount that directory of the node at the same path",
			w.Namespace, r.job.Name, w.Dir, w.Node)
	}

	return files, nil
}

// jobRetrieval is one retrieval.
type jobRetrieval struct {
	*Workload
	image string
	job   *batchv1.Job
	// activeUID is the UID of the Job that was seen running. Only its result counts: a Job that
	// had already ended and stored nothing belongs to an earlier attempt.
	activeUID types.UID
	// lastStatus describes what the Job waited for in the last poll.
	lastStatus string
}

// removeOtherJobs removes the Jobs of other releases.
func (r *jobRetrieval) removeOtherJobs(ctx context.Context) error {
	var jobs batchv1.JobList
	if err := r.Client.List(ctx, &jobs, client.InNamespace(r.Namespace), client.MatchingLabels(jobLabels)); err != nil {
		return fmt.Errorf("listing the Jobs of retrievals: %w", err)
	}

	for i := range jobs.Items {
		if jobs.Items[i].Name == r.job.Name {
			continue
		}
		if err := r.removeJob(ctx, &jobs.Items[i]); err != nil {
			return err
		}
	}

	return nil
}

func (r *jobRetrieval) removeJob(ctx context.Context, job *batchv1.Job) error {
	err := r.Client.Delete(ctx, job, client.PropagationPolicy("Background"), client.Preconditions{UID: &job.UID})
	if reconcile.IgnoreStale(err) != nil {
		return fmt.Errorf("removing job %s/%s of an earlier retrieval: %w", r.Namespace, job.Name, err)
	}
	return nil
}

// pollJob creates, removes or checks the Job, and reports whether it is done.
func (r *jobRetrieval) pollJob(ctx context.Context) (done bool, err error) {
	live := &batchv1.Job{}
	err = r.Client.Get(ctx, client.ObjectKeyFromObject(r.job), live)
	switch {
	case apierrors.IsNotFound(err):
		return false, r.createJob(ctx)
	case err != nil:
		r.lastStatus = "it cannot be read: " + err.Error()
		return false, nil //nolint:nilerr // the API server may come back
	case live.DeletionTimestamp != nil:
		return false, nil
	}

	complete, failed := jobOutcome(live)
	_, isThere := findRelease(r.Dir, r.image)
	switch {
	case complete && isThere:
		return true, nil
	case (complete || failed != "") && live.UID != r.activeUID:
		return false, r.removeJob(ctx, live)
	case complete:
		return true, nil
	}

	r.activeUID = live.UID
	hopeless, err := r.checkPods(ctx, live)
	switch {
	case err != nil:
		r.lastStatus = err.Error()
		return false, nil //nolint:nilerr // the same
	case hopeless:
		return false, errors.New(r.lastStatus)
	case failed != "":
		return false, errors.New(strings.TrimSuffix(failed+": "+r.lastStatus, ": "))
	}

	return false, nil
}

func (r *jobRetrieval) createJob(ctx context.Context) error {
	job := r.job.DeepCopy()
	err := r.Client.Create(ctx, job)
	switch {
	case err == nil:
		r.activeUID = job.UID
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		return err
	default:
		r.lastStatus = "it cannot be created: " + err.Error()
	}

	return nil
}

// jobOutcome returns whether a Job is complete, and the message if it failed.
func jobOutcome(job *batchv1.Job) (complete bool, failed string) {
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

// checkPods records the problem of the Job's Pods. It reports whether the image is unavailable,
// so that waiting does not help.
func (r *jobRetrieval) checkPods(ctx context.Context, job *batchv1.Job) (hopeless bool, err error) {
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods, client.InNamespace(r.Namespace), client.MatchingLabels{batchv1.JobNameLabel: job.Name}); err != nil {
		return false, fmt.Errorf("listing its Pods: %w", err)
	}
	if len(pods.Items) == 0 {
		r.lastStatus = "no Pod was created yet; see the events of the Job"
	}

	for i := range pods.Items {
		for _, status := range pods.Items[i].Status.ContainerStatuses {
			if isImageUnavailable(status) {
				hopeless = true
			}
			if said := containerProblem(status); said != "" {
				r.lastStatus = said
			}
			if hopeless {
				return true, nil
			}
		}
	}

	return false, nil
}

// isImageUnavailable reports whether a container waits for an image that cannot be pulled.
func isImageUnavailable(status corev1.ContainerStatus) bool {
	waiting := status.State.Waiting
	if waiting == nil {
		return false
	}
	return waiting.Reason == "SignatureValidationFailed" ||
		waiting.Reason == "ErrImagePull" && (strings.Contains(waiting.Message, "manifest unknown") || strings.Contains(waiting.Message, "not found"))
}

// containerProblem returns why a container waits, or the termination message if it failed.
func containerProblem(status corev1.ContainerStatus) string {
	for _, state := range []corev1.ContainerState{status.State, status.LastTerminationState} {
		switch {
		case state.Waiting != nil && state.Waiting.Message != "":
			return state.Waiting.Reason + ": " + state.Waiting.Message
		case state.Terminated != nil && state.Terminated.ExitCode != 0:
			return fmt.Sprintf("its container exited with code %d: %s", state.Terminated.ExitCode, strings.TrimSpace(state.Terminated.Message))
		}
	}

	return ""
}

var invalidNameChars = regexp.MustCompile(`[^a-z0-9.-]+`)

// retrievalJobName returns version-<version>-<hash>, where hash is that of the pull spec. It has at most
// 63 characters, because Pods have the name as a label.
func retrievalJobName(target configv1.Release) string {
	sum := sha256.Sum256([]byte(target.Image))
	hash := hex.EncodeToString(sum[:5])
	version := invalidNameChars.ReplaceAllString(strings.ToLower(target.Version), "-")
	const room = 63 - len("version--") - 10
	if len(version) > room {
		version = version[:room]
	}
	if version = strings.Trim(version, ".-"); version == "" {
		return "version-" + hash
	}

	return "version-" + version + "-" + hash
}
