package objects

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

// Service returns the Service of the catalog.
func (c *Catalog) Service() (*corev1.Service, error) {
	spec := corev1.ServiceSpec{Ports: []corev1.ServicePort{newServicePort()}, Selector: podSelectorLabels(c)}
	if c.IsInline {
		spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: c.InlineHost, Ports: spec.Ports}
	}

	hash, err := csvinfo.Hash(spec)
	if err != nil {
		return nil, fmt.Errorf("the Service of catalog %q: %w", c.Name, err)
	}
	return &corev1.Service{ObjectMeta: newObjectMeta(c, c.ServiceName(), map[string]string{LabelServiceHash: hash}), Spec: spec}, nil
}

// ServiceAccount returns the service account of the catalog's pods.
func (c *Catalog) ServiceAccount() *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: newObjectMeta(c, c.AccountName(), nil), ImagePullSecrets: imagePullSecrets(c)}
}

// Role returns the Role that allows the service account to read the ConfigMap. It is only used
// for catalogs with a ConfigMap.
func (c *Catalog) Role() *rbacv1.Role {
	return &rbacv1.Role{
		ObjectMeta: newObjectMeta(c, c.Name+"-configmap-reader", nil),
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{c.Spec.ConfigMap}, Verbs: []string{"get"},
		}},
	}
}

// RoleBinding returns the binding of Role to the service account.
func (c *Catalog) RoleBinding() *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: newObjectMeta(c, c.Name+"-server-configmap-reader", nil),
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: c.AccountName(), Namespace: c.Namespace}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: c.Name + "-configmap-reader"},
	}
}

// NetworkPolicies returns the network policies of the pods that serve the catalog and of those
// that unpack its bundles.
func (c *Catalog) NetworkPolicies() []*networkingv1.NetworkPolicy {
	labels := map[string]string{LabelCatalog: c.Name}
	serving := &networkingv1.NetworkPolicy{
		ObjectMeta: newObjectMeta(c, c.Name+"-grpc-server", labels),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: podSelectorLabels(c)},
			Ingress:     []networkingv1.NetworkPolicyIngressRule{{Ports: []networkingv1.NetworkPolicyPort{newPolicyPort(corev1.ProtocolTCP, Port)}}},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
		},
	}
	if c.IsConfigMap() {
		serving.Spec.Egress = allowAllEgress()
	}

	unpacking := &networkingv1.NetworkPolicy{
		ObjectMeta: newObjectMeta(c, c.Name+"-unpack-bundles", labels),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: LabelBundleUnpack, Operator: metav1.LabelSelectorOpExists},
				{Key: LabelManaged, Operator: metav1.LabelSelectorOpIn, Values: []string{"true"}},
			}},
			Egress:      allowAllEgress(),
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
		},
	}

	return []*networkingv1.NetworkPolicy{serving, unpacking}
}

// allowAllEgress allows all egress. DNS ports have their own rule, for networks that filter by
// port.
func allowAllEgress() []networkingv1.NetworkPolicyEgressRule {
	return []networkingv1.NetworkPolicyEgressRule{{}, {Ports: []networkingv1.NetworkPolicyPort{
		newPolicyPort(corev1.ProtocolTCP, 53), newPolicyPort(corev1.ProtocolUDP, 53),
		newPolicyPort(corev1.ProtocolTCP, 5353), newPolicyPort(corev1.ProtocolUDP, 5353),
	}}}
}

func newPolicyPort(protocol corev1.Protocol, port int32) networkingv1.NetworkPolicyPort {
	number := intstr.FromInt32(port)
	return networkingv1.NetworkPolicyPort{Protocol: &protocol, Port: &number}
}
