package strategy

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

// Trouble is the reason why a Deployment is not healthy.
type Trouble int

const (
	// Waiting means that the Deployment is missing or not ready yet.
	Waiting Trouble = iota
	// Outdated means that the Deployment differs from the wanted one and must be updated.
	Outdated
	// Stuck means that the Deployment exceeded its progress deadline.
	Stuck
)

// HealthError is the error for a Deployment that is not healthy.
type HealthError struct {
	Trouble Trouble
	text    string
}

// Error returns the message for the status of the ClusterServiceVersion.
func (e *HealthError) Error() string { return e.text }

// HasTrouble reports whether an error is a *HealthError with the given trouble.
func HasTrouble(err error, trouble Trouble) bool {
	var e *HealthError
	return errors.As(err, &e) && e.Trouble == trouble
}

func newHealthError(trouble Trouble, format string, args ...any) error {
	return &HealthError{Trouble: trouble, text: fmt.Sprintf(format, args...)}
}

// Health returns a *HealthError for the first unhealthy Deployment; nil when all are healthy. live returns the
// existing Deployment of a name; nil when there is none.
//
// An outdated Deployment is reported before a stuck one: an old template that never became ready must not prevent the
// rollout of a new one.
func Health(wanted []appsv1.Deployment, live func(name string) *appsv1.Deployment) error {
	checks := []func(wanted, live *appsv1.Deployment) error{checkUpToDate, checkProgress, checkReady}
	for _, check := range checks {
		for i := range wanted {
			if err := check(&wanted[i], live(wanted[i].Name)); err != nil {
				return err
			}
		}
	}

	return nil
}

// checkUpToDate returns an error if a Deployment was created from another template, or if its hashes were edited.
func checkUpToDate(wanted, live *appsv1.Deployment) error {
	if live == nil {
		return nil
	}

	annotations := live.Spec.Template.Annotations
	if len(annotations) == 0 && len(wanted.Spec.Template.Annotations) > 0 {
		return newHealthError(Outdated, "no annotations found on deployment")
	}

	for _, key := range slices.Sorted(maps.Keys(wanted.Spec.Template.Annotations)) {
		value := wanted.Spec.Template.Annotations[key]
		found, ok := annotations[key]
		if !ok {
			return newHealthError(Outdated, "annotations on deployment does not contain expected key: %s", key)
		}
		if found != value {
			return newHealthError(Outdated, "unexpected annotation on deployment. Expected %s:%s, found %s:%s", key, value, key, found)
		}
	}

	found, ok := live.Labels[csvinfo.LabelDeploymentHash]
	if !ok {
		return newHealthError(Outdated, "deployment %s doesn't have a spec hash, update it", live.Name)
	}
	if hash := wanted.Labels[csvinfo.LabelDeploymentHash]; hash != found {
		return newHealthError(Outdated, "deployment changed old hash=%s, new hash=%s", found, hash)
	}

	return nil
}

func checkProgress(_, live *appsv1.Deployment) error {
	if live == nil || live.Status.ObservedGeneration < live.Generation {
		return nil
	}
	if c := findCondition(live, appsv1.DeploymentProgressing); c != nil && c.Reason == "ProgressDeadlineExceeded" {
		return newHealthError(Stuck, "deployment %s not ready before timeout: deployment %q exceeded its progress deadline", live.Name, live.Name)
	}
	return nil
}

func checkReady(wanted, live *appsv1.Deployment) error {
	if live == nil {
		return newHealthError(Waiting, "missing deployment with name=%s", wanted.Name)
	}

	wait := func(format string, args ...any) error {
		return newHealthError(Waiting, "waiting for deployment %s to become ready: %s", live.Name, fmt.Sprintf(format, args...))
	}
	available := findCondition(live, appsv1.DeploymentAvailable)
	switch {
	case live.Status.ObservedGeneration < live.Generation:
		return wait("waiting for spec update of deployment %q to be observed...", live.Name)
	case live.Status.Replicas > live.Status.UpdatedReplicas:
		return wait("deployment %q waiting for %d outdated replica(s) to be terminated", live.Name, live.Status.Replicas-live.Status.UpdatedReplicas)
	case available == nil:
		return wait("deployment %q not available: missing condition %q", live.Name, appsv1.DeploymentAvailable)
	case available.Status != corev1.ConditionTrue:
		return wait("deployment %q not available: %s", live.Name, available.Message)
	default:
		return nil
	}
}

func findCondition(d *appsv1.Deployment, wanted appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	i := slices.IndexFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool { return c.Type == wanted })
	if i < 0 {
		return nil
	}
	return &d.Status.Conditions[i]
}
