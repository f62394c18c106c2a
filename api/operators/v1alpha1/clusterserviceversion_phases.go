package v1alpha1

// Phases of a ClusterServiceVersion. A new one has none.
const (
	// CSVPhaseNone is the phase of an object that was not reconciled yet.
	CSVPhaseNone ClusterServiceVersionPhase = ""
	// CSVPhasePending means that the requirements are not met yet, or that it must be reinstalled.
	CSVPhasePending ClusterServiceVersionPhase = "Pending"
	// CSVPhaseInstallReady means that the requirements are met and that it is installed next.
	CSVPhaseInstallReady ClusterServiceVersionPhase = "InstallReady"
	// CSVPhaseInstalling means that its objects are created and not healthy yet.
	CSVPhaseInstalling ClusterServiceVersionPhase = "Installing"
	// CSVPhaseSucceeded means that it is installed and healthy.
	CSVPhaseSucceeded ClusterServiceVersionPhase = "Succeeded"
	// CSVPhaseFailed means that it failed for the given reason. Most failures end once their cause is gone.
	CSVPhaseFailed ClusterServiceVersionPhase = "Failed"
	// CSVPhaseUnknown is not used.
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
	// CSVReasonCopied is the reason of a copied CSV, in a namespace that the operator watches.
	CSVReasonCopied                              = "Copied"
	CSVReasonInvalidInstallModes                 = "InvalidInstallModes"
	CSVReasonNoTargetNamespaces                  = "NoTargetNamespaces"
	CSVReasonUnsupportedOperatorGroup            = "UnsupportedOperatorGroup"
	CSVReasonNoOperatorGroup                     = "NoOperatorGroup"
	CSVReasonTooManyOperatorGroups               = "TooManyOperatorGroups"
	CSVReasonInterOperatorGroupOwnerConflict     = "InterOperatorGroupOwnerConflict"
	CSVReasonCannotModifyStaticOperatorGroupAPIs = "CannotModifyStaticOperatorGroupProvidedAPIs"
	CSVReasonWaitingOnCleanup                    = "WaitingOnCleanup" // not used
)

// Statuses of the requirements of a ClusterServiceVersion.
const (
	// RequirementPresent means that the required object exists and meets the requirement.
	RequirementPresent = "Present"
	// RequirementNotPresent means that the required object does not exist.
	RequirementNotPresent = "NotPresent"
	// RequirementPresentNotSatisfied means that the required object exists and cannot be used.
	RequirementPresentNotSatisfied = "PresentNotSatisfied"
	// RequirementPresentNotAvailable means that a CRD exists and is not established.
	RequirementPresentNotAvailable = "PresentNotAvailable"
	// RequirementDeploymentFound means that the Deployment that serves an owned API is in the strategy.
	RequirementDeploymentFound = "DeploymentFound"
	// RequirementDeploymentNotFound means that this Deployment is not in the strategy.
	RequirementDeploymentNotFound = "DeploymentNotFound"
	// DependentSatisfied means that a ServiceAccount has a required right.
	DependentSatisfied = "Satisfied"
	// DependentNotSatisfied means that a ServiceAccount lacks a required right.
	DependentNotSatisfied = "NotSatisfied"
)
