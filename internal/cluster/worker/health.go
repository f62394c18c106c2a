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
	// establishPause and establishLooks bound how long a new CRD is waited for: the API
	// server needs some hundredths of a second.
	establishPause = 100 * time.Millisecond
	establishLooks = 50
)

// healthy looks whether an object that is as it should be also works, and gives it as it
// is then. While a cluster is made nothing is expected to.
func (p *pass) healthy(ctx context.Context, it *item, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if p.mode == release.Initializing {
		return live, nil
	}
	if !it.isCRD() {
		return live, judgeWorkload(it, live)
	}

	for range establishLooks {
		if isEstablished(live) {
			return live, nil
		}
		if err := p.worker.sleep(ctx, establishPause); err != nil {
			return nil, err
		}
		live = empty(it)
		if err := p.worker.client.Get(ctx, client.ObjectKey{Name: it.key.Name}, live); err != nil {
			return nil, err
		}
	}

	return nil, fault{errors.New("the server does not establish it: see its conditions")}
}

func isEstablished(crd *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	for _, item := range conditions {
		if condition, _ := item.(map[string]any); condition["type"] == "Established" {
			return condition["status"] == string(corev1.ConditionTrue)
		}
	}
	return false
}

// judgeWorkload tells what keeps a workload from ever being well. That it is on its way is
// no error: the ClusterOperators tell when it has arrived.
func judgeWorkload(it *item, live *unstructured.Unstructured) error {
	switch {
	case it.key.Group == "apps" && it.key.Kind == "Deployment":
		deployment := &appsv1.Deployment{}
		if err := convert(live, deployment); err != nil {
			return err
		}
		return judgeDeployment(deployment)
	case it.key.Group == "apps" && it.key.Kind == "DaemonSet":
		if live.GetDeletionTimestamp() != nil {
			return fault{errors.New("it is being deleted, and is made anew afterwards")}
		}
	case it.key.Group == "batch" && it.key.Kind == "Job":
		job := &batchv1.Job{}
		if err := convert(live, job); err != nil {
			return err
		}
		return judgeJob(job)
	}

	return nil
}

func judgeDeployment(deployment *appsv1.Deployment) error {
	if deployment.DeletionTimestamp != nil {
		return fault{errors.New("it is being deleted, and is made anew afterwards")}
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

func judgeJob(job *batchv1.Job) error {
	for _, c := range job.Status.Conditions {
		switch {
		case c.Type != batchv1.JobFailed || c.Status != corev1.ConditionTrue:
		case c.Reason == batchv1.JobReasonDeadlineExceeded:
			return fault{fmt.Errorf("deadline exceeded, reason: %s, message: %s", c.Reason, c.Message)}
		default:
			return fault{fmt.Errorf("job failed, reason: %s, message: %s", c.Reason, c.Message)}
		}
	}

	return nil
}
