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
	// maxObjects is how many awaited objects are named, maxPods how many pods of one, and
	// maxEvents how many events: what is wrong with the first is mostly wrong with all.
	maxObjects, maxPods, maxEvents = 5, 3, 3
)

// awaited explains what the newest revision waits for: the text, and below it the objects
// that are not ready.
func (e *explainer) awaited(text string) {
	var below []Reason
	for i, object := range e.Awaited {
		if i == maxObjects {
			below = append(below, Reason{Text: fmt.Sprintf("And %d more objects are not ready: 'mainstay extension status %s' shows all.", len(e.Awaited)-maxObjects, e.name)})
			break
		}
		below = append(below, e.object(object))
	}

	switch {
	case text != "":
		e.because(text, below...)
	case len(below) > 0:
		e.because("Objects of the newest revision are not ready.", below...)
	}
}

// object explains one object by what stands below it.
func (e *explainer) object(o Awaited) Reason {
	r := Reason{Text: fmt.Sprintf("%s is not ready: %s.", describe(o.Kind, o.Namespace, o.Name), strings.TrimSuffix(o.Message, "."))}
	for i := range o.ReplicaSets {
		for _, c := range o.ReplicaSets[i].Status.Conditions {
			if c.Type == "ReplicaFailure" && c.Status == corev1.ConditionTrue {
				r.Because = append(r.Because, Reason{Text: fmt.Sprintf("No pod can be created: %s", period(c.Message))})
				e.advise(adviceForRefusedPod(c.Message, o.Namespace))
			}
		}
	}

	seen := map[string]bool{}
	for i := range o.Pods {
		pod := &o.Pods[i]
		for _, finding := range podFindings(pod) {
			if seen[finding.text] || len(seen) == maxPods {
				continue // another replica, with the same trouble
			}
			seen[finding.text] = true
			r.Because = append(r.Because, Reason{Text: fmt.Sprintf("%s: %s", describe("Pod", pod.Namespace, pod.Name), period(finding.text))})
			e.advise(finding.advice)
		}
	}

	for _, event := range warnings(o.Events) {
		r.Because = append(r.Because, Reason{Text: eventText(event)})
		e.advise(adviceForEvent(event))
	}

	if len(r.Because) == 0 {
		e.advise(adviceForObject(o))
	}

	return r
}

// finding is what is wrong with a pod, and what to do.
type finding struct{ text, advice string }

// podFindings says what keeps a pod from being ready.
func podFindings(pod *corev1.Pod) []finding {
	if pod.Status.Phase == corev1.PodSucceeded {
		return nil
	}
	if pod.Status.Phase == corev1.PodFailed && len(pod.Status.ContainerStatuses) == 0 {
		return []finding{{text: fmt.Sprintf("it has failed (%s): %s", pod.Status.Reason, pod.Status.Message)}}
	}

	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return []finding{{
				"no node takes it: " + cmp.Or(c.Message, c.Reason),
				"Make room on the nodes, or let it onto others, with nodeSelector, tolerations or resources in spec.config.inline.deploymentConfig",
			}}
		}
	}

	var found []finding
	statuses := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
	for i := range statuses {
		if f, ok := containerFinding(pod, &statuses[i]); ok {
			found = append(found, f)
		}
	}

	return found
}

// containerFinding says what keeps a container from running and being ready. One that is
// only being started has nothing wrong with it.
func containerFinding(pod *corev1.Pod, status *corev1.ContainerStatus) (finding, bool) {
	logs := fmt.Sprintf("kubectl logs -n %s %s -c %s", pod.Namespace, pod.Name, status.Name)
	switch waiting, ended := status.State.Waiting, status.State.Terminated; {
	case waiting != nil && !isStarting(waiting.Reason):
		text := fmt.Sprintf("container %s does not start: %s", status.Name, waiting.Reason)
		if last := status.LastTerminationState.Terminated; last != nil {
			text += fmt.Sprintf(", after %d restarts; it last ended with exit code %d (%s)", status.RestartCount, last.ExitCode, last.Reason)
			if last.Message != "" {
				text += ": " + strings.TrimSpace(last.Message)
			}
			if last.Reason == "OOMKilled" {
				return finding{text, "Give it more memory, with resources in spec.config.inline.deploymentConfig"}, true
			}
		} else if waiting.Message != "" {
			text += ": " + waiting.Message
		}
		return finding{text, adviceForWaiting(waiting.Reason, status.Image, logs)}, true
	case ended != nil && ended.ExitCode != 0:
		return finding{
			fmt.Sprintf("container %s ended with exit code %d (%s)", status.Name, ended.ExitCode, ended.Reason),
			"Read why it ended: " + logs,
		}, true
	case status.State.Running != nil && !status.Ready && (status.Started == nil || *status.Started):
		return finding{fmt.Sprintf("container %s runs, but its readiness probe does not pass", status.Name), "Read what it says: " + logs}, true
	}

	return finding{}, false
}

func isStarting(reason string) bool {
	return reason == "ContainerCreating" || reason == "PodInitializing"
}

func adviceForWaiting(reason, image, logs string) string {
	switch reason {
	case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable":
		return fmt.Sprintf("See to it that the nodes can pull %s: does it exist, does the registry answer, and has the pod's account a pull secret for it?", image)
	case "CrashLoopBackOff":
		return "Read why it ended: " + logs + " --previous"
	case "CreateContainerConfigError", "CreateContainerError":
		return "Create what the message names, such as a ConfigMap or Secret"
	}

	return "Read what it says: " + logs
}

func adviceForRefusedPod(message, namespace string) string {
	switch {
	case strings.Contains(message, "PodSecurity"):
		return fmt.Sprintf("Let the namespace have such pods: kubectl label namespace %s pod-security.kubernetes.io/enforce=privileged --overwrite, or a level between", namespace)
	case strings.Contains(message, "exceeded quota"):
		return fmt.Sprintf("Raise the quota of namespace %s, or free some of it", namespace)
	case strings.Contains(message, "serviceaccount"):
		return "Create the ServiceAccount that the message names; if the bundle brings it, see why it is not there"
	}

	return "Change what refuses the pods, as the message says"
}

// warnings are the last of the events that tell of trouble, one for each reason and object.
func warnings(events []corev1.Event) []corev1.Event {
	events = slices.Clone(events)
	slices.SortStableFunc(events, func(a, b corev1.Event) int { return lastSeen(&b).Compare(lastSeen(&a).Time) })
	type identity struct{ reason, kind string }
	seen := map[identity]bool{}
	var result []corev1.Event
	for i := range events {
		id := identity{events[i].Reason, events[i].InvolvedObject.Kind}
		// What these two say stands in the pod's own status.
		if events[i].Type != corev1.EventTypeWarning || id.reason == "BackOff" || id.reason == "FailedScheduling" || seen[id] || len(result) == maxEvents {
			continue
		}
		seen[id] = true
		result = append(result, events[i])
	}

	return result
}

func lastSeen(event *corev1.Event) metav1.Time {
	switch {
	case event.Series != nil:
		return metav1.Time{Time: event.Series.LastObservedTime.Time}
	case !event.LastTimestamp.IsZero():
		return event.LastTimestamp
	default:
		return metav1.Time{Time: event.EventTime.Time}
	}
}

func eventText(event corev1.Event) string {
	times := event.Count
	if event.Series != nil {
		times = event.Series.Count
	}

	about := describe(event.InvolvedObject.Kind, event.InvolvedObject.Namespace, event.InvolvedObject.Name)
	text := fmt.Sprintf("Event %s of %s", event.Reason, about)
	if times > 1 {
		text += fmt.Sprintf(" (%d times)", times)
	}

	return text + ": " + period(event.Message)
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

// adviceForObject is what to do about an object below which nothing was found.
func adviceForObject(o Awaited) string {
	switch {
	case strings.Contains(o.Message, "has not seen the latest change"):
		return "Check that the kube-controller-manager runs: it has not looked at the latest change of " + describe(o.Kind, o.Namespace, o.Name)
	case strings.Contains(o.Message, "does not know the kind"):
		return fmt.Sprintf("Install what defines the kind %s, or choose a bundle that needs none", o.Kind)
	case o.Kind == "CustomResourceDefinition" && strings.Contains(o.Message, "names are not accepted"):
		return "Another CustomResourceDefinition has these names: remove it, or choose between the two"
	case o.Kind == "Job":
		return fmt.Sprintf("Read what the job says: kubectl logs -n %s job/%s", o.Namespace, o.Name)
	}

	return ""
}

func describe(kind, namespace, name string) string {
	if namespace == "" {
		return kind + " " + name
	}
	return kind + " " + namespace + "/" + name
}
