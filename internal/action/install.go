package action

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/apply"
)

// InstallFieldManager is the field manager that an installation is applied with. It
// is not that of the controllers, whose fields it must not take.
const InstallFieldManager = "mainstay-install"

// Scheme returns the kinds that the operations need a client to know.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		olmv1.AddToScheme, configv1.AddToScheme, corev1.AddToScheme, appsv1.AddToScheme, apiextensionsv1.AddToScheme, mcfgv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("registering kinds: %w", err)
		}
	}

	return scheme, nil
}

// Install installs Mainstay in a cluster, or brings an installation up to date: it
// applies CRDs, namespace, rights, Services and Deployments, and creates the kinds that
// platforms have where the cluster has none.
type Install struct {
	Client   client.Client
	Progress report.Progress

	Installation Installation
	// Wait, when not nil, has Run wait until the components run.
	Wait *Wait
}

// Run writes the objects of the installation, and returns them in order.
func (a *Install) Run(ctx context.Context) ([]*unstructured.Unstructured, error) {
	objects, err := a.Installation.Objects()
	if err != nil {
		return nil, err
	}

	for _, object := range objects {
		if err := a.write(ctx, object); err != nil {
			return nil, err
		}
	}

	if a.Installation.RequireServiceAccount {
		if err := a.withdrawClusterAdmin(ctx); err != nil {
			return nil, err
		}
	}

	if a.Wait == nil {
		return objects, nil
	}

	name := fmt.Sprintf("installation in namespace %q", a.Installation.namespace())
	return objects, a.Wait.until(ctx, name, a.Progress, func(ctx context.Context) (outlook, error) {
		return installOutlook(ctx, a.Client, objects)
	})
}

// write applies an object of the installation, or creates one that the platform may have.
func (a *Install) write(ctx context.Context, object *unstructured.Unstructured) error {
	if isPlatformKind(object) {
		isNew, err := createIfAbsent(ctx, a.Client, object.DeepCopy())
		if isNew {
			report.OrQuiet(a.Progress).Done(objectName(object) + " created")
		}
		return err
	}

	err := a.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(InstallFieldManager), client.ForceOwnership)
	if err != nil {
		return serverError(objectName(object), err)
	}

	report.OrQuiet(a.Progress).Done(objectName(object) + " applied")
	return nil
}

// withdrawClusterAdmin removes what an earlier installation gave to the
// operator-controller: applying less does not take it away.
func (a *Install) withdrawClusterAdmin(ctx context.Context) error {
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
			return serverError(objectName(object), err)
		}
	}

	return nil
}

// objectName names an object for a message, as in `deployment "catalogd-controller-manager"`.
func objectName(object client.Object) string {
	kind := strings.ToLower(object.GetObjectKind().GroupVersionKind().Kind)
	return fmt.Sprintf("%s %q", kind, object.GetName())
}

// installOutlook decides which components of an installation run.
func installOutlook(ctx context.Context, c client.Client, objects []*unstructured.Unstructured) (outlook, error) {
	o := outlook{done: true}
	var builtIn *apply.Probes
	for _, object := range objects {
		if object.GetKind() != "Deployment" && object.GetKind() != "CustomResourceDefinition" {
			continue
		}

		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(object.GroupVersionKind())
		if err := c.Get(ctx, client.ObjectKeyFromObject(object), live); err != nil {
			return outlook{}, err
		}

		part := report.Part{Name: object.GetName(), State: report.StateDone}
		if probe := builtIn.Probe(live); !probe.Ready {
			part.State, part.Detail = report.StateCurrent, probe.Message
			o.done = false
			o.pending = objectName(object) + ": " + probe.Message
			o.advice = fmt.Sprintf("look at its pods: 'kubectl -n %s get pods' and 'kubectl -n %s get events'; an image that cannot be pulled is set with --image", object.GetNamespace(), object.GetNamespace())
		}

		o.parts = append(o.parts, part)
	}

	return o, nil
}
