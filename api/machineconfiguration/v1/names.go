package v1

// LabelRole, on a MachineConfig, is the role of the nodes that it is for. Pools select by it.
const LabelRole = "machineconfiguration.openshift.io/role"

// LabelRequiredForUpgrade, on a pool, has an update of the cluster wait until the pool is done.
const LabelRequiredForUpgrade = "operator.machineconfiguration.openshift.io/required-for-upgrade"

// Names of pools that have a meaning of their own.
const (
	// PoolMaster is of the control plane.
	PoolMaster = "master"
	// PoolArbiter is of nodes that only take part in votes of the control plane.
	PoolArbiter = "arbiter"
	// PoolWorker is of all nodes that no other pool has.
	PoolWorker = "worker"
)

// Annotations of rendered MachineConfigs.
const (
	// AnnotationGeneratedBy is the version of the controller that rendered the configuration.
	AnnotationGeneratedBy = "machineconfiguration.openshift.io/generated-by-controller-version"
	// AnnotationReleaseVersion is the version of the release whose operating system it has.
	AnnotationReleaseVersion = "machineconfiguration.openshift.io/release-image-version"
	// AnnotationOSImageOverridden reports whether a MachineConfig overrides the release's image.
	AnnotationOSImageOverridden = "machineconfiguration.openshift.io/os-image-url-overridden"
)

// Annotations of nodes, by which the controller and the daemon of a node speak.
const (
	// AnnotationCurrentConfig is the rendered configuration that the node has. The daemon writes it.
	AnnotationCurrentConfig = "machineconfiguration.openshift.io/currentConfig"
	// AnnotationDesiredConfig is the one that the node is to have. The controller writes it.
	AnnotationDesiredConfig = "machineconfiguration.openshift.io/desiredConfig"
	// AnnotationState is what the daemon is doing: one of the values of NodeState.
	AnnotationState = "machineconfiguration.openshift.io/state"
	// AnnotationReason says why the state is what it is, when the daemon cannot go on. While the
	// controller drains the node, the controller writes here what keeps the drain from ending.
	AnnotationReason = "machineconfiguration.openshift.io/reason"
	// AnnotationDesiredDrain is what the daemon asks of the controller: drain- or uncordon-,
	// and the name of the rendered configuration that it is for.
	AnnotationDesiredDrain = "machineconfiguration.openshift.io/desiredDrain"
	// AnnotationLastAppliedDrain is what of it the controller has done last.
	AnnotationLastAppliedDrain = "machineconfiguration.openshift.io/lastAppliedDrain"
	// AnnotationDrainStarted is when the controller began the drain that the daemon asks for: a
	// time in RFC 3339, a space, and the value of AnnotationDesiredDrain that it is about.
	AnnotationDrainStarted = "mainstay.dev/drain-started"
	// AnnotationTopology is SingleReplica where there is no node to drain to.
	AnnotationTopology = "machineconfiguration.openshift.io/controlPlaneTopology"
)

// Values of AnnotationTopology.
const (
	TopologySingleReplica   = "SingleReplica"
	TopologyHighlyAvailable = "HighlyAvailable"
)

// Beginnings of AnnotationDesiredDrain.
const (
	DrainPrefix    = "drain-"
	UncordonPrefix = "uncordon-"
)

// TaintUpdateInProgress, on a node whose turn has not come yet, keeps new pods away where they
// have a choice: they would be moved again soon.
const TaintUpdateInProgress = "UpdateInProgress"

// NodeState is what the daemon of a node is doing.
type NodeState string

// States of a node.
const (
	// NodeDone means that the node has the configuration that it is to have.
	NodeDone NodeState = "Done"
	// NodeWorking means that the node is being changed.
	NodeWorking NodeState = "Working"
	// NodeRebooting means that the node has been changed and starts again.
	NodeRebooting NodeState = "Rebooting"
	// NodeDegraded means that the daemon could not do what it should. It tries again.
	NodeDegraded NodeState = "Degraded"
	// NodeUnreconcilable means that the change cannot be made on a running node at all.
	NodeUnreconcilable NodeState = "Unreconcilable"
)
