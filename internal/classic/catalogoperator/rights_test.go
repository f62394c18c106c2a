package catalogoperator_test

// Situations that the tests of this package do not create.
const (
	inAuthorization = "the API server checks it when a role or a binding is written, and logs no request"
	inPlatform      = "the platform has the kind ClusterOperator, and the program has a name to report by, see package clusteroperator"
	inMirrors       = "the program pulls from mirrors, see package pull"
	inJobs          = "bundles are unpacked by Jobs, see package unpack"
	inRepairs       = "an object of a catalog was edited"
	inFlows         = "an operator is installed and updated, see package olmoperator"
	inLag           = "the cache has not received an InstallPlan that exists, which depends on the speed of the machine"
	inPlans         = "a bundle brings objects of this kind, see package installplan"
)

// unusedRights are the rights that the tests of this package need not use, each with the situation in which
// catalog-operator uses it.
var unusedRights = map[string]string{
	"catalog-operator: bind clusterroles.rbac.authorization.k8s.io":            inAuthorization,
	"catalog-operator: bind roles.rbac.authorization.k8s.io":                   inAuthorization,
	"catalog-operator: create clusteroperators.config.openshift.io":            inPlatform,
	"catalog-operator: create consoleclidownloads.console.openshift.io":        inPlans,
	"catalog-operator: create consolelinks.console.openshift.io":               inPlans,
	"catalog-operator: create consoleplugins.console.openshift.io":             inPlans,
	"catalog-operator: create consolequickstarts.console.openshift.io":         inPlans,
	"catalog-operator: create consoleyamlsamples.console.openshift.io":         inPlans,
	"catalog-operator: create customresourcedefinitions.apiextensions.k8s.io":  inPlans,
	"catalog-operator: create jobs.batch":                                      inJobs,
	"catalog-operator: create poddisruptionbudgets.policy":                     inPlans,
	"catalog-operator: create podmonitors.monitoring.coreos.com":               inPlans,
	"catalog-operator: create priorityclasses.scheduling.k8s.io":               inPlans,
	"catalog-operator: create prometheusrules.monitoring.coreos.com":           inPlans,
	"catalog-operator: create secrets":                                         inPlans,
	"catalog-operator: create servicemonitors.monitoring.coreos.com":           inPlans,
	"catalog-operator: create subscriptions.operators.coreos.com":              inPlans,
	"catalog-operator: create verticalpodautoscalers.autoscaling.k8s.io":       inPlans,
	"catalog-operator: delete installplans.operators.coreos.com":               inFlows,
	"catalog-operator: delete jobs.batch":                                      inJobs,
	"catalog-operator: escalate clusterroles.rbac.authorization.k8s.io":        inAuthorization,
	"catalog-operator: escalate roles.rbac.authorization.k8s.io":               inAuthorization,
	"catalog-operator: get clusterrolebindings.rbac.authorization.k8s.io":      inPlans,
	"catalog-operator: get clusterroles.rbac.authorization.k8s.io":             inPlans,
	"catalog-operator: get consoleclidownloads.console.openshift.io":           inPlans,
	"catalog-operator: get consolelinks.console.openshift.io":                  inPlans,
	"catalog-operator: get consoleplugins.console.openshift.io":                inPlans,
	"catalog-operator: get consolequickstarts.console.openshift.io":            inPlans,
	"catalog-operator: get consoleyamlsamples.console.openshift.io":            inPlans,
	"catalog-operator: get customresourcedefinitions.apiextensions.k8s.io":     inPlans,
	"catalog-operator: get installplans.operators.coreos.com":                  inLag,
	"catalog-operator: get poddisruptionbudgets.policy":                        inPlans,
	"catalog-operator: get podmonitors.monitoring.coreos.com":                  inPlans,
	"catalog-operator: get priorityclasses.scheduling.k8s.io":                  inPlans,
	"catalog-operator: get prometheusrules.monitoring.coreos.com":              inPlans,
	"catalog-operator: get secrets":                                            inPlans,
	"catalog-operator: get servicemonitors.monitoring.coreos.com":              inPlans,
	"catalog-operator: get subscriptions.operators.coreos.com":                 inFlows,
	"catalog-operator: get verticalpodautoscalers.autoscaling.k8s.io":          inPlans,
	"catalog-operator: list clusteroperators.config.openshift.io":              inPlatform,
	"catalog-operator: list imagecontentsourcepolicies.operator.openshift.io":  inMirrors,
	"catalog-operator: list imagedigestmirrorsets.config.openshift.io":         inMirrors,
	"catalog-operator: list imagetagmirrorsets.config.openshift.io":            inMirrors,
	"catalog-operator: list jobs.batch":                                        inJobs,
	"catalog-operator: patch clusteroperators/status.config.openshift.io":      inPlatform,
	"catalog-operator: patch events.events.k8s.io":                             "an event repeats for longer than a minute",
	"catalog-operator: patch rolebindings.rbac.authorization.k8s.io":           inRepairs,
	"catalog-operator: update clusterrolebindings.rbac.authorization.k8s.io":   inPlans,
	"catalog-operator: update clusterroles.rbac.authorization.k8s.io":          inPlans,
	"catalog-operator: update configmaps":                                      inPlans,
	"catalog-operator: update consoleclidownloads.console.openshift.io":        inPlans,
	"catalog-operator: update consolelinks.console.openshift.io":               inPlans,
	"catalog-operator: update consoleplugins.console.openshift.io":             inPlans,
	"catalog-operator: update consolequickstarts.console.openshift.io":         inPlans,
	"catalog-operator: update consoleyamlsamples.console.openshift.io":         inPlans,
	"catalog-operator: update customresourcedefinitions.apiextensions.k8s.io":  inPlans,
	"catalog-operator: update networkpolicies.networking.k8s.io":               inPlans,
	"catalog-operator: update poddisruptionbudgets.policy":                     inPlans,
	"catalog-operator: update podmonitors.monitoring.coreos.com":               inPlans,
	"catalog-operator: update priorityclasses.scheduling.k8s.io":               inPlans,
	"catalog-operator: update prometheusrules.monitoring.coreos.com":           inPlans,
	"catalog-operator: update rolebindings.rbac.authorization.k8s.io":          inPlans,
	"catalog-operator: update roles.rbac.authorization.k8s.io":                 inPlans,
	"catalog-operator: update secrets":                                         inPlans,
	"catalog-operator: update servicemonitors.monitoring.coreos.com":           inPlans,
	"catalog-operator: update services":                                        inPlans,
	"catalog-operator: update verticalpodautoscalers.autoscaling.k8s.io":       inPlans,
	"catalog-operator: watch clusteroperators.config.openshift.io":             inPlatform,
	"catalog-operator: watch imagecontentsourcepolicies.operator.openshift.io": inMirrors,
	"catalog-operator: watch imagedigestmirrorsets.config.openshift.io":        inMirrors,
	"catalog-operator: watch imagetagmirrorsets.config.openshift.io":           inMirrors,
}
