package sources

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/action/report"
)

// Settings are what can be changed of a source. A nil field keeps the present value.
type Settings struct {
	Image    *string
	Priority *int
	// PollMinutes is how often the image is looked up again. Zero means never.
	PollMinutes *int
	// IsEnabled decides whether a ClusterCatalog is served.
	IsEnabled *bool
}

// Change changes a source.
type Change struct {
	Client client.Client
	// Namespace and Name name a CatalogSource. Without a namespace, Name is that of a ClusterCatalog.
	Namespace, Name string
	// Revision is the revision that the person has seen. Empty means any.
	Revision string
	Settings Settings
}

// Run writes the settings. It repeats a write that conflicts with one of another client, unless that changed the revision.
func (a *Change) Run(ctx context.Context) error {
	return retry.OnError(retry.DefaultBackoff, isRepeatable, func() error { return a.write(ctx) })
}

// write reads the object, and writes the settings to it.
func (a *Change) write(ctx context.Context) error {
	object := newObject(a.Namespace, a.Name)
	if err := a.Client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
		return newMissingError(a.Namespace, a.Name, err)
	}
	if err := checkRevision(describeSource(a.Namespace, a.Name), object, a.Revision); err != nil {
		return err
	}

	before := object.DeepCopyObject().(client.Object)
	var err error
	switch o := object.(type) {
	case *olmv1.ClusterCatalog:
		a.Settings.applyToClusterCatalog(o)
	case *v1alpha1.CatalogSource:
		err = a.Settings.applyToCatalogSource(o)
	}
	if err != nil {
		return &report.Error{Object: describeSource(a.Namespace, a.Name), Err: err, Advice: "change only what this kind of catalog has"}
	}

	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	return action.NewServerError(describeSource(a.Namespace, a.Name), a.Client.Patch(ctx, object, patch))
}

// newObject returns an empty ClusterCatalog, or CatalogSource if there is a namespace.
func newObject(namespace, name string) client.Object {
	if namespace == "" {
		return &olmv1.ClusterCatalog{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	return &v1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func describeSource(namespace, name string) string {
	if namespace == "" {
		return fmt.Sprintf("clustercatalog %q", name)
	}
	return fmt.Sprintf("catalogsource %q in namespace %q", name, namespace)
}

func newMissingError(namespace, name string, err error) error {
	list := "mainstay catalog list"
	if namespace != "" {
		list = "kubectl get catalogsources -n " + namespace
	}
	return action.NewNotFoundError(describeSource(namespace, name), list, err)
}

// revisionOf returns what changes with each change of an object but those of its status and its annotations. It is empty
// for an object that is not stored.
func revisionOf(object client.Object) string {
	if object.GetUID() == "" {
		return ""
	}
	return fmt.Sprintf("%s/%d", object.GetUID(), object.GetGeneration())
}

// errChangedSinceRead is a conflict with a change that the person has not seen.
var errChangedSinceRead = &report.Reworded{
	Text:  "it has changed since you read it",
	Cause: apierrors.NewConflict(schema.GroupResource{}, "", errors.New("another revision")),
}

// isRepeatable reports whether a write conflicted with one that the person need not see.
func isRepeatable(err error) bool {
	return apierrors.IsConflict(err) && !errors.Is(err, errChangedSinceRead)
}

// checkRevision returns an error if an object is not at the revision that a person has seen.
func checkRevision(name string, object client.Object, seen string) error {
	if seen == "" || seen == revisionOf(object) {
		return nil
	}
	return &report.Error{Object: name, Err: errChangedSinceRead, Advice: "look at its present state, and try again"}
}

// maxPollMinutes limits the poll interval. It is a week.
const maxPollMinutes = 7 * 24 * 60

func (s *Settings) applyToClusterCatalog(c *olmv1.ClusterCatalog) {
	if c.Spec.Source.Image == nil {
		c.Spec.Source.Image = &olmv1.ImageSource{}
	}
	if s.Image != nil {
		c.Spec.Source.Image.Ref = *s.Image
	}
	if s.Priority != nil {
		c.Spec.Priority = int32(min(max(*s.Priority, math.MinInt32), math.MaxInt32))
	}
	if s.PollMinutes != nil {
		c.Spec.Source.Image.PollIntervalMinutes = nil
		if *s.PollMinutes > 0 {
			c.Spec.Source.Image.PollIntervalMinutes = new(int32(min(*s.PollMinutes, maxPollMinutes)))
		}
	}
	if s.IsEnabled != nil {
		c.Spec.AvailabilityMode = olmv1.AvailabilityModeUnavailable
		if *s.IsEnabled {
			c.Spec.AvailabilityMode = olmv1.AvailabilityModeAvailable
		}
	}
}

func (s *Settings) applyToCatalogSource(c *v1alpha1.CatalogSource) error {
	switch {
	case s.IsEnabled != nil:
		return errors.New("a CatalogSource cannot be disabled, only deleted")
	case s.Image != nil && c.Spec.Image == "":
		return errors.New("its content does not come from an image")
	}

	if s.Image != nil {
		c.Spec.Image = *s.Image
	}
	if s.Priority != nil {
		c.Spec.Priority = *s.Priority
	}
	if s.PollMinutes != nil {
		c.Spec.UpdateStrategy = newUpdateStrategy(*s.PollMinutes)
	}
	return nil
}

// newUpdateStrategy returns the strategy that polls an image. It is nil for an interval of zero.
func newUpdateStrategy(minutes int) *v1alpha1.UpdateStrategy {
	if minutes <= 0 {
		return nil
	}
	return &v1alpha1.UpdateStrategy{RegistryPoll: &v1alpha1.RegistryPoll{Interval: fmt.Sprintf("%dm", min(minutes, maxPollMinutes))}}
}

// Add creates a source with an image.
type Add struct {
	Client client.Client
	// Namespace is that of a CatalogSource. Empty means a ClusterCatalog.
	Namespace, Name string
	Image           string
	DisplayName     string
	Publisher       string
	Priority        int
	// PollMinutes is how often the image is looked up again. Zero means never.
	PollMinutes int
}

// Run creates the source.
func (a *Add) Run(ctx context.Context) error {
	if a.Namespace == "" {
		minutes := min(a.PollMinutes, maxPollMinutes)
		_, err := (&action.CatalogAdd{
			Client: a.Client, Name: a.Name, Image: a.Image, Priority: int32(min(max(a.Priority, math.MinInt32), math.MaxInt32)), PollInterval: time.Duration(minutes) * time.Minute,
		}).Run(ctx)
		return err
	}

	source := &v1alpha1.CatalogSource{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: a.Name},
		Spec: v1alpha1.CatalogSourceSpec{
			SourceType: v1alpha1.SourceTypeGrpc, Image: a.Image, DisplayName: a.DisplayName, Publisher: a.Publisher, Priority: a.Priority, UpdateStrategy: newUpdateStrategy(a.PollMinutes),
		},
	}
	err := a.Client.Create(ctx, source)
	if apierrors.IsAlreadyExists(err) {
		return &report.Error{Object: describeSource(a.Namespace, a.Name), Err: &report.Reworded{Text: "it exists already", Cause: err}, Advice: "choose another name"}
	}
	return action.NewServerError(describeSource(a.Namespace, a.Name), err)
}

// EnableDefault enables or disables a default catalog of the OperatorHub.
type EnableDefault struct {
	Client client.Client
	Name   string
	// IsEnabled is the new state.
	IsEnabled bool
	// Revision is the revision of the OperatorHub that the person has seen. Empty means any.
	Revision string
}

// Run writes the entry of the catalog. It keeps those of others. It repeats a write that conflicts with one of another
// client, unless that changed the revision.
func (a *EnableDefault) Run(ctx context.Context) error {
	return retry.OnError(retry.DefaultBackoff, isRepeatable, func() error { return a.write(ctx) })
}

// write reads the OperatorHub, and writes the entry of the catalog to it.
func (a *EnableDefault) write(ctx context.Context) error {
	const object = `operatorhub "cluster"`
	hub := &configv1.OperatorHub{}
	if err := a.Client.Get(ctx, client.ObjectKey{Name: configv1.OperatorHubName}, hub); err != nil {
		return action.NewServerError(object, err)
	}
	if err := checkRevision(object, hub, a.Revision); err != nil {
		return err
	}
	if !isKnownDefault(hub, a.Name) {
		return &report.Error{Object: object, Err: fmt.Errorf("it has no default catalog %q", a.Name), Advice: "choose one of: " + strings.Join(listDefaults(hub), ", ")}
	}

	before := hub.DeepCopy()
	setDefault(&hub.Spec, a.Name, !a.IsEnabled)
	return action.NewServerError(object, a.Client.Patch(ctx, hub, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
}

func listDefaults(hub *configv1.OperatorHub) []string {
	var names []string
	for _, s := range hub.Status.Sources {
		names = append(names, s.Name)
	}
	return names
}

func isKnownDefault(hub *configv1.OperatorHub, name string) bool {
	for _, known := range listDefaults(hub) {
		if known == name {
			return true
		}
	}
	return false
}

// setDefault sets the entry of a default catalog. The last of several entries counts.
func setDefault(spec *configv1.OperatorHubSpec, name string, isDisabled bool) {
	for i := len(spec.Sources) - 1; i >= 0; i-- {
		if spec.Sources[i].Name == name {
			spec.Sources[i].Disabled = isDisabled
			return
		}
	}
	spec.Sources = append(spec.Sources, configv1.HubSource{Name: name, Disabled: isDisabled})
}
