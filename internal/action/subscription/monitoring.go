package subscription

import (
	"context"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	packagesv1 "github.com/mainstay-dev/mainstay/api/packages/v1"
	"github.com/mainstay-dev/mainstay/internal/action"
)

// Annotations by which the author of an operator asks for the monitoring of the cluster.
const (
	annotationClusterMonitoring = "operatorframework.io/cluster-monitoring"
	annotationMonitoringDefault = "console.openshift.io/operator-monitoring-default"
)

const (
	// labelClusterMonitoring makes the monitoring of the cluster read the metrics of a namespace.
	labelClusterMonitoring = "openshift.io/cluster-monitoring"
	// monitoredPrefix begins the names of the namespaces that the monitoring of the cluster is for.
	monitoredPrefix = "openshift-"
)

// prometheusAccount is the service account of the monitoring of the cluster.
var prometheusAccount = rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "openshift-monitoring", Name: "prometheus-k8s"}

// MonitoringOffer describes the monitoring of the cluster for a namespace that is created for an operator.
type MonitoringOffer struct {
	// Default reports whether it is enabled unless a person decides otherwise. The author asks for that, and the
	// catalog is an enabled default catalog of the OperatorHub.
	Default bool `json:"default"`
}

// monitoringRefusal is why cluster monitoring cannot be enabled. The zero value means that it can.
type monitoringRefusal struct{ reason, advice string }

// decideMonitoring returns whether cluster monitoring can be enabled for the newest version of a channel in a namespace.
// The author of the operator must ask for it, and the namespace must be the recommended one, a new one and one of the platform.
func decideMonitoring(channel *packagesv1.PackageChannel, namespace string, exists bool) monitoringRefusal {
	const without = "install without --cluster-monitoring"
	annotations := channel.CurrentCSVDesc.Annotations
	recommended := suggestNamespace(annotations).Name
	switch {
	case annotations[annotationClusterMonitoring] != "true":
		return monitoringRefusal{channel.CurrentCSV + " does not ask for cluster monitoring", without}
	case recommended == "":
		return monitoringRefusal{"cluster monitoring requires a namespace that the author of the operator recommends, but " + channel.CurrentCSV + " names none", without}
	case !strings.HasPrefix(recommended, monitoredPrefix):
		return monitoringRefusal{fmt.Sprintf("cluster monitoring is only for namespaces that begin with %s, but %s recommends %s", monitoredPrefix, channel.CurrentCSV, recommended), without}
	case namespace != recommended:
		return monitoringRefusal{"cluster monitoring requires the recommended namespace " + recommended, "choose it with --namespace " + recommended + ", or " + without}
	case exists:
		return monitoringRefusal{
			"cluster monitoring is only enabled in a namespace that is created, but " + namespace + " exists or cannot be read",
			fmt.Sprintf("%s, or label the namespace yourself: 'kubectl label namespace %s %s=true'", without, namespace, labelClusterMonitoring),
		}
	}
	return monitoringRefusal{}
}

// addMonitoring adds to an offer for a namespace that does not exist in which channels cluster monitoring can be enabled.
func (o *Offer) addMonitoring(ctx context.Context, c client.Client, pkg *packagesv1.PackageManifest, namespace string) {
	for i := range o.Details {
		channel := &pkg.Status.Channels[i]
		if decideMonitoring(channel, namespace, o.NamespaceExists).reason != "" {
			continue
		}
		isDefault := channel.CurrentCSVDesc.Annotations[annotationMonitoringDefault] == "true"
		o.Details[i].ClusterMonitoring = &MonitoringOffer{Default: isDefault && isFromDefaultCatalog(ctx, c, pkg)}
	}
}

// newNamespaceObjects returns the namespace that is created for the newest version of a channel, and the roles of cluster
// monitoring if it is requested.
func newNamespaceObjects(name string, channel *packagesv1.PackageChannel, isMonitored bool) []client.Object {
	namespace := &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: name}}
	if suggested := suggestNamespace(channel.CurrentCSVDesc.Annotations); suggested.Name == name {
		namespace.Labels, namespace.Annotations = maps.Clone(suggested.Labels), suggested.Annotations
	}

	// A template does not decide about monitoring: a person does.
	delete(namespace.Labels, labelClusterMonitoring)
	if !isMonitored {
		return []client.Object{namespace}
	}

	metav1.SetMetaDataLabel(&namespace.ObjectMeta, labelClusterMonitoring, "true")
	meta := metav1.ObjectMeta{Namespace: name, Name: name + "-prometheus"}
	role := &rbacv1.Role{
		TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"}, ObjectMeta: meta,
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"services", "endpoints", "pods"}, Verbs: []string{"get", "list", "watch"}}},
	}
	binding := &rbacv1.RoleBinding{
		TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "RoleBinding"}, ObjectMeta: meta,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: role.Kind, Name: role.Name}, Subjects: []rbacv1.Subject{prometheusAccount},
	}
	return []client.Object{namespace, role, binding}
}

// checkMonitoringObjects asks the API server whether it would create the objects of cluster monitoring. In a namespace that
// does not exist yet, it only answers whether the user may create them.
func checkMonitoringObjects(ctx context.Context, c client.Client, objects []client.Object) error {
	for _, object := range objects {
		switch object.(type) {
		case *corev1.Namespace, *rbacv1.Role, *rbacv1.RoleBinding:
		default:
			continue
		}
		asked := object.DeepCopyObject().(client.Object)
		if err := c.Create(ctx, asked, client.DryRunAll); err != nil && !apierrors.IsNotFound(err) {
			return action.NewServerError(action.DescribeKindAndName(object), err)
		}
	}
	return nil
}
