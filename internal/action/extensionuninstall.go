package action

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/action/diagnosis"
	"github.com/mainstay-dev/mainstay/internal/action/report"
)

// ErrCustomResources is the reason why extensions are not uninstalled: custom resources
// would be deleted without consent.
var ErrCustomResources = errors.New("custom resources would be deleted")

// ExtensionUninstall deletes extensions and all objects that they manage.
type ExtensionUninstall struct {
	Client   client.Client
	Progress report.Progress

	Names []string
	// DeleteCustomResources is the consent to delete the custom resources of the CRDs.
	DeleteCustomResources bool
	// KeepCRDs keeps the CRDs of the extensions and all custom resources.
	KeepCRDs bool
	// Wait, if not nil, makes Run wait until the extensions and their objects are gone.
	Wait *Wait
}

// Preview returns what would be removed with each extension, in the order of the names. It
// returns an error if one of them does not exist.
func (a *ExtensionUninstall) Preview(ctx context.Context) ([]ExtensionRemoval, error) {
	var removals []ExtensionRemoval
	for i, name := range a.Names {
		if slices.Contains(a.Names[:i], name) {
			continue
		}

		extension := &olmv1.ClusterExtension{}
		if err := a.Client.Get(ctx, client.ObjectKey{Name: name}, extension); err != nil {
			return nil, NewNotFoundError(describeExtension(name), "mainstay extension list", err)
		}

		removal, err := previewRemoval(ctx, a.Client, extension, a.KeepCRDs)
		if err != nil {
			return nil, NewServerError(describeExtension(name), err)
		}

		removals = append(removals, *removal)
	}

	return removals, nil
}

// Check returns an error that wraps ErrCustomResources if a removal would or might delete
// custom resources without consent.
func (a *ExtensionUninstall) Check(removals []ExtensionRemoval) error {
	if a.DeleteCustomResources {
		return nil
	}

	var losses, names []string
	for i := range removals {
		if loss := removals[i].describeLoss(); loss != "" {
			losses = append(losses, loss)
			names = append(names, fmt.Sprintf("%q", removals[i].Name))
		}
	}

	if len(losses) == 0 {
		return nil
	}

	return &report.Error{
		Object: "clusterextension " + strings.Join(names, ", "),
		Err:    fmt.Errorf("%w: %s", ErrCustomResources, strings.Join(losses, "; ")),
		Advice: "add --keep-crds to keep the CRDs and the custom resources, or --delete-custom-resources to delete them",
	}
}

// Run deletes the extensions of Preview if Check accepts them, and waits if requested. It
// deletes nothing if one of them is refused.
func (a *ExtensionUninstall) Run(ctx context.Context, removals []ExtensionRemoval) error {
	if err := a.Check(removals); err != nil {
		return err
	}

	for i := range removals {
		if err := a.deleteExtension(ctx, &removals[i]); err != nil {
			return err
		}
	}

	if a.Wait == nil {
		return nil
	}

	object := "clusterextensions"
	if len(removals) == 1 {
		object = describeExtension(removals[0].Name)
	}

	return a.Wait.Poll(ctx, object, a.Progress, func(ctx context.Context) (Outcome, error) {
		return removalWaitOutcome(ctx, a.Client, removals)
	})
}

// deleteExtension annotates and deletes an extension.
func (a *ExtensionUninstall) deleteExtension(ctx context.Context, removal *ExtensionRemoval) error {
	name := describeExtension(removal.Name)
	if err := a.annotateRemoval(ctx, removal); err != nil {
		return NewServerError(name, err)
	}

	extension := &olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: removal.Name}}
	err := a.Client.Delete(ctx, extension, client.Preconditions{UID: &removal.uid})
	if err != nil {
		return NewNotFoundError(name, "mainstay extension list", err)
	}

	return nil
}

// annotateRemoval sets the annotation that keeps the CRDs of an extension, or the consent
// to their deletion, which an admission policy may require.
func (a *ExtensionUninstall) annotateRemoval(ctx context.Context, removal *ExtensionRemoval) error {
	annotation := olmv1.AnnotationDeleteCustomResources
	switch {
	case a.KeepCRDs:
		annotation = olmv1.AnnotationKeepCRDs
	case removal.CRDsKept || len(removal.CRDs) == 0:
		return nil
	}

	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{%q:"true"}}}`, removal.uid, annotation)
	extension := &olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: removal.Name}}
	err := a.Client.Patch(ctx, extension, client.RawPatch(types.MergePatchType, patch))
	if apierrors.IsForbidden(err) && !a.KeepCRDs {
		// A user with permission to delete but not to patch needs the consent only if the
		// policy is installed. The policy then refuses the deletion.
		return nil
	}

	return err
}

// removalWaitOutcome reports which of the extensions are gone, and what blocks the others.
func removalWaitOutcome(ctx context.Context, c client.Client, removals []ExtensionRemoval) (Outcome, error) {
	all := Outcome{Done: true}
	for i := range removals {
		extension := &olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: removals[i].Name}}
		o, err := deletionWaitOutcome(ctx, c, extension, "")
		if err != nil {
			return Outcome{}, err
		}

		if !o.Done {
			o = explainRemoval(extension, o)
			all.Done, all.Pending, all.Advice = false, o.Pending, o.Advice
			all.Failed = errors.Join(all.Failed, o.Failed)
		}

		for _, part := range o.Parts {
			if len(removals) > 1 {
				part.Name += " " + extension.Name
			}
			all.Parts = append(all.Parts, part)
		}
	}

	return all, nil
}

// explainRemoval adds to an outcome what the removal of an extension is waiting for
// according to its controller.
func explainRemoval(extension *olmv1.ClusterExtension, o Outcome) Outcome {
	o.Advice = fmt.Sprintf("see which objects are left with 'mainstay extension status %s'; an object with a finalizer of its own waits for the controller that set it", extension.Name)
	progressing := meta.FindStatusCondition(extension.Status.Conditions, olmv1.TypeProgressing)
	if progressing == nil || !isAboutRemoval(progressing) {
		return o
	}

	o.Pending = progressing.Message
	for i := range o.Parts {
		o.Parts[i].Detail = o.Pending
	}

	if progressing.Status == metav1.ConditionFalse {
		o.Failed = errors.New(progressing.Message)
		o.Advice = diagnosis.Advice(diagnosis.SubjectOf(extension), progressing.Reason, progressing.Message)
	}

	return o
}

// isAboutRemoval reports whether a condition was written after the deletion was requested.
func isAboutRemoval(progressing *metav1.Condition) bool {
	return strings.HasPrefix(progressing.Message, "removing ") || strings.HasPrefix(progressing.Message, "the removal waits")
}
