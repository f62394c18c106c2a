package plan

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	operatorsv2 "github.com/mainstay-dev/mainstay/api/operators/v2"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/excerpt"
)

// check returns the findings of one condition.
type check func(f *Facts, o Options) []Finding

// classicChecks are the checks of what OLM Classic has on the cluster.
var classicChecks = []check{
	checkInstalled, checkSteadyState, checkGeneratedSubscription, checkOtherSubscriptions, checkInstallPlans,
	checkOperatorGroup, checkScope, checkGroupOptions, checkGroupBindings, checkAPIServices, checkDependents, checkSharedCRDs,
	checkCondition, checkClassicAccess, checkCatalogSource, checkCopiedCSVs, checkApproval,
}

func describe(kind, namespace, name string) string {
	if namespace == "" {
		return kind + " " + name
	}
	return kind + " " + namespace + "/" + name
}

func (f *Facts) subscriptionText() string {
	return describe("Subscription", f.installNamespace(), f.Subscription.Name)
}

func (f *Facts) csvText() string {
	return describe("ClusterServiceVersion", f.installNamespace(), f.Subscription.Status.InstalledCSV)
}

func checkInstalled(f *Facts, _ Options) []Finding {
	switch {
	case f.Subscription.Status.InstalledCSV == "":
		return []Finding{newBlocker("Installed", f.subscriptionText(), "wait until OLM Classic has installed the operator", "it has no installed ClusterServiceVersion")}
	case f.CSV == nil:
		return []Finding{newBlocker("Installed", f.csvText(), "repair the installation in OLM Classic first", "the installed ClusterServiceVersion does not exist")}
	case !f.CSV.DeletionTimestamp.IsZero():
		return []Finding{newBlocker("Installed", f.csvText(), "wait until it is gone", "it is being deleted")}
	}
	return nil
}

func checkSteadyState(f *Facts, _ Options) []Finding {
	var findings []Finding
	if state := f.Subscription.Status.State; state != v1alpha1.SubscriptionStateAtLatest && state != v1alpha1.SubscriptionStateUpgradePending {
		findings = append(findings, newQuestion("SteadyState", f.subscriptionText(), AcknowledgeNotSteady,
			"wait until the Subscription is AtLatestKnown, or approve or reject the pending InstallPlan", "its state is %q", state))
	}
	if f.CSV != nil && f.CSV.Status.Phase != v1alpha1.CSVPhaseSucceeded {
		findings = append(findings, newQuestion("SteadyState", f.csvText(), AcknowledgeNotSteady,
			"repair the operator first; its message is: "+f.CSV.Status.Message, "its phase is %q", f.CSV.Status.Phase))
	}
	return findings
}

func checkGeneratedSubscription(f *Facts, _ Options) []Finding {
	parent := f.Subscription.Annotations[v1alpha1.AnnotationGeneratedBy]
	if parent == "" {
		return nil
	}
	// An extension cannot require what OLM Classic has installed. What others need is therefore migrated first.
	return []Finding{newBlocker("GeneratedSubscription", f.subscriptionText(),
		"remove the annotation "+v1alpha1.AnnotationGeneratedBy+" to migrate it, before the operators that need it",
		"OLM Classic created it as a dependency, in InstallPlan %s", parent)}
}

func checkOtherSubscriptions(f *Facts, _ Options) []Finding {
	var findings []Finding
	for _, other := range f.Subscriptions {
		if other.Namespace == f.installNamespace() && other.Name == f.Subscription.Name {
			continue
		}

		text := describe("Subscription", other.Namespace, other.Name)
		remedy := "delete one of the two Subscriptions: an extension has one package, and a package one extension"
		switch {
		case other.Spec.Package == f.Subscription.Spec.Package:
			findings = append(findings, newBlocker("OneSubscription", text, remedy, "it also subscribes to package %s", other.Spec.Package))
		case other.Namespace == f.installNamespace() && other.Status.InstalledCSV != "" && other.Status.InstalledCSV == f.Subscription.Status.InstalledCSV:
			findings = append(findings, newBlocker("OneSubscription", text, remedy, "it also has %s installed", other.Status.InstalledCSV))
		}
	}
	return findings
}

func checkInstallPlans(f *Facts, _ Options) []Finding {
	var findings []Finding
	for i := range f.InstallPlans {
		p := &f.InstallPlans[i]
		if !slices.ContainsFunc(p.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == f.Subscription.UID }) {
			continue
		}

		text := describe("InstallPlan", p.Namespace, p.Name)
		isNew := p.Status.Phase == v1alpha1.InstallPlanPhaseNone
		switch {
		case p.Status.Phase == v1alpha1.InstallPlanPhaseComplete, p.Status.Phase == v1alpha1.InstallPlanPhaseFailed:
		case p.Status.Phase == v1alpha1.InstallPlanPhaseRequiresApproval, isNew && !p.Spec.Approved:
			findings = append(findings, newQuestion("InstallPlans", text, AcknowledgeNotSteady,
				"approve or delete it; after the migration the extension offers the update again", "it waits for approval of %s", joinNames(p.Spec.ClusterServiceVersionNames)))
		case isNew:
			findings = append(findings, newBlocker("InstallPlans", text, "wait until it is complete", "catalog-operator has not begun with it"))
		default:
			findings = append(findings, newBlocker("InstallPlans", text, "wait until it is complete", "it is not complete: its phase is %s", p.Status.Phase))
		}
	}
	return findings
}

func checkOperatorGroup(f *Facts, _ Options) []Finding {
	text := describe("namespace", "", f.installNamespace())
	switch len(f.OperatorGroups) {
	case 0:
		return []Finding{newBlocker("OperatorGroup", text, "create an OperatorGroup, and wait until the operator works", "it has no OperatorGroup")}
	case 1:
	default:
		return []Finding{newBlocker("OperatorGroup", text, "delete all OperatorGroups but one", "it has %d OperatorGroups", len(f.OperatorGroups))}
	}

	if len(f.targetNamespaces()) == 0 {
		return []Finding{newBlocker("OperatorGroup", describe("OperatorGroup", f.installNamespace(), f.operatorGroup().Name), "correct its target namespaces or its selector", "it selects no namespace")}
	}
	return nil
}

// checkScope checks that an extension can watch the namespaces that the OperatorGroup selects. An
// extension watches one namespace or all.
func checkScope(f *Facts, _ Options) []Finding {
	group := f.operatorGroup()
	if group == nil || f.CSV == nil || len(f.targetNamespaces()) == 0 {
		return nil
	}

	if len(f.targetNamespaces()) == 1 && !selectsByLabels(group) {
		return nil
	}

	text := describe("OperatorGroup", group.Namespace, group.Name)
	what := fmt.Sprintf("it selects %d namespaces (%s)", len(f.targetNamespaces()), joinNames(f.targetNamespaces()))
	if selectsByLabels(group) {
		what = "it selects namespaces by their labels"
	}
	if !csvinfo.SupportsInstallMode(f.CSV.Spec.InstallModes, v1alpha1.InstallModeTypeAllNamespaces) {
		return []Finding{newBlocker("InstallMode", text, "change the OperatorGroup to one namespace, if the operator supports that",
			"%s, an extension watches one namespace or all, and %s does not support AllNamespaces", what, f.CSV.Name)}
	}
	return []Finding{newQuestion("InstallMode", text, AcknowledgeScopeChange, "change the OperatorGroup to one namespace, or accept that the extension watches all namespaces",
		"%s, and an extension watches one namespace or all", what)}
}

// selectsByLabels reports whether an OperatorGroup selects namespaces by their labels.
func selectsByLabels(group *operatorsv1.OperatorGroup) bool {
	s := group.Spec.Selector
	return len(group.Spec.TargetNamespaces) == 0 && s != nil && len(s.MatchLabels)+len(s.MatchExpressions) > 0
}

func checkGroupOptions(f *Facts, o Options) []Finding {
	group := f.operatorGroup()
	if group == nil {
		return nil
	}

	text := describe("OperatorGroup", group.Namespace, group.Name)
	var findings []Finding
	if name := group.Spec.ServiceAccountName; name != "" && o.ServiceAccount == "" {
		findings = append(findings, newQuestion("ServiceAccount", text, AcknowledgeServiceAccount,
			"name a service account for the extension with --service-account", "operators are installed with the rights of service account %s; the extension would use those of operator-controller", name))
	}
	if group.Spec.UpgradeStrategy != "" && group.Spec.UpgradeStrategy != operatorsv1.UpgradeStrategyDefault {
		findings = append(findings, newWarning("OperatorGroup", text, "", "its upgrade strategy %s has no equivalent", group.Spec.UpgradeStrategy))
	}
	if group.Spec.StaticProvidedAPIs {
		findings = append(findings, newWarning("OperatorGroup", text, "", "staticProvidedAPIs has no equivalent"))
	}
	return findings
}

// checkGroupBindings warns about users whose rights go with the OperatorGroup.
func checkGroupBindings(f *Facts, _ Options) []Finding {
	const remedy = "bind <crd>-<version>-admin, -edit or -view before you delete the OperatorGroup"

	var findings []Finding
	for _, b := range f.GroupBindings {
		findings = append(findings, newWarning("GroupBindings", describe(b.Kind, b.Namespace, b.Name), remedy,
			"it grants ClusterRole %s, which is deleted with the OperatorGroup", b.Role))
	}
	if f.GroupBindingsErr != nil {
		findings = append(findings, newWarning("GroupBindings", "bindings to the ClusterRoles of the OperatorGroup", remedy, "they cannot be read: %v", f.GroupBindingsErr))
	}
	return findings
}

func checkAPIServices(f *Facts, _ Options) []Finding {
	if f.CSV == nil {
		return nil
	}
	var findings []Finding
	for _, api := range f.CSV.Spec.APIServiceDefinitions.Owned {
		findings = append(findings, newBlocker("APIServices", describe("APIService", "", csvinfo.APIServiceName(api)),
			"stay with OLM Classic, or use a version of the operator with CustomResourceDefinitions", "%s serves it, and OLM v1 has no APIServices", f.CSV.Name))
	}
	return findings
}

// checkSharedCRDs refuses CRDs that another operator of OLM Classic owns as well.
func checkSharedCRDs(f *Facts, _ Options) []Finding {
	if f.CSV == nil {
		return nil
	}

	var findings []Finding
	for i := range f.CSVs {
		other := &f.CSVs[i]
		if other.UID == f.CSV.UID || csvinfo.IsObsolete(other) {
			continue
		}
		for _, crd := range other.Spec.CustomResourceDefinitions.Owned {
			if slices.ContainsFunc(f.CSV.Spec.CustomResourceDefinitions.Owned, func(own v1alpha1.CRDDescription) bool { return own.Name == crd.Name }) {
				findings = append(findings, newBlocker("SharedCRDs", describe("ClusterServiceVersion", other.Namespace, other.Name),
					"remove one of the two operators: a CustomResourceDefinition belongs to one extension", "it also owns CustomResourceDefinition %s", crd.Name))
			}
		}
	}
	return findings
}

func checkCondition(f *Facts, _ Options) []Finding {
	if f.Condition == nil {
		return nil
	}

	text := describe("OperatorCondition", f.Condition.Namespace, f.Condition.Name)
	var findings []Finding
	conditions := append(slices.Clone(f.Condition.Status.Conditions), f.Condition.Spec.Conditions...)
	if c := meta.FindStatusCondition(conditions, operatorsv2.Upgradeable); c != nil && c.Status == metav1.ConditionFalse {
		findings = append(findings, newQuestion("OperatorCondition", text, AcknowledgeCondition,
			"wait until the operator reports that it can be updated", "Upgradeable is False: %s; OLM v1 does not read it", c.Message))
	}
	if len(f.Condition.Spec.Overrides) > 0 {
		findings = append(findings, newQuestion("OperatorCondition", text, AcknowledgeCondition, "remove the overrides", "it has overrides, which OLM v1 does not read"))
	}
	return findings
}

// checkClassicAccess finds operators that may look for their own Subscription or CSV.
func checkClassicAccess(f *Facts, _ Options) []Finding {
	if f.CSV == nil {
		return nil
	}

	strategy := f.CSV.Spec.InstallStrategy.StrategySpec
	for _, permission := range slices.Concat(strategy.Permissions, strategy.ClusterPermissions) {
		for _, rule := range permission.Rules {
			usesClassic := slices.Contains(rule.APIGroups, v1alpha1.GroupVersion.Group) &&
				slices.ContainsFunc(rule.Resources, func(r string) bool { return !strings.HasPrefix(r, "operatorconditions") })
			if usesClassic && !slices.Contains(rule.APIGroups, "olm.operatorframework.io") {
				return []Finding{newQuestion("ClassicAPIAccess", f.csvText(), AcknowledgeClassicAPIAccess,
					"ask the author whether the operator works without its Subscription and ClusterServiceVersion",
					"service account %s may use %s of OLM Classic", permission.ServiceAccountName, joinNames(rule.Resources))}
			}
		}
	}
	return nil
}

// checkCatalogSource warns about fields of the CatalogSource that a ClusterCatalog does not have.
func checkCatalogSource(f *Facts, _ Options) []Finding {
	if f.CatalogSource == nil || len(f.Offers) == 0 {
		return nil
	}
	if spec := f.CatalogSource.Spec; len(spec.Secrets) > 0 {
		return []Finding{newWarning("Catalog", describe("CatalogSource", f.CatalogSource.Namespace, f.CatalogSource.Name),
			"add the credentials to the pull secret of Mainstay", "it has pull secrets, which a ClusterCatalog does not have")}
	}
	return nil
}

func checkCopiedCSVs(f *Facts, _ Options) []Finding {
	if len(f.CopiedCSVs) == 0 {
		return nil
	}
	return []Finding{newWarning("CopiedCSVs", f.csvText(), "tools that read them must read ClusterExtensions",
		"its %d copied CSVs are removed", len(f.CopiedCSVs))}
}

func checkApproval(f *Facts, _ Options) []Finding {
	if f.Subscription.Spec.InstallPlanApproval != v1alpha1.ApprovalManual {
		return nil
	}
	return []Finding{newWarning("Approval", f.subscriptionText(), "change spec.source.catalog.version to update it",
		"updates need approval: the extension is pinned to the installed version")}
}

// joinNames joins names for a message, and leaves out those beyond a limit.
func joinNames(names []string) string {
	return excerpt.Join(names, maxNamesInMessage, ", ", " and ")
}
