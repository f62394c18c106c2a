package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/release"
)

const (
	// establishedPollInterval and maxEstablishedPolls limit the wait for a new CRD. The API
	// server needs some hundredths of a second.
	establishedPollInterval = 100 * time.Millisecond
	maxEstablishedPolls     = 50
)

// awaitHealthyObject checks whether an applied object is healthy, and returns its latest state.
// It waits only for CRDs. While the cluster is initialized, nothing is checked.
func (a *objectApplier) awaitHealthyObject(ctx context.Context, it *item, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if a.mode == release.Initializing {
		return live, nil
	}
	if !it.isCRD() {
		return live, checkWorkload(it, live)
	}

	for range maxEstablishedPolls {
		if isCRDEstablished(live) {
			return live, nil
		}
		if err := sleepContext(ctx, a.clock, establishedPollInterval); err != nil {
			return nil, err
		}
		live = newEmptyObject(it)
		if err := a.client.Get(ctx, client.ObjectKey{Name: it.key.Name}, live); err != nil {
			return nil, err
		}
	}

	return nil, manifestError{errors.New("the server does not establish it: see its conditions")}
}

func isCRDEstablished(crd *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	for _, item := range conditions {
		if condition, _ := item.(map[string]any); condition["type"] == "Established" {
			return condition["status"] == string(corev1.ConditionTrue)
		}
	}
	return false
}

// checkWorkload returns an error if a workload cannot become healthy. A rollout in progress is
// no error: the ClusterOperators report its end.
func checkWorkload(it *item, live *unstructured.Unstructured) error {
	switch {
	case it.key.Group == "apps" && it.key.Kind == "Deployment":
		deployment := &appsv1.Deployment{}
		if err := fromUnstructured(live, deployment); err != nil {
			return err
		}
		return checkDeployment(deployment)
	case it.key.Group == "apps" && it.key.Kind == "DaemonSet":
		if live.GetDeletionTimestamp() != nil {
			return manifestError{errors.New("it is being deleted, and will be created again afterwards")}
		}
	case it.key.Group == "batch" && it.key.Kind == "Job":
		job := &batchv1.Job{}
		if err := fromUnstructured(live, job); err != nil {
			return err
		}
		return checkJob(job)
	}

	return nil
}

func checkDeployment(deployment *appsv1.Deployment) error {
	if deployment.DeletionTimestamp != nil {
		return manifestError{errors.New("it is being deleted, and will be created again afterwards")}
	}

	name := deployment.Namespace + "/" + deployment.Name
	conditions := map[appsv1.DeploymentConditionType]appsv1.DeploymentCondition{}
	for _, c := range deployment.Status.Conditions {
		conditions[c.Type] = c
	}

	problem := func(reason, format string, args ...any) error {
		return &Error{Reason: reason, Effect: EffectFail, Message: fmt.Sprintf("deployment %s "+format, append([]any{name}, args...)...), Names: []string{name}}
	}
	failure, progressing, available := conditions[appsv1.DeploymentReplicaFailure], conditions[appsv1.DeploymentProgressing], conditions[appsv1.DeploymentAvailable]
	switch {
	case failure.Status == corev1.ConditionTrue:
		return problem(ReasonWorkloadNotProgressing, "has a replica failure %s: %s", failure.Reason, failure.Message)
	case progressing.Status == corev1.ConditionFalse && progressing.Reason == "ProgressDeadlineExceeded":
		return problem(ReasonWorkloadNotProgressing, "is Progressing=False: %s: %s", progressing.Reason, progressing.Message)
	case progressing.Status == corev1.ConditionFalse && available.Status == corev1.ConditionFalse:
		return problem(ReasonWorkloadNotAvailable, "is not available %s (%s) and not progressing %s (%s)", available.Reason, available.Message, progressing.Reason, progressing.Message)
	}

	return nil
}

func checkJob(job *batchv1.Job) error {
	for _, c := range job.Status.Conditions {
		switch {
		case c.Type != batchv1.JobFailed || c.Status != corev1.ConditionTrue:
		case c.Reason == batchv1.JobReasonDeadlineExceeded:
			return manifestError{fmt.Errorf("deadline exceeded, reason: %s, message: %s", c.Reason, c.Message)}
		default:
			return manifestError{fmt.Errorf("job failed, reason: %s, message: %s", c.Reason, c.Message)}
		}
	}

	return nil
}
