package source

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// catalogConditions are the condition types of a CatalogSource, in order.
var catalogConditions = reconcile.Conditions{v1alpha1.CatalogSourceTemplatesHaveResolved, v1alpha1.CatalogSourceResolvedImage}

// resolvedTemplate is the result of resolving an image template.
type resolvedTemplate struct {
	// image is the template with the values of the variables.
	image string
	// unknown are the variables that have no value, quoted.
	unknown []string
	// malformed is set if the image is not a valid image reference.
	malformed bool
}

// resolveTemplate replaces the variables of an image template by the version of the cluster,
// such as v1.32.1. Variables for missing parts of the version are kept.
func resolveTemplate(template, serverVersion string) resolvedTemplate {
	values := map[string]string{"{kube_major_version}": "", "{kube_minor_version}": "", "{kube_patch_version}": ""}
	if v, err := version.ParseGeneric(serverVersion); err == nil {
		values["{kube_major_version}"] = strconv.FormatUint(uint64(v.Major()), 10)
		values["{kube_minor_version}"] = strconv.FormatUint(uint64(v.Minor()), 10)
		if len(v.Components()) > 2 {
			values["{kube_patch_version}"] = strconv.FormatUint(uint64(v.Patch()), 10)
		}
	}

	r := resolvedTemplate{image: template}
	sample := template // the image with values for all variables
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

// failureMessage returns why a template has no image, or "".
func (r resolvedTemplate) failureMessage() string {
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

// hasImageTemplate reports whether the image of a catalog results from a template.
func hasImageTemplate(catalog *v1alpha1.CatalogSource) bool {
	return catalog.Annotations[v1alpha1.AnnotationCatalogImageTemplate] != "" && catalog.Spec.SourceType == v1alpha1.SourceTypeGrpc
}

// setTemplateConditions sets the conditions for the result of a catalog's template.
func setTemplateConditions(catalog *v1alpha1.CatalogSource, result resolvedTemplate) {
	status, reason, message := metav1.ConditionTrue, v1alpha1.ReasonAllTemplatesResolved, "catalog image reference was successfully resolved"
	if failure := result.failureMessage(); failure != "" {
		status, reason, message = metav1.ConditionFalse, v1alpha1.ReasonUnableToResolve, failure
	}

	set := func(kind, text string) {
		catalogConditions.Set(&catalog.Status.Conditions, catalog.Generation, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: text})
	}
	set(v1alpha1.CatalogSourceTemplatesHaveResolved, message)
	set(v1alpha1.CatalogSourceResolvedImage, result.image)
}
