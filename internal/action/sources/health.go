package sources

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/action/subscription"
)

// DescribeClusterCatalog returns the source of a ClusterCatalog.
func DescribeClusterCatalog(c *olmv1.ClusterCatalog) PackageSource {
	source := PackageSource{
		Kind: olmv1.ClusterCatalogKind, Name: c.Name, Priority: int(c.Spec.Priority), Revision: revisionOf(c), Conditions: c.Status.Conditions,
	}
	if image := c.Spec.Source.Image; image != nil {
		source.Image = image.Ref
		if image.PollIntervalMinutes != nil {
			source.PollInterval = fmt.Sprintf("%dm", *image.PollIntervalMinutes)
		}
	}
	if resolved := c.Status.ResolvedSource; resolved != nil && resolved.Image != nil {
		source.Resolved = resolved.Image.Ref
	}
	if c.Status.URLs != nil {
		source.Endpoint = c.Status.URLs.Base
	}
	if t := c.Status.LastUnpacked; t != nil {
		source.Updated = new(t.Time)
	}

	pending, advice := action.CatalogPending(c)
	isServing := meta.IsStatusConditionTrue(c.Status.Conditions, olmv1.TypeServing)
	switch {
	case c.Spec.AvailabilityMode == olmv1.AvailabilityModeUnavailable:
		source.State, source.Text = StateDisabled, "The catalog is disabled. Extensions that are installed from it stay, and get no updates."
	case pending == "":
		source.State, source.Text = StateServing, "The catalog is served, and its content is up to date."
	case isServing:
		source.State, source.Text = StateOutdated, "The catalog serves its previous content, because the present one cannot be read yet."
	default:
		source.State, source.Text = StateNotServing, "The catalog is not served. Nothing can be installed from it."
	}
	if source.NeedsPerson() {
		source.Message, source.Advice = pending, asAdvice(advice)
	}
	return source
}

// DescribeCatalogSource returns the source of a CatalogSource.
func DescribeCatalogSource(c *v1alpha1.CatalogSource) PackageSource {
	source := PackageSource{
		Kind: v1alpha1.CatalogSourceKind, Namespace: c.Namespace, Name: c.Name, DisplayName: c.Spec.DisplayName, Publisher: c.Spec.Publisher, Image: c.Spec.Image,
		Address: c.Spec.Address, ConfigMap: c.Spec.ConfigMap, Endpoint: c.Address(), Priority: c.Spec.Priority, Revision: revisionOf(c), Conditions: c.Status.Conditions,
	}
	if u := c.Spec.UpdateStrategy; u != nil && u.RegistryPoll != nil {
		source.PollInterval = cmp.Or(u.RegistryPoll.Interval, "15m")
	}
	if t := c.Status.LatestImageRegistryPoll; t != nil {
		source.Updated = new(t.Time)
	}

	switch why, advice := subscription.ExplainUnservedCatalog(c); {
	case why == "" && c.Status.Message != "":
		source.State, source.Text, source.Message = StateOutdated, "The catalog is served, but cannot be updated.", c.Status.Message
		source.Advice = "Correct what the message names."
	case why == "":
		source.State, source.Text = StateServing, "The catalog is served."
	default:
		source.State, source.Text = StateNotServing, "The catalog does not answer. Nothing can be installed from it, and operators in namespaces that see it get no updates."
		source.Message, source.Advice = why, asAdvice(advice)
	}
	return source
}

// asAdvice returns advice as a sentence.
func asAdvice(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + strings.TrimSuffix(text[1:], ".") + "."
}
