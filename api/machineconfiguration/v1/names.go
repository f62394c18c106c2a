package v1

// LabelRole is the label of a MachineConfig with the role of the nodes that it applies to. Pools select by it.
const LabelRole = "machineconfiguration.openshift.io/role"

// LabelRequiredForUpgrade is the label of a pool that makes an update of the cluster wait until the pool is updated.
const LabelRequiredForUpgrade = "operator.machineconfiguration.openshift.io/required-for-upgrade"

// Names of predefined pools.
const (
	// PoolMaster is the pool of the control plane.
	PoolMaster = "master"
	// PoolArbiter is the pool of nodes that only take part in the quorum of the control plane.
	PoolArbiter = "arbiter"
	// PoolWorker is the pool of all other nodes.
	PoolWorker = "worker"
)

// Annotations of rendered MachineConfigs.
const (
	// AnnotationGeneratedBy is the version of the controller that rendered the configuration.
	AnnotationGeneratedBy = "machineconfiguration.openshift.io/generated-by-controller-version"
	// AnnotationReleaseVersion is the version of the release that its operating system belongs to.
	AnnotationReleaseVersion = "machineconfiguration.openshift.io/release-image-version"
	// AnnotationOSImageOverridden reports whether a MachineConfig overrides the release's image.
	AnnotationOSImageOverridden = "machineconfiguration.openshift.io/os-image-url-overridden"
)

// Annotations of nodes, by which the controller and the daemon of a node communicate.
const (
	// AnnotationCurrentConfig is the rendered configuration that the node has. The daemon writes it.
	AnnotationCurrentConfig = "machineconfiguration.openshift.io/currentConfig"
	// AnnotationDesiredConfig is the desired rendered configuration of the node. The controller
	// writes it.
	AnnotationDesiredConfig = "machineconfiguration.openshift.io/desiredConfig"
	// AnnotationState is the state of the daemon: one of the values of NodeState.
	AnnotationState = "machineconfiguration.openshift.io/state"
	// AnnotationReason is why the daemon cannot continue. While the controller drains the node, it
	// writes here what blocks the drain.
	AnnotationReason = "machineconfiguration.openshift.io/reason"
	// AnnotationDesiredDrain is the request of the daemon to the controller: drain- or uncordon-,
	// followed by the name of the rendered configuration.
	AnnotationDesiredDrain = "machineconfiguration.openshift.io/desiredDrain"
	// AnnotationLastAppliedDrain is the last request that the controller has completed.
	AnnotationLastAppliedDrain = "machineconfiguration.openshift.io/lastAppliedDrain"
	// AnnotationDrainStarted is when the controller started the requested drain: a time in RFC 3339,
	// a space, and the value of AnnotationDesiredDrain.
	AnnotationDrainStarted = "mainstay.dev/drain-started"
	// AnnotationTopology is SingleReplica when there is no other node for drained pods.
	AnnotationTopology = "machineconfiguration.openshift.io/controlPlaneTopology"
)

// Values of AnnotationTopology.
const (
	TopologySingleReplica   = "SingleReplica"
	TopologyHighlyAvailable = "HighlyAvailable"
)

// Prefixes of AnnotationDesiredDrain.
const (
	DrainPrefix    = "drain-"
	UncordonPrefix = "uncordon-"
)

// TaintUpdateInProgress is the taint of a node that is still to be updated. It makes the scheduler prefer
// other nodes for new pods, because pods on this node will be evicted soon.
const TaintUpdateInProgress = "UpdateInProgress"

// NodeState is the state of a node's daemon.
type NodeState string

// States of a node.
const (
	// NodeDone means that the node has the desired configuration.
	NodeDone NodeState = "Done"
	// NodeWorking means that the node is being updated.
	NodeWorking NodeState = "Working"
	// NodeRebooting means that the node was updated and reboots.
	NodeRebooting NodeState = "Rebooting"
	// NodeDegraded means that the update failed. The daemon retries it.
	NodeDegraded NodeState = "Degraded"
	// NodeUnreconcilable means that the change is not possible on a running node.
	NodeUnreconcilable NodeState = "Unreconcilable"
)
