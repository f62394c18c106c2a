package v1alpha1

// Phases of a ClusterServiceVersion. A new one has none.
const (
	// CSVPhaseNone is that of an object that no controller has seen yet.
	CSVPhaseNone ClusterServiceVersionPhase = ""
	// CSVPhasePending means that the requirements are not, or not yet, met, or it is to be installed again.
	CSVPhasePending ClusterServiceVersionPhase = "Pending"
	// CSVPhaseInstallReady means that the requirements are met, and it is installed next.
	CSVPhaseInstallReady ClusterServiceVersionPhase = "InstallReady"
	// CSVPhaseInstalling means that what it consists of is made, and not healthy yet.
	CSVPhaseInstalling ClusterServiceVersionPhase = "Installing"
	// CSVPhaseSucceeded means that it is installed and healthy.
	CSVPhaseSucceeded ClusterServiceVersionPhase = "Succeeded"
	// CSVPhaseFailed means that the reason says why. Most failures end once their cause is gone.
	CSVPhaseFailed ClusterServiceVersionPhase = "Failed"
	// CSVPhaseUnknown is set by nothing.
	CSVPhaseUnknown ClusterServiceVersionPhase = "Unknown"
	// CSVPhaseReplacing means that a newer one names this one in spec.replaces.
	CSVPhaseReplacing ClusterServiceVersionPhase = "Replacing"
	// CSVPhaseDeleting means that the controller deletes it next.
	CSVPhaseDeleting ClusterServiceVersionPhase = "Deleting"
)

// Reasons of the phases of a ClusterServiceVersion.
const (
	CSVReasonRequirementsUnknown              = "RequirementsUnknown"
	CSVReasonRequirementsNotMet               = "RequirementsNotMet"
	CSVReasonRequirementsMet                  = "AllRequirementsMet"
	CSVReasonOwnerConflict                    = "OwnerConflict"
	CSVReasonInstallSuccessful                = "InstallSucceeded"
	CSVReasonInstallWaiting                   = "InstallWaiting"
	CSVReasonInstallCheckFailed               = "InstallCheckFailed"
	CSVReasonComponentFailed                  = "InstallComponentFailed"
	CSVReasonComponentFailedNoRetry           = "InstallComponentFailedNoRetry"
	CSVReasonInvalidStrategy                  = "InvalidInstallStrategy"
	CSVReasonComponentUnhealthy               = "ComponentUnhealthy"
	CSVReasonBeingReplaced                    = "BeingReplaced"
	CSVReasonReplaced                         = "Replaced"
	CSVReasonNeedsReinstall                   = "NeedsReinstall"
	CSVReasonNeedsCertRotation                = "NeedsCertRotation"
	CSVReasonAPIServiceResourceIssue          = "APIServiceResourceIssue"
	CSVReasonAPIServiceResourcesNeedReinstall = "APIServiceResourcesNeedReinstall"
	CSVReasonAPIServiceInstallFailed          = "APIServiceInstallFailed"
	CSVReasonDetectedClusterChange            = "DetectedClusterChange"
	CSVReasonInvalidWebhookDescription        = "InvalidWebhookDescription"
	CSVReasonOperatorConditionNotUpgradeable  = "OperatorConditionNotUpgradeable"
	// CSVReasonCopied is that of a copy, in a namespace that the operator watches.
	CSVReasonCopied                              = "Copied"
	CSVReasonInvalidInstallModes                 = "InvalidInstallModes"
	CSVReasonNoTargetNamespaces                  = "NoTargetNamespaces"
	CSVReasonUnsupportedOperatorGroup            = "UnsupportedOperatorGroup"
	CSVReasonNoOperatorGroup                     = "NoOperatorGroup"
	CSVReasonTooManyOperatorGroups               = "TooManyOperatorGroups"
	CSVReasonInterOperatorGroupOwnerConflict     = "InterOperatorGroupOwnerConflict"
	CSVReasonCannotModifyStaticOperatorGroupAPIs = "CannotModifyStaticOperatorGroupProvidedAPIs"
	CSVReasonWaitingOnCleanup                    = "WaitingOnCleanup" // set by nothing
)

// What a requirement of a ClusterServiceVersion is found to be.
const (
	// RequirementPresent means that it is there, and as it must be.
	RequirementPresent = "Present"
	// RequirementNotPresent means that it is missing.
	RequirementNotPresent = "NotPresent"
	// RequirementPresentNotSatisfied means that it is there, and cannot be used.
	RequirementPresentNotSatisfied = "PresentNotSatisfied"
	// RequirementPresentNotAvailable means that a CRD is there that is not established.
	RequirementPresentNotAvailable = "PresentNotAvailable"
	// RequirementDeploymentFound means that the Deployment that serves an owned API is in the strategy.
	RequirementDeploymentFound = "DeploymentFound"
	// RequirementDeploymentNotFound means that it is not.
	RequirementDeploymentNotFound = "DeploymentNotFound"
	// DependentSatisfied means that a ServiceAccount has the right.
	DependentSatisfied = "Satisfied"
	// DependentNotSatisfied means that it has it not.
	DependentNotSatisfied = "NotSatisfied"
)
