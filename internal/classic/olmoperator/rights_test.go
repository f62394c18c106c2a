package olmoperator_test

// Situations that the tests of this package do not create.
const (
	inAuthorization = "the API server checks it when a role or a binding is written, and logs no request"
	inApply         = "the program applies the object, which the API server logs as a patch"
	inPlatform      = "the platform has the kind ClusterOperator, and the program has a name to report by, see package clusteroperator"
	inProxies       = "the platform has the kind Proxy, see package csv"
	inConsoles      = "the platform has a console, and an operator with objects for it is removed"
	inBlockOwner    = "the API server has the admission plugin OwnerReferencesPermissionEnforcement"
	inWebhooks      = "an operator has webhooks, see package csv/webhook"
	inCopies        = "copies are disabled or edited, see package copied"
	inConditions    = "an operator reports conditions, see package condition"
	inComponents    = "an object of an operator lost its labels or has conditions, see package operator"
	inFailures      = "an operator fails or replaces its Deployments, see package csv"
	inOrphans       = "an object lost its operator, see package csv"
	inAllNamespaces = "an OperatorGroup has a service account or other targets, see package group"
	inAPIs          = "an operator serves APIs, see package csv/serving"
)

// unusedRights are the rights that the tests of this package need not use, each with the situation in which
// olm-operator uses it.
var unusedRights = map[string]string{
	"olm-operator: bind clusterroles.rbac.authorization.k8s.io":                         inAuthorization,
	"olm-operator: bind roles.rbac.authorization.k8s.io":                                inAuthorization,
	"olm-operator: create apiservices.apiregistration.k8s.io":                           inAPIs,
	"olm-operator: create clusteroperators.config.openshift.io":                         inPlatform,
	"olm-operator: create clusterrolebindings.rbac.authorization.k8s.io":                inAllNamespaces,
	"olm-operator: create clusterroles.rbac.authorization.k8s.io":                       inAllNamespaces,
	"olm-operator: create events":                                                       inCopies,
	"olm-operator: create mutatingwebhookconfigurations.admissionregistration.k8s.io":   inWebhooks,
	"olm-operator: create operatorconditions.operators.coreos.com":                      inApply,
	"olm-operator: create secrets":                                                      inAPIs,
	"olm-operator: create services":                                                     inAPIs,
	"olm-operator: create validatingwebhookconfigurations.admissionregistration.k8s.io": inWebhooks,
	"olm-operator: delete apiservices.apiregistration.k8s.io":                           inAPIs,
	"olm-operator: delete consoleclidownloads.console.openshift.io":                     inConsoles,
	"olm-operator: delete consolelinks.console.openshift.io":                            inConsoles,
	"olm-operator: delete consoleplugins.console.openshift.io":                          inConsoles,
	"olm-operator: delete consolequickstarts.console.openshift.io":                      inConsoles,
	"olm-operator: delete consoleyamlsamples.console.openshift.io":                      inConsoles,
	"olm-operator: delete deployments.apps":                                             inFailures,
	"olm-operator: delete events":                                                       inCopies,
	"olm-operator: delete mutatingwebhookconfigurations.admissionregistration.k8s.io":   inWebhooks,
	"olm-operator: delete priorityclasses.scheduling.k8s.io":                            inOrphans,
	"olm-operator: delete rolebindings.rbac.authorization.k8s.io":                       inAPIs,
	"olm-operator: delete roles.rbac.authorization.k8s.io":                              inAPIs,
	"olm-operator: delete secrets":                                                      inAPIs,
	"olm-operator: delete services":                                                     inAPIs,
	"olm-operator: delete validatingwebhookconfigurations.admissionregistration.k8s.io": inWebhooks,
	"olm-operator: escalate clusterroles.rbac.authorization.k8s.io":                     inAuthorization,
	"olm-operator: escalate roles.rbac.authorization.k8s.io":                            inAuthorization,
	"olm-operator: get apiservices.apiregistration.k8s.io":                              inAPIs,
	"olm-operator: get clusterrolebindings.rbac.authorization.k8s.io":                   inAllNamespaces,
	"olm-operator: get clusterroles.rbac.authorization.k8s.io":                          inAllNamespaces,
	"olm-operator: get customresourcedefinitions.apiextensions.k8s.io":                  inWebhooks,
	"olm-operator: get deployments.apps":                                                inFailures,
	"olm-operator: get installplans.operators.coreos.com":                               inComponents,
	"olm-operator: get operatorconditions.operators.coreos.com":                         inComponents,
	"olm-operator: get proxies.config.openshift.io":                                     inProxies,
	"olm-operator: get rolebindings.rbac.authorization.k8s.io":                          inAPIs,
	"olm-operator: get roles.rbac.authorization.k8s.io":                                 inAPIs,
	"olm-operator: get secrets":                                                         inAPIs,
	"olm-operator: get serviceaccounts":                                                 inAllNamespaces,
	"olm-operator: get services":                                                        inAPIs,
	"olm-operator: get subscriptions.operators.coreos.com":                              inComponents,
	"olm-operator: list clusteroperators.config.openshift.io":                           inPlatform,
	"olm-operator: list consoleclidownloads.console.openshift.io":                       inConsoles,
	"olm-operator: list consolelinks.console.openshift.io":                              inConsoles,
	"olm-operator: list consoleplugins.console.openshift.io":                            inConsoles,
	"olm-operator: list consolequickstarts.console.openshift.io":                        inConsoles,
	"olm-operator: list consoleyamlsamples.console.openshift.io":                        inConsoles,
	"olm-operator: list pods":                                                           inFailures,
	"olm-operator: list proxies.config.openshift.io":                                    inProxies,
	"olm-operator: patch apiservices.apiregistration.k8s.io":                            inComponents,
	"olm-operator: patch clusteroperators/status.config.openshift.io":                   inPlatform,
	"olm-operator: patch clusterrolebindings.rbac.authorization.k8s.io":                 inComponents,
	"olm-operator: patch configmaps":                                                    inComponents,
	"olm-operator: patch customresourcedefinitions.apiextensions.k8s.io":                inWebhooks,
	"olm-operator: patch deployments.apps":                                              inComponents,
	"olm-operator: patch events.events.k8s.io":                                          "an event repeats for longer than a minute",
	"olm-operator: patch olmconfigs/status.operators.coreos.com":                        inCopies,
	"olm-operator: patch operatorconditions/status.operators.coreos.com":                inConditions,
	"olm-operator: patch secrets":                                                       inComponents,
	"olm-operator: patch serviceaccounts":                                               inComponents,
	"olm-operator: patch services":                                                      inComponents,
	"olm-operator: update apiservices.apiregistration.k8s.io":                           inAPIs,
	"olm-operator: update clusterserviceversions.operators.coreos.com":                  inCopies,
	"olm-operator: update clusterserviceversions/finalizers.operators.coreos.com":       inBlockOwner,
	"olm-operator: update mutatingwebhookconfigurations.admissionregistration.k8s.io":   inWebhooks,
	"olm-operator: update rolebindings.rbac.authorization.k8s.io":                       inCopies,
	"olm-operator: update roles.rbac.authorization.k8s.io":                              inCopies,
	"olm-operator: update validatingwebhookconfigurations.admissionregistration.k8s.io": inWebhooks,
	"olm-operator: watch clusteroperators.config.openshift.io":                          inPlatform,
	"olm-operator: watch consoleclidownloads.console.openshift.io":                      inConsoles,
	"olm-operator: watch consolelinks.console.openshift.io":                             inConsoles,
	"olm-operator: watch consoleplugins.console.openshift.io":                           inConsoles,
	"olm-operator: watch consolequickstarts.console.openshift.io":                       inConsoles,
	"olm-operator: watch consoleyamlsamples.console.openshift.io":                       inConsoles,
	"olm-operator: watch proxies.config.openshift.io":                                   inProxies,
}
