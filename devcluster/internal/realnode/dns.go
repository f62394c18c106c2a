package realnode

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	discoveryv1apply "k8s.io/client-go/applyconfigurations/discovery/v1"
	rbacv1apply "k8s.io/client-go/applyconfigurations/rbac/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/mainstay-dev/mainstay/devcluster/internal/pki"
	"github.com/mainstay-dev/mainstay/devcluster/internal/state"
)

// fieldManager is the field manager of the node's objects.
const fieldManager = "devcluster"

// dnsServiceName is the conventional name of the Service of the cluster's DNS server.
const dnsServiceName = "kube-dns"

// ApplyDNS applies the RBAC rules, the Service and the EndpointSlice of the DNS server.
func (n *Node) ApplyDNS(ctx context.Context, client kubernetes.Interface) error {
	options := metav1.ApplyOptions{FieldManager: fieldManager, Force: true}
	_, err := client.RbacV1().ClusterRoles().Apply(ctx, newDNSClusterRole(), options)
	if err == nil {
		_, err = client.RbacV1().ClusterRoleBindings().Apply(ctx, newDNSClusterRoleBinding(), options)
	}
	if err == nil {
		_, err = client.CoreV1().Services(metav1.NamespaceSystem).Apply(ctx, newDNSService(n.config.Addresses), options)
	}
	if err == nil {
		_, err = client.DiscoveryV1().EndpointSlices(metav1.NamespaceSystem).Apply(ctx, newDNSEndpointSlice(n.config.Addresses), options)
	}
	if err != nil {
		return fmt.Errorf("apply the objects of the DNS server: %w", err)
	}

	return nil
}

func newDNSClusterRole() *rbacv1apply.ClusterRoleApplyConfiguration {
	return rbacv1apply.ClusterRole(pki.CoreDNSUser).WithRules(
		rbacv1apply.PolicyRule().WithAPIGroups("").WithResources("services", "pods", "namespaces").WithVerbs("list", "watch"),
		rbacv1apply.PolicyRule().WithAPIGroups("discovery.k8s.io").WithResources("endpointslices").WithVerbs("list", "watch"),
	)
}

func newDNSClusterRoleBinding() *rbacv1apply.ClusterRoleBindingApplyConfiguration {
	return rbacv1apply.ClusterRoleBinding(pki.CoreDNSUser).
		WithRoleRef(rbacv1apply.RoleRef().WithAPIGroup(rbacv1.GroupName).WithKind("ClusterRole").WithName(pki.CoreDNSUser)).
		WithSubjects(rbacv1apply.Subject().WithAPIGroup(rbacv1.GroupName).WithKind(rbacv1.UserKind).WithName(pki.CoreDNSUser))
}

// newDNSService returns the Service of the DNS server. It has no selector, because the DNS server is not a pod.
func newDNSService(addresses state.Addresses) *corev1apply.ServiceApplyConfiguration {
	port := func(name string, protocol corev1.Protocol) *corev1apply.ServicePortApplyConfiguration {
		return corev1apply.ServicePort().WithName(name).WithPort(53).WithProtocol(protocol)
	}
	return corev1apply.Service(dnsServiceName, metav1.NamespaceSystem).
		WithLabels(map[string]string{"k8s-app": dnsServiceName}).
		WithSpec(corev1apply.ServiceSpec().
			WithClusterIP(addresses.DNS().String()).
			WithPorts(port("dns", corev1.ProtocolUDP), port("dns-tcp", corev1.ProtocolTCP)))
}

func newDNSEndpointSlice(addresses state.Addresses) *discoveryv1apply.EndpointSliceApplyConfiguration {
	port := func(name string, protocol corev1.Protocol) *discoveryv1apply.EndpointPortApplyConfiguration {
		return discoveryv1apply.EndpointPort().WithName(name).WithPort(53).WithProtocol(protocol)
	}
	return discoveryv1apply.EndpointSlice(dnsServiceName+"-devcluster", metav1.NamespaceSystem).
		WithLabels(map[string]string{
			discoveryv1.LabelServiceName: dnsServiceName,
			discoveryv1.LabelManagedBy:   fieldManager,
		}).
		WithAddressType(discoveryv1.AddressTypeIPv4).
		WithEndpoints(discoveryv1apply.Endpoint().
			WithAddresses(addresses.Gateway().String()).
			WithConditions(discoveryv1apply.EndpointConditions().WithReady(true))).
		WithPorts(port("dns", corev1.ProtocolUDP), port("dns-tcp", corev1.ProtocolTCP))
}
