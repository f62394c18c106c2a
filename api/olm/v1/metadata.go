package v1

// Labels. Those on managed objects let an administrator list what an extension
// owns: kubectl get crds -l olm.operatorframework.io/owner-name=<extension>.
const (
	// LabelMetadataName is set on every ClusterCatalog to the catalog's own name,
	// so that a selector can choose a catalog by name.
	LabelMetadataName = "olm.operatorframework.io/metadata.name"
	// LabelOwnerKind is the kind that owns an object or a revision; its value is
	// ClusterExtensionKind.
	LabelOwnerKind = "olm.operatorframework.io/owner-kind"
	// LabelOwnerName is the name of the ClusterExtension that owns an object or a
	// revision.
	LabelOwnerName = "olm.operatorframework.io/owner-name"
	// LabelRevisionName is set on a Secret that holds objects of a
	// ClusterObjectSet, to the name of that ClusterObjectSet.
	LabelRevisionName = "olm.operatorframework.io/revision-name"
)

// Annotations.
const (
	// AnnotationWatchNamespace, on a ClusterExtension, names the one namespace that
	// the extension watches; absent or empty means all namespaces. The field
	// spec.config.inline.watchNamespace wins over it.
	AnnotationWatchNamespace = "olm.operatorframework.io/watch-namespace"
	// AnnotationRefresh, on a ClusterCatalog, is a time in RFC 3339: when a person asked
	// for the registry to be looked at now, and not when the poll interval is over.
	AnnotationRefresh = "mainstay.dev/refresh"
	// AnnotationRemoveDespiteDependents, on a ClusterExtension that is being deleted,
	// with the value true: it goes although other extensions need it.
	AnnotationRemoveDespiteDependents = "mainstay.dev/remove-despite-dependents"
	// AnnotationKeepCRDs, on a ClusterExtension with the value true, keeps the CRDs of its
	// bundle, and with them every custom resource, when it is deleted. An extension that is
	// installed later under the same name takes them over. The controller copies it to the
	// ClusterObjectSets that it deletes, on which it means the same.
	AnnotationKeepCRDs = "mainstay.dev/keep-crds"
	// AnnotationDeleteCustomResources, on a ClusterExtension with the value true, is the
	// consent that an admission policy may require before an extension is deleted whose CRDs
	// go with it.
	AnnotationDeleteCustomResources = "mainstay.dev/delete-custom-resources"
	// AnnotationCRDs, on a ClusterObjectSet, lists the names of the CRDs among its objects,
	// separated by commas. Absent means that there are none.
	AnnotationCRDs = "mainstay.dev/crds"
	// AnnotationPlan, on a ClusterExtension, has what would be done written into the
	// ConfigMap plan-<name> of the system namespace. With the value "only" nothing else is
	// done: no revision is made, archived or given up. With a JSON object the extension goes
	// on as its spec says, and the plan is as if the object's fields, of version, channels,
	// selector and upgradeConstraintPolicy, stood in spec.source.catalog, and crdUpgradeSafety
	// in spec.install.preflight.crdUpgradeSafety.enforcement; a field id tells one question
	// from another. Removing the annotation removes the plan.
	AnnotationPlan = "mainstay.dev/plan"
	// AnnotationPlanFor, on the ConfigMap of a plan, is what it was made for: the generation
	// of the ClusterExtension, a space, and the value of AnnotationPlan.
	AnnotationPlanFor = "mainstay.dev/plan-for"
	// AnnotationCreatedFor, on a ClusterExtension, names the extension for whose
	// dependency it was created. It is a note: nothing follows from it.
	AnnotationCreatedFor = "mainstay.dev/created-for"
	// AnnotationProvides and AnnotationRequires, on a ClusterObjectSet, are the
	// properties of its bundle that others can depend on, and those that say what it
	// depends on: JSON lists of type and value. Absent means that there are none.
	AnnotationProvides = "mainstay.dev/provides"
	AnnotationRequires = "mainstay.dev/requires"
	// AnnotationBundleRelease, on a ClusterObjectSet, is the release of its bundle.
	// Absent means that the bundle has none beside its version.
	AnnotationBundleRelease = "mainstay.dev/bundle-release"
	// AnnotationFailure, on a ClusterObjectSet that was archived before it was rolled out
	// completely, says why.
	AnnotationFailure = "mainstay.dev/failure"
	// AnnotationRefusedGeneration, on a ClusterObjectSet that was archived since it was not
	// complete by its deadline, is the generation of the ClusterExtension for which the
	// same is not tried again.
	AnnotationRefusedGeneration = "mainstay.dev/refused-generation"
	// AnnotationPackageName, on a ClusterObjectSet, is the package of its bundle.
	AnnotationPackageName = "olm.operatorframework.io/package-name"
	// AnnotationBundleName, on a ClusterObjectSet, is the name of its bundle.
	AnnotationBundleName = "olm.operatorframework.io/bundle-name"
	// AnnotationBundleVersion, on a ClusterObjectSet, is the version of its bundle.
	AnnotationBundleVersion = "olm.operatorframework.io/bundle-version"
	// AnnotationBundleReference, on a ClusterObjectSet, is the image reference, with
	// digest, of its bundle.
	AnnotationBundleReference = "olm.operatorframework.io/bundle-reference"
	// AnnotationServiceAccountName and AnnotationServiceAccountNamespace, on a
	// ClusterObjectSet, name the account that its objects are written as. Absent
	// means the controller's own account.
	AnnotationServiceAccountName      = "olm.operatorframework.io/service-account-name"
	AnnotationServiceAccountNamespace = "olm.operatorframework.io/service-account-namespace"
)

// PlanOnly is the value of AnnotationPlan for an extension of which nothing but the plan
// is wanted.
const PlanOnly = "only"

// PlanName is the name of the ConfigMap, in the system namespace, that holds the plan of
// an extension.
func PlanName(extension string) string { return "plan-" + extension }

// Keys of the ConfigMap of a plan: what it says for programs, and for people.
const (
	PlanJSON = "plan.json"
	PlanText = "plan.txt"
)

// Finalizers.
const (
	// FinalizerDeleteServerCache, on a ClusterCatalog, holds the catalog until its
	// stored content is gone.
	FinalizerDeleteServerCache = "olm.operatorframework.io/delete-server-cache"
	// FinalizerCleanupUnpackCache, on a ClusterExtension, holds it until its
	// unpacked bundle is gone from the cache.
	FinalizerCleanupUnpackCache = "olm.operatorframework.io/cleanup-unpack-cache"
	// FinalizerCleanupContentManagerCache, on a ClusterExtension, holds it until its
	// revisions, and with them the objects they manage, are gone.
	FinalizerCleanupContentManagerCache = "olm.operatorframework.io/cleanup-contentmanager-cache"
	// FinalizerTeardown, on a ClusterObjectSet, holds it until its objects are gone,
	// last phase first.
	FinalizerTeardown = "olm.operatorframework.io/teardown"
)

// Condition types.
const (
	// TypeProgressing tells what the controller does, and why it cannot go on.
	TypeProgressing = "Progressing"
	// TypeServing, on a ClusterCatalog, tells whether its content is served.
	TypeServing = "Serving"
	// TypeInstalled, on a ClusterExtension, tells which bundle is installed.
	TypeInstalled = "Installed"
	// TypeAvailable reports whether the managed objects pass their probes.
	TypeAvailable = "Available"
	// TypeSucceeded, on a ClusterObjectSet, is set once, when the revision was first
	// rolled out completely, and stays.
	TypeSucceeded = "Succeeded"
	// TypeDeletesCRDs, on a ClusterExtension with CRDs, tells whether they, and with them
	// every custom resource of their kinds, would be deleted with the extension.
	TypeDeletesCRDs = "DeletesCRDs"
	// TypeDeprecated is true when one of the three conditions below is.
	TypeDeprecated = "Deprecated"
	// TypePackageDeprecated, on a ClusterExtension: its package is deprecated.
	TypePackageDeprecated = "PackageDeprecated"
	// TypeChannelDeprecated, on a ClusterExtension: a channel it asks for is deprecated.
	TypeChannelDeprecated = "ChannelDeprecated"
	// TypeBundleDeprecated, on a ClusterExtension: its installed bundle is deprecated.
	TypeBundleDeprecated = "BundleDeprecated"
)

// Condition reasons.
const (
	// ReasonSucceeded: what the condition names has been done.
	ReasonSucceeded = "Succeeded"
	// ReasonFailed: nothing is installed.
	ReasonFailed = "Failed"
	// ReasonRetrying: an attempt failed and is made again by itself.
	ReasonRetrying = "Retrying"
	// ReasonRollingOut: objects are being applied or are awaited.
	ReasonRollingOut = "RollingOut"
	// ReasonBlocked: nothing happens until a person changes something.
	ReasonBlocked = "Blocked"
	// ReasonInvalidConfiguration: spec.config does not fit the bundle.
	ReasonInvalidConfiguration = "InvalidConfiguration"
	// ReasonDeprecated is the reason of all four deprecation conditions.
	ReasonDeprecated = "Deprecated"
	// ReasonAvailable: the catalog's content is served.
	ReasonAvailable = "Available"
	// ReasonUnavailable: the catalog has no content to serve.
	ReasonUnavailable = "Unavailable"
	// ReasonUserSpecifiedUnavailable: spec.availabilityMode is Unavailable.
	ReasonUserSpecifiedUnavailable = "UserSpecifiedUnavailable"
	// ReasonArchived: the revision was replaced by a newer one.
	ReasonArchived = "Archived"
	// ReasonProgressDeadlineExceeded: the roll-out took longer than progressDeadlineMinutes.
	ReasonProgressDeadlineExceeded = "ProgressDeadlineExceeded"
	// ReasonProbesSucceeded: every object of the revision passes its probes.
	ReasonProbesSucceeded = "ProbesSucceeded"
	// ReasonProbeFailure: an object of the revision does not pass its probes.
	ReasonProbeFailure = "ProbeFailure"
	// ReasonReconciling: the revision's availability is not known yet.
	ReasonReconciling = "Reconciling"
	// ReasonCRDsOwned: the CRDs are the extension's, and go with it.
	ReasonCRDsOwned = "CRDsOwned"
	// ReasonCRDsKept: the annotation mainstay.dev/keep-crds keeps the CRDs.
	ReasonCRDsKept = "CRDsKept"
	// ReasonMigrated: the revision was made from an installation of another kind.
	ReasonMigrated = "Migrated"
)

// SecretTypeObjectData is the type of a Secret that holds objects of a
// ClusterObjectSet.
const SecretTypeObjectData = "olm.operatorframework.io/object-data" //nolint:gosec // a type, not a credential
