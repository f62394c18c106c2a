// Package simulated simulates nodes and the pods on them. No containers run. kwok's controllers, with the stages
// defined here, change the API objects as if containers ran. This needs no privileges, and a pod starts in the time of
// one API request.
//
// A simulated pod has no processes: it has no logs, exec does not work, and nothing responds at its address.
package simulated

// BehaviorAnnotation on a pod (and so on a pod template) selects how the pod behaves. If unset, the pod becomes ready,
// and completes if a Job owns it. A change on the pod itself takes effect at once, in both directions. The exception is
// a failed pod, which stays failed.
const BehaviorAnnotation = "devcluster.mainstay.dev/pod-behavior"

// Values of BehaviorAnnotation. Any other value, "" included, is as if the annotation were unset.
const (
	// Unready makes the pod run without ever becoming ready. If a Job owns the pod, it never completes.
	Unready = "unready"
	// Fail makes the containers end with exit code 1. A pod that a kubelet would restart (restartPolicy Always or
	// OnFailure) stays in CrashLoopBackOff. A pod with restartPolicy Never, or that a Job owns, fails permanently.
	Fail = "fail"
)

// NodeLabel with the value NodeLabelValue marks the simulated nodes. A Node that a test creates with this label is also
// simulated.
const (
	NodeLabel      = "devcluster.mainstay.dev/node"
	NodeLabelValue = "simulated"
)
