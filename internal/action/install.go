package action

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	operatorsv1alpha1 "github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	packagesv1 "github.com/mainstay-dev/mainstay/api/packages/v1"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/apply"
)

// InstallFieldManager is the field manager of installations. It differs from that of the
// controllers, so that an installation does not take over their fields.
const InstallFieldManager = "mainstay-install"

// Scheme returns a scheme with all kinds that the operations use.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		olmv1.AddToScheme, configv1.AddToScheme, corev1.AddToScheme, appsv1.AddToScheme, rbacv1.AddToScheme, apiextensionsv1.AddToScheme, mcfgv1.AddToScheme,
		operatorsv1.AddToScheme, operatorsv1alpha1.AddToScheme, packagesv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("registering kinds: %w", err)
		}
	}

	return scheme, nil
}

// Install installs or updates Mainstay in a cluster. It applies CRDs, the namespace, RBAC
// objects, Services and Deployments, and creates the CRDs of platforms if they are absent.
type Install struct {
	Client   client.Client
	Progress report.Progress

	Installation Installation
	// Wait, if not nil, makes Run wait until the components are running.
	Wait *Wait
}

// Run writes the objects of the installation and returns them in order.
func (a *Install) Run(ctx context.Context) ([]*unstructured.Unstructured, error) {
	objects, err := a.Installation.Objects()
	if err != nil {
		return nil, err
	}

	for _, object := range objects {
		if err := a.writeObject(ctx, object); err != nil {
			return nil, err
		}
	}

	if a.Installation.RequireServiceAccount {
		if err := a.deleteClusterAdminBinding(ctx); err != nil {
			return nil, err
		}
	}

	if a.Wait == nil {
		return objects, nil
	}

	name := fmt.Sprintf("installation in namespace %q", a.Installation.systemNamespace())
	return objects, a.Wait.Poll(ctx, name, a.Progress, func(ctx context.Context) (Outcome, error) {
		return installWaitOutcome(ctx, a.Client, objects)
	})
}

// writeObject applies an object of the installation, or creates a CRD of the platform if it
// is absent.
func (a *Install) writeObject(ctx context.Context, object *unstructured.Unstructured) error {
	if isPlatformKind(object) {
		isNew, err := createIfAbsent(ctx, a.Client, object.DeepCopy())
		if isNew {
			report.OrQuiet(a.Progress).Done(DescribeKindAndName(object) + " created")
		}
		return err
	}

	err := retryUntilServed(ctx, func(ctx context.Context) error {
		return a.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(InstallFieldManager), client.ForceOwnership)
	})
	if err != nil {
		return NewServerError(DescribeKindAndName(object), err)
	}

	report.OrQuiet(a.Progress).Done(DescribeKindAndName(object) + " applied")
	return nil
}

// deleteClusterAdminBinding deletes the cluster-admin binding of operator-controller from
// an earlier installation, because applying fewer objects does not remove it.
func (a *Install) deleteClusterAdminBinding(ctx context.Context) error {
	all := Installation{Namespace: a.Installation.Namespace}
	objects, err := all.Manifests()
	if err != nil {
		return err
	}

	for _, object := range objects {
		if object.GetKind() != "ClusterRoleBinding" || object.GetName() != "operator-controller-cluster-admin" {
			continue
		}
		if err := a.Client.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
			return NewServerError(DescribeKindAndName(object), err)
		}
	}

	return nil
}

// DescribeKindAndName returns the kind and name of an object for messages, such as
// `deployment "catalogd-controller-manager"`.
func DescribeKindAndName(object client.Object) string {
	kind := strings.ToLower(object.GetObjectKind().GroupVersionKind().Kind)
	return fmt.Sprintf("%s %q", kind, object.GetName())
}

// installWaitOutcome reports which components of an installation are ready.
func installWaitOutcome(ctx context.Context, c client.Client, objects []*unstructured.Unstructured) (Outcome, error) {
	o := Outcome{Done: true}
	var builtIn *apply.Probes
	for _, object := range objects {
		if object.GetKind() != "Deployment" && object.GetKind() != "CustomResourceDefinition" {
			continue
		}

		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(object.GroupVersionKind())
		if err := c.Get(ctx, client.ObjectKeyFromObject(object), live); err != nil {
			return Outcome{}, err
		}

		part := report.Part{Name: object.GetName(), State: report.StateDone}
		if probe := builtIn.Probe(live); !probe.Ready {
			part.State, part.Detail = report.StateCurrent, probe.Message
			o.Done = false
			o.Pending = DescribeKindAndName(object) + ": " + probe.Message
			o.Advice = fmt.Sprintf("look at its pods: 'kubectl -n %s get pods' and 'kubectl -n %s get events'; an image that cannot be pulled is set with --image", object.GetNamespace(), object.GetNamespace())
		}

		o.Parts = append(o.Parts, part)
	}

	return o, nil
}
