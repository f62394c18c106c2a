package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// These constants limit the number of awaited objects, of pods per object, and of
	// events in an explanation. Usually all share the problem of the first.
	maxAwaitedObjects, maxPods, maxEvents = 5, 3, 3
)

// explainAwaitedObjects adds a reason with the objects of the newest revision that are not
// ready.
func (e *explainer) explainAwaitedObjects(text string) {
	var below []Reason
	for i, object := range e.Awaited {
		if i == maxAwaitedObjects {
			below = append(below, Reason{Text: fmt.Sprintf("And %d more objects are not ready: 'mainstay extension status %s' shows all.", len(e.Awaited)-maxAwaitedObjects, e.name)})
			break
		}
		below = append(below, e.explainObject(object))
	}

	switch {
	case text != "":
		e.addReason(text, below...)
	case len(below) > 0:
		e.addReason("Objects of the newest revision are not ready.", below...)
	}
}

// explainObject explains an object by its ReplicaSets, pods and events.
func (e *explainer) explainObject(o AwaitedObject) Reason {
	r := Reason{Text: fmt.Sprintf("%s is not ready: %s.", describeObject(o.Kind, o.Namespace, o.Name), strings.TrimSuffix(o.Message, "."))}
	for i := range o.ReplicaSets {
		for _, c := range o.ReplicaSets[i].Status.Conditions {
			if c.Type == "ReplicaFailure" && c.Status == corev1.ConditionTrue {
				r.Because = append(r.Because, Reason{Text: fmt.Sprintf("No pod can be created: %s", ensureFullStop(c.Message))})
				e.addAdvice(adviceForRefusedPod(c.Message, o.Namespace))
			}
		}
	}

	seen := map[string]bool{}
	for i := range o.Pods {
		pod := &o.Pods[i]
		for _, finding := range findPodProblems(pod) {
			if seen[finding.text] || len(seen) == maxPods {
				continue // another replica with the same problem
			}
			seen[finding.text] = true
			r.Because = append(r.Because, Reason{Text: fmt.Sprintf("%s: %s", describeObject("Pod", pod.Namespace, pod.Name), ensureFullStop(finding.text))})
			e.addAdvice(finding.advice)
		}
	}

	for _, event := range selectWarningEvents(o.Events) {
		r.Because = append(r.Because, Reason{Text: formatEvent(event)})
		e.addAdvice(adviceForEvent(event))
	}

	if len(r.Because) == 0 {
		e.addAdvice(adviceForObject(o))
	}

	return r
}

// podProblem is a problem of a pod with advice.
type podProblem struct{ text, advice string }

// findPodProblems returns what prevents a pod from becoming ready.
func findPodProblems(pod *corev1.Pod) []podProblem {
	if pod.Status.Phase == corev1.PodSucceeded {
		return nil
	}
	if pod.Status.Phase == corev1.PodFailed && len(pod.Status.ContainerStatuses) == 0 {
		return []podProblem{{text: fmt.Sprintf("it has failed (%s): %s", pod.Status.Reason, pod.Status.Message)}}
	}

	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return []podProblem{{
				"it cannot be scheduled: " + cmp.Or(c.Message, c.Reason),
				"Free resources on the nodes, or allow other nodes, with nodeSelector, tolerations or resources in spec.config.inline.deploymentConfig",
			}}
		}
	}

	var found []podProblem
	statuses := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
	for i := range statuses {
		if f, ok := findContainerProblem(pod, &statuses[i]); ok {
			found = append(found, f)
		}
	}

	return found
}

// findContainerProblem returns what prevents a container from becoming ready. A container
// that is starting has no problem.
func findContainerProblem(pod *corev1.Pod, status *corev1.ContainerStatus) (podProblem, bool) {
	logs := fmt.Sprintf("kubectl logs -n %s %s -c %s", pod.Namespace, pod.Name, status.Name)
	switch waiting, ended := status.State.Waiting, status.State.Terminated; {
	case waiting != nil && !isStartingReason(waiting.Reason):
		text := fmt.Sprintf("container %s does not start: %s", status.Name, waiting.Reason)
		if last := status.LastTerminationState.Terminated; last != nil {
			text += fmt.Sprintf(", after %d restarts; it last ended with exit code %d (%s)", status.RestartCount, last.ExitCode, last.Reason)
			if last.Message != "" {
				text += ": " + strings.TrimSpace(last.Message)
			}
			if last.Reason == "OOMKilled" {
				return podProblem{text, "Give it more memory, with resources in spec.config.inline.deploymentConfig"}, true
			}
		} else if waiting.Message != "" {
			text += ": " + waiting.Message
		}
		return podProblem{text, adviceForWaiting(waiting.Reason, status.Image, logs)}, true
	case ended != nil && ended.ExitCode != 0:
		return podProblem{
			fmt.Sprintf("container %s ended with exit code %d (%s)", status.Name, ended.ExitCode, ended.Reason),
			"Read why it ended: " + logs,
		}, true
	case status.State.Running != nil && !status.Ready && (status.Started == nil || *status.Started):
		return podProblem{fmt.Sprintf("container %s runs, but its readiness probe does not pass", status.Name), "Read its logs: " + logs}, true
	}

	return podProblem{}, false
}

func isStartingReason(reason string) bool {
	return reason == "ContainerCreating" || reason == "PodInitializing"
}

func adviceForWaiting(reason, image, logs string) string {
	switch reason {
	case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable":
		return fmt.Sprintf("Make sure that the nodes can pull %s: check that the image exists, that the registry is reachable, and that the pod's service account has a pull secret for it", image)
	case "CrashLoopBackOff":
		return "Read why it ended: " + logs + " --previous"
	case "CreateContainerConfigError", "CreateContainerError":
		return "Create what the message names, such as a ConfigMap or Secret"
	}

	return "Read its logs: " + logs
}

func adviceForRefusedPod(message, namespace string) string {
	switch {
	case strings.Contains(message, "PodSecurity"):
		return fmt.Sprintf("Allow such pods in the namespace: kubectl label namespace %s pod-security.kubernetes.io/enforce=privileged --overwrite, or a level between", namespace)
	case strings.Contains(message, "exceeded quota"):
		return fmt.Sprintf("Raise the quota of namespace %s, or free some of it", namespace)
	case strings.Contains(message, "serviceaccount"):
		return "Create the ServiceAccount that the message names; if the bundle contains it, find out why it does not exist"
	}

	return "Change what refuses the pods, as the message says"
}

// selectWarningEvents returns the latest warning events, one for each reason and kind.
func selectWarningEvents(events []corev1.Event) []corev1.Event {
	events = slices.Clone(events)
	slices.SortStableFunc(events, func(a, b corev1.Event) int { return eventLastSeen(&b).Compare(eventLastSeen(&a).Time) })
	type identity struct{ reason, kind string }
	seen := map[identity]bool{}
	var result []corev1.Event
	for i := range events {
		id := identity{events[i].Reason, events[i].InvolvedObject.Kind}
		// The pod's status contains the same information as these two.
		if events[i].Type != corev1.EventTypeWarning || id.reason == "BackOff" || id.reason == "FailedScheduling" || seen[id] || len(result) == maxEvents {
			continue
		}
		seen[id] = true
		result = append(result, events[i])
	}

	return result
}

func eventLastSeen(event *corev1.Event) metav1.Time {
	switch {
	case event.Series != nil:
		return metav1.Time{Time: event.Series.LastObservedTime.Time}
	case !event.LastTimestamp.IsZero():
		return event.LastTimestamp
	default:
		return metav1.Time{Time: event.EventTime.Time}
	}
}

func formatEvent(event corev1.Event) string {
	times := event.Count
	if event.Series != nil {
		times = event.Series.Count
	}

	about := describeObject(event.InvolvedObject.Kind, event.InvolvedObject.Namespace, event.InvolvedObject.Name)
	text := fmt.Sprintf("Event %s of %s", event.Reason, about)
	if times > 1 {
		text += fmt.Sprintf(" (%d times)", times)
	}

	return text + ": " + ensureFullStop(event.Message)
}

func adviceForEvent(event corev1.Event) string {
	switch event.Reason {
	case "FailedMount", "FailedAttachVolume":
		return "Create the Secret, ConfigMap or volume that the pod mounts, as the event says"
	case "FailedCreate":
		return adviceForRefusedPod(event.Message, event.InvolvedObject.Namespace)
	}
	return ""
}

// adviceForObject returns advice for an object without any other findings.
func adviceForObject(o AwaitedObject) string {
	switch {
	case strings.Contains(o.Message, "has not seen the latest change"):
		return "Check that the kube-controller-manager runs: it has not observed the latest change of " + describeObject(o.Kind, o.Namespace, o.Name)
	case strings.Contains(o.Message, "does not know the kind"):
		return fmt.Sprintf("Install what defines the kind %s, or choose a bundle that needs none", o.Kind)
	case o.Kind == "CustomResourceDefinition" && strings.Contains(o.Message, "names are not accepted"):
		return "Another CustomResourceDefinition has these names: remove it, or choose between the two"
	case o.Kind == "Job":
		return fmt.Sprintf("Read the logs of the job: kubectl logs -n %s job/%s", o.Namespace, o.Name)
	}

	return ""
}

func describeObject(kind, namespace, name string) string {
	if namespace == "" {
		return kind + " " + name
	}
	return kind + " " + namespace + "/" + name
}
