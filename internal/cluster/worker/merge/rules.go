package merge

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// rule states how a field of the manifest is merged into the live object.
type rule int

const (
	// ruleMerge merges the values that the manifest states, field by field, and keeps the rest.
	// It is the default. Lists are replaced.
	ruleMerge rule = iota
	// ruleExact makes the field equal to the manifest's. A field that the manifest does not state
	// is removed.
	ruleExact
	// ruleReplaceIfStated replaces the field if the manifest states it.
	ruleReplaceIfStated
	// ruleCreateOnly uses the manifest's field only when the object is created.
	ruleCreateOnly
	// ruleAppendMissing appends the missing elements of the manifest's list.
	ruleAppendMissing
	// ruleMergeByNameAndPrune merges list elements by their name, and removes those that the
	// manifest does not name.
	ruleMergeByNameAndPrune
	// ruleMergeByName merges list elements by their name, and keeps the others.
	ruleMergeByName
)

// fieldRules are rules by path. A path has dots between names, and "[]" behind a list whose
// elements have rules.
type fieldRules map[string]rule

// kindRules are the rules of a kind.
type kindRules struct {
	fields *ruleNode
	// keepLive, if set, copies live values into the wanted object that others than the release
	// set.
	keepLive func(wanted, live map[string]any, annotations map[string]string)
}

var jobKind = schema.GroupKind{Group: "batch", Kind: "Job"}

// rulesByKind are the kinds with rules. For all of them, labels, annotations, owner references
// and finalizers are added to those of the live object.
var rulesByKind = map[schema.GroupKind]kindRules{
	{Kind: "ConfigMap"}: {},
	{Kind: "Namespace"}: {fields: newRuleTree(fieldRules{"spec": ruleCreateOnly})},
	{Kind: "ServiceAccount"}: {fields: newRuleTree(fieldRules{
		"secrets": ruleCreateOnly, "imagePullSecrets": ruleCreateOnly, "automountServiceAccountToken": ruleExact,
	})},
	// The fields that bind it to a volume belong to the cluster.
	{Kind: "PersistentVolumeClaim"}: {},
	{Kind: "Service"}: {fields: newRuleTree(fieldRules{
		"spec.selector": ruleExact, "spec.type": ruleExact,
		"spec.ports": ruleMergeByNameAndPrune, "spec.ports[].protocol": ruleExact, "spec.ports[].targetPort": ruleExact,
	})},

	{Group: "apps", Kind: "Deployment"}: {fields: newRuleTree(fieldRules{
		"spec.replicas": ruleExact, "spec.selector": ruleExact, "spec.paused": ruleExact, "spec.minReadySeconds": ruleExact, "spec.strategy": ruleExact,
	}, podTemplateRules("spec.template."))},
	{Group: "apps", Kind: "DaemonSet"}: {fields: newRuleTree(fieldRules{
		"spec.selector": ruleExact, "spec.updateStrategy": ruleExact,
	}, podTemplateRules("spec.template."))},
	jobKind: {fields: newRuleTree(podTemplateRules("spec.template."))},
	{Group: "batch", Kind: "CronJob"}: {fields: newRuleTree(fieldRules{
		"spec.schedule": ruleExact, "spec.concurrencyPolicy": ruleExact,
	}, podTemplateRules("spec.jobTemplate.spec.template."))},

	{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}: {
		fields: newRuleTree(fieldRules{"spec": ruleExact}), keepLive: keepConversionCABundle,
	},
	{Group: "apiregistration.k8s.io", Kind: "APIService"}: {
		fields: newRuleTree(fieldRules{"spec": ruleExact}), keepLive: keepAPIServiceCABundle,
	},
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"}: {
		fields: newRuleTree(fieldRules{"webhooks": ruleExact}), keepLive: keepWebhookCABundles,
	},
	{Group: "admissionregistration.k8s.io", Kind: "MutatingWebhookConfiguration"}: {
		fields: newRuleTree(fieldRules{"webhooks": ruleExact}), keepLive: keepWebhookCABundles,
	},

	{Group: rbacGroup, Kind: "ClusterRole"}: {
		fields: newRuleTree(fieldRules{"rules": ruleExact, "aggregationRule": ruleReplaceIfStated}), keepLive: keepAggregatedRules,
	},
	{Group: rbacGroup, Kind: "Role"}:               {fields: newRuleTree(fieldRules{"rules": ruleExact})},
	{Group: rbacGroup, Kind: "ClusterRoleBinding"}: {fields: newRuleTree(fieldRules{"subjects": ruleExact, "roleRef": ruleExact})},
	{Group: rbacGroup, Kind: "RoleBinding"}:        {fields: newRuleTree(fieldRules{"subjects": ruleExact, "roleRef": ruleExact})},

	{Group: "security.openshift.io", Kind: "SecurityContextConstraints"}: {fields: newRuleTree(securityContextConstraintsRules())},
	{Group: "image.openshift.io", Kind: "ImageStream"}: {fields: newRuleTree(fieldRules{
		"spec.tags": ruleMergeByName, "spec.tags[].from": ruleExact, "spec.tags[].reference": ruleExact, "spec.tags[].importPolicy": ruleExact, "spec.tags[].referencePolicy": ruleExact,
	})},
	{Group: "operators.coreos.com", Kind: "OperatorGroup"}: {fields: newRuleTree(fieldRules{
		"spec.targetNamespaces": ruleExact, "spec.selector": ruleExact,
	})},
	{Group: "config.openshift.io", Kind: "ClusterOperator"}: {fields: newRuleTree(fieldRules{"spec": ruleCreateOnly})},
}

const rbacGroup = "rbac.authorization.k8s.io"

// podPrivileges are the fields of a pod's spec that grant its processes permissions on the node
// or in the cluster. A privilege that the manifest does not state is removed. "serviceAccount"
// is the old name of "serviceAccountName".
var podPrivileges = []string{
	"securityContext", "hostNetwork", "hostPID", "hostIPC", "hostUsers", "shareProcessNamespace",
	"serviceAccountName", "serviceAccount", "automountServiceAccountToken",
}

// containerFields are the fields of a container that must equal those of the manifest.
var containerFields = []string{
	"command", "args", "env", "envFrom", "ports", "volumeMounts", "volumeDevices", "resources", "livenessProbe", "readinessProbe", "securityContext",
}

// podTemplateRules returns the rules of a pod template whose fields have the path prefix at.
func podTemplateRules(at string) fieldRules {
	rules := fieldRules{at + "spec.volumes": ruleExact, at + "spec.affinity": ruleReplaceIfStated, at + "spec.tolerations": ruleAppendMissing}
	for _, field := range podPrivileges {
		rules[at+"spec."+field] = ruleExact
	}

	for _, list := range []string{"containers", "initContainers"} {
		path := at + "spec." + list
		rules[path] = ruleMergeByNameAndPrune
		for _, field := range containerFields {
			rules[path+"[]."+field] = ruleExact
		}
	}

	return rules
}

// securityContextConstraintsRules returns the rules of SecurityContextConstraints. All their
// fields are at the top level.
func securityContextConstraintsRules() fieldRules {
	rules := fieldRules{}
	for _, field := range []string{
		"priority", "allowPrivilegedContainer", "defaultAddCapabilities", "requiredDropCapabilities", "allowedCapabilities",
		"allowHostDirVolumePlugin", "volumes", "allowedFlexVolumes", "allowHostNetwork", "allowHostPorts", "allowHostPID", "allowHostIPC",
		"userNamespaceLevel", "defaultAllowPrivilegeEscalation", "allowPrivilegeEscalation", "seLinuxContext", "runAsUser", "supplementalGroups",
		"fsGroup", "readOnlyRootFilesystem", "users", "groups", "seccompProfiles", "allowedUnsafeSysctls", "forbiddenSysctls",
	} {
		rules[field] = ruleExact
	}

	return rules
}

// ruleNode is the rule of a field and of the fields below it. A nil node is a field without
// rules.
type ruleNode struct {
	rule   rule
	fields map[string]*ruleNode
	// items are the elements of a list.
	items *ruleNode
}

// newRuleTree builds a tree of nodes from rules by path.
func newRuleTree(all ...fieldRules) *ruleNode {
	root := &ruleNode{fields: map[string]*ruleNode{}}
	for _, rules := range all {
		for path, rule := range rules {
			at := root
			for name := range strings.SplitSeq(path, ".") {
				name, isList := strings.CutSuffix(name, "[]")
				if at.fields[name] == nil {
					at.fields[name] = &ruleNode{fields: map[string]*ruleNode{}}
				}
				at = at.fields[name]
				if isList {
					if at.items == nil {
						at.items = &ruleNode{fields: map[string]*ruleNode{}}
					}
					at = at.items
				}
			}
			at.rule = rule
		}
	}

	return root
}

func (n *ruleNode) fieldNode(name string) *ruleNode {
	if n == nil {
		return nil
	}
	return n.fields[name]
}

func (n *ruleNode) effectiveRule() rule {
	if n == nil {
		return ruleMerge
	}
	return n.rule
}

// removesUnstated reports whether a field that the manifest does not state is removed.
func (n *ruleNode) removesUnstated() bool {
	return n.rule == ruleExact || n.rule == ruleMergeByNameAndPrune
}
