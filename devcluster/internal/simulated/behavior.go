// Package simulated plays nodes and the pods on them: nothing runs, but the API objects change as if it did, by kwok's
// controllers and the stages defined here. It needs no privileges and starts a pod in the time of one API request.
//
// A pod that is played has no processes: there is nothing to exec into, no logs, and its address answers nobody.
package simulated

// BehaviorAnnotation on a pod (and so on a pod template) says how the pod fares. Unset, it does well: it becomes ready, and
// completes if a Job owns it. A change on the pod itself takes effect at once, in both directions, except that a pod that
// has failed stays failed.
const BehaviorAnnotation = "devcluster.mainstay.dev/pod-behavior"

// Values of BehaviorAnnotation. Any other value, "" included, is as if the annotation were unset.
const (
	// Unready: the pod runs and never becomes ready. One that a Job owns never completes.
	Unready = "unready"
	// Fail: the containers end with exit code 1. A pod that its kubelet would restart (restartPolicy Always or OnFailure)
	// stays in CrashLoopBackOff; one that it would not (Never), or that a Job owns, has failed for good.
	Fail = "fail"
)

// NodeLabel with the value NodeLabelValue marks the nodes that are played. A Node that a test creates itself with this
// label is played as well.
const (
	NodeLabel      = "devcluster.mainstay.dev/node"
	NodeLabelValue = "simulated"
)
