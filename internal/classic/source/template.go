package source

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// conditions are those of a CatalogSource, in their order.
var conditions = reconcile.Conditions{v1alpha1.CatalogSourceTemplatesHaveResolved, v1alpha1.CatalogSourceResolvedImage}

// resolved is what a template of an image gives.
type resolved struct {
	// image is the template with the values of its variables.
	image string
	// unknown are the variables that have no value, quoted.
	unknown []string
	// malformed says that the image is no image reference.
	malformed bool
}

// resolve puts the version of a cluster into a template of an image. The version is that of the
// program, such as v1.32.1; the parts that it does not have stay variables.
func resolve(template, serverVersion string) resolved {
	values := map[string]string{"{kube_major_version}": "", "{kube_minor_version}": "", "{kube_patch_version}": ""}
	if v, err := version.ParseGeneric(serverVersion); err == nil {
		values["{kube_major_version}"] = strconv.FormatUint(uint64(v.Major()), 10)
		values["{kube_minor_version}"] = strconv.FormatUint(uint64(v.Minor()), 10)
		if len(v.Components()) > 2 {
			values["{kube_patch_version}"] = strconv.FormatUint(uint64(v.Patch()), 10)
		}
	}

	r := resolved{image: template}
	sample := template // as it would be if all variables had a value
	for _, variable := range []string{"{kube_major_version}", "{kube_minor_version}", "{kube_patch_version}"} {
		if !strings.Contains(template, variable) {
			continue
		}

		value := values[variable]
		if value == "" {
			r.unknown = append(r.unknown, strconv.Quote(variable))
			sample = strings.ReplaceAll(sample, variable, "0")
			continue
		}

		r.image = strings.ReplaceAll(r.image, variable, value)
		sample = strings.ReplaceAll(sample, variable, value)
	}

	_, err := name.ParseReference(sample)
	r.malformed = err != nil
	return r
}

// failure says why a template gives no image. It is empty when it does.
func (r resolved) failure() string {
	const improper = "one or more template(s) has improper syntax"
	switch {
	case len(r.unknown) > 0:
		text := fmt.Sprintf("cannot construct catalog image reference, because variable(s) %s could not be resolved", strings.Join(r.unknown, ", "))
		if r.malformed {
			text += " and " + improper
		}
		return text
	case r.malformed:
		return "cannot construct catalog image reference, because " + improper
	}

	return ""
}

// template has the image be what the catalog's template gives, and says so in the conditions.
func (r *reconciler) template(ctx context.Context, catalog *v1alpha1.CatalogSource) error {
	text := catalog.Annotations[v1alpha1.AnnotationCatalogImageTemplate]
	if text == "" || catalog.Spec.SourceType != v1alpha1.SourceTypeGrpc {
		meta.RemoveStatusCondition(&catalog.Status.Conditions, v1alpha1.CatalogSourceTemplatesHaveResolved)
		meta.RemoveStatusCondition(&catalog.Status.Conditions, v1alpha1.CatalogSourceResolvedImage)
		return nil
	}

	serverVersion, err := r.serverVersion(ctx)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "The version of the cluster is not known")
	}

	result := resolve(text, serverVersion)
	failure := result.failure()
	if failure == "" && catalog.Spec.Image != result.image {
		changed := catalog.DeepCopy()
		changed.Spec.Image = result.image
		patch := client.MergeFromWithOptions(catalog, client.MergeFromWithOptimisticLock{})
		if err := r.client.Patch(ctx, changed, patch); err != nil {
			return fmt.Errorf("writing the image of the template: %w", err)
		}

		return reconcile.ErrDone // The change is seen, and what follows is done with the new image.
	}

	status, reason, message := metav1.ConditionTrue, v1alpha1.ReasonAllTemplatesResolved, "catalog image reference was successfully resolved"
	if failure != "" {
		status, reason, message = metav1.ConditionFalse, v1alpha1.ReasonUnableToResolve, failure
	}

	set := func(kind, text string) {
		conditions.Set(&catalog.Status.Conditions, catalog.Generation, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: text})
	}
	set(v1alpha1.CatalogSourceTemplatesHaveResolved, message)
	set(v1alpha1.CatalogSourceResolvedImage, result.image)

	return nil
}
