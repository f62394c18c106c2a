package subscription

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

// Removal describes what the removal of an operator concerns.
type Removal struct {
	Subscription *v1alpha1.Subscription
	// CSV is the ClusterServiceVersion of the operator. It is nil if there is none. Its removal stops
	// the operator, in all namespaces that it watches.
	CSV *v1alpha1.ClusterServiceVersion
	// Replaced are the versions that CSV is just replacing. They run until the upgrade is complete.
	Replaced []*v1alpha1.ClusterServiceVersion
	// CRDs are the CRDs that the operator owns. They stay unless their removal is requested.
	CRDs []action.CRDRemoval
	// RequiredBy are the ClusterServiceVersions that require one of the CRDs.
	RequiredBy []string
}

// CustomResources returns the number of custom resources that are known.
func (r *Removal) CustomResources() int64 {
	var n int64
	for i := range r.CRDs {
		n += r.CRDs[i].CustomResources
	}
	return n
}

// Uninstall removes a Subscription, and its operator and CRDs if requested.
type Uninstall struct {
	Client   client.Client
	Progress report.Progress

	// Namespace and Name identify the Subscription. Name may also be the name of its package.
	Namespace, Name string
	// KeepOperator removes only the Subscription: the operator keeps running and is not upgraded.
	KeepOperator bool
	// DeleteCRDs also removes the CRDs of the operator.
	DeleteCRDs bool
	// DeleteCustomResources is the consent to remove CRDs that have custom resources.
	DeleteCustomResources bool
	// Wait, if not nil, makes Run wait until the objects are gone.
	Wait *action.Wait
}

// Preview returns what the removal concerns.
func (a *Uninstall) Preview(ctx context.Context) (*Removal, error) {
	sub, err := getSubscription(ctx, a.Client, a.Namespace, a.Name)
	if err != nil {
		return nil, err
	}

	removal := &Removal{Subscription: sub}
	object := describeSubscription(a.Namespace, sub.Name)
	name := csvName(sub)
	if name == "" {
		return removal, nil
	}

	csv := &v1alpha1.ClusterServiceVersion{}
	err = a.Client.Get(ctx, client.ObjectKey{Namespace: a.Namespace, Name: name}, csv)
	if apierrors.IsNotFound(err) {
		return removal, nil
	}
	if err != nil {
		return nil, action.NewServerError(object, err)
	}

	removal.CSV = csv
	for _, owned := range csv.Spec.CustomResourceDefinitions.Owned {
		crd, err := a.previewCRD(ctx, owned.Name)
		if err != nil {
			return nil, action.NewServerError(object, err)
		}
		if crd != nil && !slices.ContainsFunc(removal.CRDs, func(c action.CRDRemoval) bool { return c.Name == crd.Name }) {
			removal.CRDs = append(removal.CRDs, *crd)
		}
	}

	var csvs v1alpha1.ClusterServiceVersionList
	if err := a.Client.List(ctx, &csvs, client.InNamespace(a.Namespace)); err != nil {
		return nil, action.NewServerError(object, err)
	}

	removal.Replaced = replacedBy(csv, csvs.Items)
	removal.RequiredBy = requirersOf(csv, csvs.Items)
	return removal, nil
}

// replacedBy returns the operators that another replaces, directly or not.
func replacedBy(csv *v1alpha1.ClusterServiceVersion, all []v1alpha1.ClusterServiceVersion) []*v1alpha1.ClusterServiceVersion {
	names := csvinfo.Ancestors(csv, all)
	var replaced []*v1alpha1.ClusterServiceVersion
	for i := range all {
		if names.Has(all[i].Name) && !csvinfo.IsCopied(&all[i]) {
			replaced = append(replaced, &all[i])
		}
	}
	return replaced
}

// previewCRD counts the custom resources of a CRD. It returns nil if the CRD does not exist.
func (a *Uninstall) previewCRD(ctx context.Context, name string) (*action.CRDRemoval, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	err := a.Client.Get(ctx, client.ObjectKey{Name: name}, crd)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case apierrors.IsForbidden(err):
		return &action.CRDRemoval{Name: name, Unknown: "you are not allowed to read it"}, nil
	case err != nil:
		return nil, err
	}
	return action.CountCustomResources(ctx, a.Client, crd)
}

// requirersOf returns the operators that require a CRD of another.
func requirersOf(csv *v1alpha1.ClusterServiceVersion, all []v1alpha1.ClusterServiceVersion) []string {
	owned := map[string]bool{}
	for _, crd := range csv.Spec.CustomResourceDefinitions.Owned {
		owned[crd.Name] = true
	}

	var names []string
	for i := range all {
		requires := func(crd v1alpha1.CRDDescription) bool { return owned[crd.Name] }
		if all[i].Name != csv.Name && slices.ContainsFunc(all[i].Spec.CustomResourceDefinitions.Required, requires) {
			names = append(names, all[i].Name)
		}
	}
	return names
}

// Check returns an error that wraps action.ErrCustomResources if the removal would delete custom
// resources without consent.
func (a *Uninstall) Check(r *Removal) error {
	if !a.DeleteCRDs || a.DeleteCustomResources {
		return nil
	}

	var losses []string
	for i := range r.CRDs {
		switch crd := &r.CRDs[i]; {
		case crd.Unknown != "":
			losses = append(losses, crd.Name+" ("+crd.Unknown+")")
		case crd.CustomResources > 0:
			losses = append(losses, fmt.Sprintf("%s (%d)", crd.Name, crd.CustomResources))
		}
	}

	if len(losses) == 0 {
		return nil
	}

	return &report.Error{Object: describeSubscription(a.Namespace, r.Subscription.Name),
		Err:    fmt.Errorf("%w: %s", action.ErrCustomResources, strings.Join(losses, ", ")),
		Advice: "leave out --delete-crds to keep the CRDs and the custom resources, or add --delete-custom-resources to delete them"}
}

// Run removes what Preview returned, if Check accepts it. Custom resources go first, while the
// operator can still remove their finalizers, and nothing else is removed before they are gone. Then
// the Subscription goes, so that OLM does not install the operator again.
func (a *Uninstall) Run(ctx context.Context, r *Removal) error {
	if err := a.Check(r); err != nil {
		return err
	}
	for i := range r.CRDs {
		if !a.DeleteCRDs || r.CRDs[i].CustomResources == 0 {
			continue
		}
		if err := action.DeleteCustomResources(ctx, a.Client, a.Progress, r.CRDs[i].Name); err != nil {
			return err
		}
	}

	objects := []client.Object{r.Subscription}
	if r.CSV != nil && !a.KeepOperator {
		for _, replaced := range r.Replaced {
			objects = append(objects, replaced)
		}
		objects = append(objects, r.CSV)
	}
	for i := range r.CRDs {
		if a.DeleteCRDs {
			objects = append(objects, &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: r.CRDs[i].Name}})
		}
	}

	for _, object := range objects {
		var options []client.DeleteOption
		if uid := object.GetUID(); uid != "" {
			options = append(options, client.Preconditions{UID: &uid})
		}
		text := a.describeObject(object)
		if err := client.IgnoreNotFound(a.Client.Delete(ctx, object, options...)); err != nil {
			return action.NewServerError(text, err)
		}
		report.OrQuiet(a.Progress).Done(text + " deleted")
	}

	if a.Wait == nil {
		return nil
	}

	return a.Wait.Poll(ctx, describeSubscription(a.Namespace, r.Subscription.Name), a.Progress, func(ctx context.Context) (action.Outcome, error) {
		return a.deletionOutcome(ctx, objects)
	})
}

// describeObject returns the kind and name of an object.
func (a *Uninstall) describeObject(object client.Object) string {
	kind := "object"
	if gvk, err := a.Client.GroupVersionKindFor(object); err == nil {
		kind = strings.ToLower(gvk.Kind)
	}
	return fmt.Sprintf("%s %q", kind, object.GetName())
}

// deletionOutcome returns which objects are left.
func (a *Uninstall) deletionOutcome(ctx context.Context, objects []client.Object) (action.Outcome, error) {
	var left []string
	var errs []error
	for _, object := range objects {
		uid := object.GetUID()
		current := object.DeepCopyObject().(client.Object)
		err := a.Client.Get(ctx, client.ObjectKeyFromObject(object), current)
		switch {
		case apierrors.IsNotFound(err), err == nil && uid != "" && current.GetUID() != uid:
		case err != nil:
			errs = append(errs, err)
		default:
			left = append(left, a.describeObject(object))
		}
	}

	return action.Outcome{
		Done: len(left) == 0, Pending: "waiting for the removal of " + strings.Join(left, ", "),
		Advice: "see the finalizers of the objects that are left; the controller that set a finalizer must remove it",
	}, errors.Join(errs...)
}
