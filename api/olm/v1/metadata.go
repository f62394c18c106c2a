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
	// spec.config.inline.watchNamespace takes precedence.
	AnnotationWatchNamespace = "olm.operatorframework.io/watch-namespace"
	// AnnotationRefresh, on a ClusterCatalog, requests a poll of the registry before the
	// poll interval is over. Its value is the time of the request in RFC 3339.
	AnnotationRefresh = "mainstay.dev/refresh"
	// AnnotationRemoveDespiteDependents, on a ClusterExtension that is being deleted, with
	// the value true removes it even if other extensions need it.
	AnnotationRemoveDespiteDependents = "mainstay.dev/remove-despite-dependents"
	// AnnotationKeepCRDs, on a ClusterExtension with the value true, keeps the CRDs of its
	// bundle, and with them every custom resource, when it is deleted. An extension that is
	// installed later under the same name adopts them. The controller copies it to the
	// ClusterObjectSets that it deletes, where it has the same meaning.
	AnnotationKeepCRDs = "mainstay.dev/keep-crds"
	// AnnotationServingSecrets, on a ClusterExtension with the value ServingSecretsClassic, keeps
	// the certificates of its webhooks in the Secrets of OLM Classic. The migration sets it, so
	// that no pod restarts. cert-manager is then not used.
	AnnotationServingSecrets = "mainstay.dev/serving-secrets" //nolint:gosec // G101: the name of an annotation, not a credential.
	// AnnotationDeleteCustomResources, on a ClusterExtension with the value true, consents
	// to the deletion of its CRDs. An admission policy may require it before the extension
	// is deleted.
	AnnotationDeleteCustomResources = "mainstay.dev/delete-custom-resources"
	// AnnotationCRDs, on a ClusterObjectSet, lists the names of the CRDs among its objects,
	// separated by commas. Absent means that there are none.
	AnnotationCRDs = "mainstay.dev/crds"
	// AnnotationPlan, on a ClusterExtension, requests a plan of the next changes in the
	// ConfigMap plan-<name> of the system namespace. With the value "only" nothing else is
	// done: no revision is created, archived or rolled back.
	//
	// With a JSON object the extension is still reconciled by its spec. The plan is computed as
	// if the object's fields version, channels, selector and upgradeConstraintPolicy were in
	// spec.source.catalog, crdUpgradeSafety in
	// spec.install.preflight.crdUpgradeSafety.enforcement, and config in spec.config.inline. A
	// field id distinguishes requests.
	// The plan is deleted when the annotation is removed.
	AnnotationPlan = "mainstay.dev/plan"
	// AnnotationPlanFor, on the ConfigMap of a plan, identifies the request: the generation
	// of the ClusterExtension, a space, and the value of AnnotationPlan.
	AnnotationPlanFor = "mainstay.dev/plan-for"
	// AnnotationCreatedFor, on a ClusterExtension, names the extension for whose
	// dependency it was created. It is informational only.
	AnnotationCreatedFor = "mainstay.dev/created-for"
	// AnnotationProvides and AnnotationRequires, on a ClusterObjectSet, are the
	// properties of its bundle that others can depend on, and those that declare its own
	// dependencies: JSON lists of type and value. Absent means that there are none.
	AnnotationProvides = "mainstay.dev/provides"
	AnnotationRequires = "mainstay.dev/requires"
	// AnnotationBundleRelease, on a ClusterObjectSet, is the release of its bundle.
	// Absent means that the bundle has only a version.
	AnnotationBundleRelease = "mainstay.dev/bundle-release"
	// AnnotationFailure, on a ClusterObjectSet, is why it was archived before it was rolled
	// out completely.
	AnnotationFailure = "mainstay.dev/failure"
	// AnnotationRefusedGeneration, on a ClusterObjectSet that was archived because it
	// exceeded its deadline, is the generation of the ClusterExtension for which the same
	// bundle is not retried.
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
	// ClusterObjectSet, name the service account to impersonate for its objects. Absent
	// means the controller's own account.
	AnnotationServiceAccountName      = "olm.operatorframework.io/service-account-name"
	AnnotationServiceAccountNamespace = "olm.operatorframework.io/service-account-namespace"
)

// PlanOnly is the value of AnnotationPlan for an extension that is planned and not
// reconciled.
const PlanOnly = "only"

// ServingSecretsClassic is the value of AnnotationServingSecrets for the Secrets of OLM Classic.
const ServingSecretsClassic = "classic"

// PlanName returns the name of the ConfigMap with the plan of an extension, in the system
// namespace.
func PlanName(extension string) string { return "plan-" + extension }

// Keys of the ConfigMap of a plan: the plan for programs, and for users.
const (
	PlanJSON = "plan.json"
	PlanText = "plan.txt"
)

// Finalizers.
const (
	// FinalizerDeleteServerCache, on a ClusterCatalog, keeps the catalog until its
	// stored content is deleted.
	FinalizerDeleteServerCache = "olm.operatorframework.io/delete-server-cache"
	// FinalizerCleanupUnpackCache, on a ClusterExtension, keeps it until its unpacked
	// bundle is removed from the cache.
	FinalizerCleanupUnpackCache = "olm.operatorframework.io/cleanup-unpack-cache"
	// FinalizerCleanupContentManagerCache, on a ClusterExtension, keeps it until its
	// revisions and their objects are deleted.
	FinalizerCleanupContentManagerCache = "olm.operatorframework.io/cleanup-contentmanager-cache"
	// FinalizerTeardown, on a ClusterObjectSet, keeps it until its objects are deleted,
	// the last phase first.
	FinalizerTeardown = "olm.operatorframework.io/teardown"
)

// Condition types.
const (
	// TypeProgressing reports what the controller does, and why it cannot continue.
	TypeProgressing = "Progressing"
	// TypeServing, on a ClusterCatalog, reports whether its content is served.
	TypeServing = "Serving"
	// TypeInstalled, on a ClusterExtension, reports which bundle is installed.
	TypeInstalled = "Installed"
	// TypeAvailable reports whether the managed objects pass their probes.
	TypeAvailable = "Available"
	// TypeSucceeded, on a ClusterObjectSet, is set when the revision was first rolled out
	// completely, and never removed.
	TypeSucceeded = "Succeeded"
	// TypeDeletesCRDs, on a ClusterExtension with CRDs, reports whether they would be
	// deleted with the extension, and with them every custom resource of their kinds.
	TypeDeletesCRDs = "DeletesCRDs"
	// TypeDeprecated is true when one of the three conditions below is.
	TypeDeprecated = "Deprecated"
	// TypePackageDeprecated, on a ClusterExtension, reports whether its package is deprecated.
	TypePackageDeprecated = "PackageDeprecated"
	// TypeChannelDeprecated, on a ClusterExtension, reports whether a requested channel is
	// deprecated.
	TypeChannelDeprecated = "ChannelDeprecated"
	// TypeBundleDeprecated, on a ClusterExtension, reports whether its installed bundle is
	// deprecated.
	TypeBundleDeprecated = "BundleDeprecated"
)

// Condition reasons.
const (
	// ReasonSucceeded means that the operation succeeded.
	ReasonSucceeded = "Succeeded"
	// ReasonFailed means that nothing is installed.
	ReasonFailed = "Failed"
	// ReasonRetrying means that an attempt failed and is retried automatically.
	ReasonRetrying = "Retrying"
	// ReasonRollingOut means that objects are being applied, or have not passed their probes yet.
	ReasonRollingOut = "RollingOut"
	// ReasonBlocked means that nothing happens until a user changes something.
	ReasonBlocked = "Blocked"
	// ReasonInvalidConfiguration means that spec.config does not fit the bundle.
	ReasonInvalidConfiguration = "InvalidConfiguration"
	// ReasonDeprecated is the reason of all four deprecation conditions.
	ReasonDeprecated = "Deprecated"
	// ReasonAvailable means that the catalog's content is served.
	ReasonAvailable = "Available"
	// ReasonUnavailable means that the catalog has no content to serve.
	ReasonUnavailable = "Unavailable"
	// ReasonUserSpecifiedUnavailable means that spec.availabilityMode is Unavailable.
	ReasonUserSpecifiedUnavailable = "UserSpecifiedUnavailable"
	// ReasonArchived means that the revision was replaced by a newer one.
	ReasonArchived = "Archived"
	// ReasonProgressDeadlineExceeded means that the rollout took longer than
	// progressDeadlineMinutes.
	ReasonProgressDeadlineExceeded = "ProgressDeadlineExceeded"
	// ReasonProbesSucceeded means that every object of the revision passes its probes.
	ReasonProbesSucceeded = "ProbesSucceeded"
	// ReasonProbeFailure means that an object of the revision does not pass its probes.
	ReasonProbeFailure = "ProbeFailure"
	// ReasonReconciling means that the revision's availability is not known yet.
	ReasonReconciling = "Reconciling"
	// ReasonCRDsOwned means that the CRDs belong to the extension and are deleted with it.
	ReasonCRDsOwned = "CRDsOwned"
	// ReasonCRDsKept means that the annotation mainstay.dev/keep-crds keeps the CRDs.
	ReasonCRDsKept = "CRDsKept"
	// ReasonMigrated means that the revision was created from an existing installation of
	// another kind.
	ReasonMigrated = "Migrated"
)

// SecretTypeObjectData is the type of a Secret that contains objects of a
// ClusterObjectSet.
const SecretTypeObjectData = "olm.operatorframework.io/object-data" //nolint:gosec // a type, not a credential
