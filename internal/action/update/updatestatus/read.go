package updatestatus

import (
	"context"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/action/update/alerts"
	"github.com/mainstay-dev/mainstay/internal/action/update/clusterupdate"
)

const (
	// machineConfigOperator is the name of the ClusterOperator for node configurations. The
	// constants after it name its Deployment.
	machineConfigOperator   = "machine-config"
	machineConfigNamespace  = "openshift-machine-config-operator"
	machineConfigDeployment = "machine-config-operator"
	operatorImage           = "operator-image"
	forbiddenAdvice         = "ask an administrator of the cluster for the permission, or choose another user with --context"
)

// Reader reads the status of a cluster update.
type Reader struct {
	// Client is the client of the cluster.
	Client client.Client
	// Alerts is the source of alerts; see [alerts.Source]. Empty means none.
	Alerts alerts.Source
	// Now is the current time.
	Now time.Time
}

// Run reads the ClusterVersion, the operators and the nodes and returns the status. The
// status contains no nodes if the cluster does not manage them.
func (a *Reader) Run(ctx context.Context) (*Status, error) {
	cv, err := clusterupdate.Read(ctx, a.Client)
	if err != nil {
		return nil, err
	}

	in := Input{ClusterVersion: cv, Now: a.Now}
	if in.Alerts, err = a.Alerts.Firing(ctx); err != nil {
		return nil, err
	}

	operators := &configv1.ClusterOperatorList{}
	if err := a.listObjects(ctx, "clusteroperators", operators); err != nil {
		return nil, err
	}

	in.Operators = operators.Items
	if err := a.readNodes(ctx, &in); err != nil {
		return nil, err
	}

	in.MachineConfigImage, err = a.readMachineConfigImage(ctx, in.Operators)
	if err != nil {
		return nil, err
	}

	return Assess(in), nil
}

// listObjects lists objects. The list stays empty if the cluster does not serve the kind.
func (a *Reader) listObjects(ctx context.Context, name string, list client.ObjectList) error {
	err := a.Client.List(ctx, list)
	if err == nil || meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return newReadError(name, err)
}

// newReadError returns an error with advice for a failed read.
func newReadError(object string, err error) error {
	e := &report.Error{Object: object, Err: err}
	if apierrors.IsForbidden(err) {
		e.Advice = forbiddenAdvice
	}
	return e
}

// readNodes reads the machine config pools, the nodes, and the release versions of machine
// configs.
func (a *Reader) readNodes(ctx context.Context, in *Input) error {
	list := &mcfgv1.MachineConfigPoolList{}
	if err := a.listObjects(ctx, "machineconfigpools", list); err != nil || len(list.Items) == 0 {
		return err
	}

	nodes := &corev1.NodeList{}
	if err := a.listObjects(ctx, "nodes", nodes); err != nil {
		return err
	}

	// A machine config contains all files of a node. Only its metadata is needed.
	configs := &metav1.PartialObjectMetadataList{}
	configs.SetGroupVersionKind(mcfgv1.GroupVersion.WithKind("MachineConfigList"))
	if err := a.listObjects(ctx, "machineconfigs", configs); err != nil {
		return err
	}

	in.Pools, in.Nodes, in.Versions = list.Items, nodes.Items, map[string]string{}
	for i := range configs.Items {
		if version := configs.Items[i].Annotations[mcfgv1.AnnotationReleaseVersion]; version != "" {
			in.Versions[configs.Items[i].Name] = version
		}
	}

	return nil
}

// readMachineConfigImage returns the image of the machine-config-operator if that operator
// reports the image that it has rolled out, and an empty string otherwise.
func (a *Reader) readMachineConfigImage(ctx context.Context, operators []configv1.ClusterOperator) (string, error) {
	reports := func(o configv1.ClusterOperator) bool {
		return o.Name == machineConfigOperator && slices.ContainsFunc(o.Status.Versions, func(v configv1.OperandVersion) bool { return v.Name == operatorImage })
	}
	if !slices.ContainsFunc(operators, reports) {
		return "", nil
	}

	deployment := &appsv1.Deployment{}
	err := a.Client.Get(ctx, client.ObjectKey{Namespace: machineConfigNamespace, Name: machineConfigDeployment}, deployment)
	if client.IgnoreNotFound(err) != nil {
		return "", newReadError("deployment "+machineConfigNamespace+"/"+machineConfigDeployment, err)
	}

	for _, container := range deployment.Spec.Template.Spec.Containers {
		if container.Name == machineConfigDeployment {
			return container.Image, nil
		}
	}

	return "", nil
}
