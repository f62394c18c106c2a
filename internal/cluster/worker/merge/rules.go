package merge

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// rule says whose a field is.
type rule int

const (
	// stated: what the manifest states wins, field by field; the rest stays. Fields
	// without a rule are of this kind. Lists are values.
	stated rule = iota
	// exact: the field is the manifest's. One that it does not state is taken away.
	exact
	// given: the field is the manifest's if it states it.
	given
	// left: the field is never the manifest's, but for when the object is created.
	left
	// added: elements of the manifest's list are added.
	added
	// pruned: elements are merged by their name, and those that the manifest does not name
	// are taken away.
	pruned
	// kept: elements are merged by their name, and others stay.
	kept
)

// fields are rules by path, with dots between names and "[]" behind that of a list whose
// elements have rules.
type fields map[string]rule

// kindRules are those of a kind.
type kindRules struct {
	fields *node
	// adopt, when set, writes into what is wanted what the cluster has: what others than
	// the release fill in.
	adopt func(wanted, live map[string]any, annotations map[string]string)
}

var job = schema.GroupKind{Group: "batch", Kind: "Job"}

// kinds are the kinds with rules. Of all of them labels, annotations, owners and finalizers
// are added to those that the object has.
var kinds = map[schema.GroupKind]kindRules{
	{Kind: "ConfigMap"}: {},
	{Kind: "Namespace"}: {fields: tree(fields{"spec": left})},
	{Kind: "ServiceAccount"}: {fields: tree(fields{
		"secrets": left, "imagePullSecrets": left, "automountServiceAccountToken": exact,
	})},
	// What binds it to a volume is the cluster's.
	{Kind: "PersistentVolumeClaim"}: {},
	{Kind: "Service"}: {fields: tree(fields{
		"spec.selector": exact, "spec.type": exact,
		"spec.ports": pruned, "spec.ports[].protocol": exact, "spec.ports[].targetPort": exact,
	})},

	{Group: "apps", Kind: "Deployment"}: {fields: tree(fields{
		"spec.replicas": exact, "spec.selector": exact, "spec.paused": exact, "spec.minReadySeconds": exact, "spec.strategy": exact,
	}, podTemplate("spec.template."))},
	{Group: "apps", Kind: "DaemonSet"}: {fields: tree(fields{
		"spec.selector": exact, "spec.updateStrategy": exact,
	}, podTemplate("spec.template."))},
	job: {fields: tree(podTemplate("spec.template."))},
	{Group: "batch", Kind: "CronJob"}: {fields: tree(fields{
		"spec.schedule": exact, "spec.concurrencyPolicy": exact,
	}, podTemplate("spec.jobTemplate.spec.template."))},

	{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}: {
		fields: tree(fields{"spec": exact}), adopt: adoptConversionBundle,
	},
	{Group: "apiregistration.k8s.io", Kind: "APIService"}: {
		fields: tree(fields{"spec": exact}), adopt: adoptServiceBundle,
	},
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"}: {
		fields: tree(fields{"webhooks": exact}), adopt: adoptWebhookBundles,
	},
	{Group: "admissionregistration.k8s.io", Kind: "MutatingWebhookConfiguration"}: {
		fields: tree(fields{"webhooks": exact}), adopt: adoptWebhookBundles,
	},

	{Group: rbacGroup, Kind: "ClusterRole"}: {
		fields: tree(fields{"rules": exact, "aggregationRule": given}), adopt: adoptAggregatedRules,
	},
	{Group: rbacGroup, Kind: "Role"}:               {fields: tree(fields{"rules": exact})},
	{Group: rbacGroup, Kind: "ClusterRoleBinding"}: {fields: tree(fields{"subjects": exact, "roleRef": exact})},
	{Group: rbacGroup, Kind: "RoleBinding"}:        {fields: tree(fields{"subjects": exact, "roleRef": exact})},

	{Group: "security.openshift.io", Kind: "SecurityContextConstraints"}: {fields: tree(constraints())},
	{Group: "image.openshift.io", Kind: "ImageStream"}: {fields: tree(fields{
		"spec.tags": kept, "spec.tags[].from": exact, "spec.tags[].reference": exact, "spec.tags[].importPolicy": exact, "spec.tags[].referencePolicy": exact,
	})},
	{Group: "operators.coreos.com", Kind: "OperatorGroup"}: {fields: tree(fields{
		"spec.targetNamespaces": exact, "spec.selector": exact,
	})},
	{Group: "config.openshift.io", Kind: "ClusterOperator"}: {fields: tree(fields{"spec": left})},
}

const rbacGroup = "rbac.authorization.k8s.io"

// podPrivileges are the fields of a pod's spec that give its processes rights on the node or in
// the cluster. A privilege that the manifest does not state is taken away. "serviceAccount" is the
// old name of "serviceAccountName".
var podPrivileges = []string{
	"securityContext", "hostNetwork", "hostPID", "hostIPC", "hostUsers", "shareProcessNamespace",
	"serviceAccountName", "serviceAccount", "automountServiceAccountToken",
}

// containerFields are the fields of a container that are the manifest's.
var containerFields = []string{
	"command", "args", "env", "envFrom", "ports", "volumeMounts", "volumeDevices", "resources", "livenessProbe", "readinessProbe", "securityContext",
}

// podTemplate returns the rules of a pod template at a path.
func podTemplate(at string) fields {
	rules := fields{at + "spec.volumes": exact, at + "spec.affinity": given, at + "spec.tolerations": added}
	for _, field := range podPrivileges {
		rules[at+"spec."+field] = exact
	}

	for _, list := range []string{"containers", "initContainers"} {
		path := at + "spec." + list
		rules[path] = pruned
		for _, field := range containerFields {
			rules[path+"[]."+field] = exact
		}
	}

	return rules
}

// constraints are the fields of SecurityContextConstraints, all of which stand at the top.
func constraints() fields {
	rules := fields{}
	for _, field := range []string{
		"priority", "allowPrivilegedContainer", "defaultAddCapabilities", "requiredDropCapabilities", "allowedCapabilities",
		"allowHostDirVolumePlugin", "volumes", "allowedFlexVolumes", "allowHostNetwork", "allowHostPorts", "allowHostPID", "allowHostIPC",
		"userNamespaceLevel", "defaultAllowPrivilegeEscalation", "allowPrivilegeEscalation", "seLinuxContext", "runAsUser", "supplementalGroups",
		"fsGroup", "readOnlyRootFilesystem", "users", "groups", "seccompProfiles", "allowedUnsafeSysctls", "forbiddenSysctls",
	} {
		rules[field] = exact
	}

	return rules
}

// node is the rule of a field and of what lies below it. A nil one is a field without
// rules.
type node struct {
	rule   rule
	fields map[string]*node
	// items are the elements of a list.
	items *node
}

// tree makes a node of rules.
func tree(all ...fields) *node {
	root := &node{fields: map[string]*node{}}
	for _, rules := range all {
		for path, rule := range rules {
			at := root
			for name := range strings.SplitSeq(path, ".") {
				name, isList := strings.CutSuffix(name, "[]")
				if at.fields[name] == nil {
					at.fields[name] = &node{fields: map[string]*node{}}
				}
				at = at.fields[name]
				if isList {
					if at.items == nil {
						at.items = &node{fields: map[string]*node{}}
					}
					at = at.items
				}
			}
			at.rule = rule
		}
	}

	return root
}

func (n *node) field(name string) *node {
	if n == nil {
		return nil
	}
	return n.fields[name]
}

func (n *node) ruleOf() rule {
	if n == nil {
		return stated
	}
	return n.rule
}

// removes reports whether a field that the manifest does not state is taken away.
func (n *node) removes() bool { return n.rule == exact || n.rule == pruned }
