package plan

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// AnnotationMigratedFromCatalog is the annotation of a ClusterCatalog with the CatalogSource that it was
// migrated from, as namespace/name.
const AnnotationMigratedFromCatalog = "olm.operatorframework.io/migrated-from-catalogsource"

// CatalogAction is what the migration does with a CatalogSource.
type CatalogAction string

const (
	// CatalogCreate means that a ClusterCatalog with the image is created.
	CatalogCreate CatalogAction = "create"
	// CatalogUse means that a ClusterCatalog with the image exists, or is created for another
	// CatalogSource.
	CatalogUse CatalogAction = "use"
	// CatalogSkip means that no ClusterCatalog can have the content.
	CatalogSkip CatalogAction = "skip"
)

// CatalogPlan is what becomes of one CatalogSource.
type CatalogPlan struct {
	// Source is the CatalogSource, as namespace/name.
	Source string        `json:"source"`
	Action CatalogAction `json:"action"`
	// Catalog is the name of the ClusterCatalog. It is empty if the CatalogSource is skipped.
	Catalog string `json:"catalog,omitempty"`
	// Notes are what the ClusterCatalog does not have, or why the CatalogSource is skipped.
	Notes []string `json:"notes,omitempty"`
	// Create is the ClusterCatalog to create. It is nil unless the action is create.
	Create *olmv1.ClusterCatalog `json:"create,omitempty"`
}

// NewCatalogs returns what becomes of CatalogSources, sorted by namespace and name. Those of one image
// have one ClusterCatalog.
func NewCatalogs(sources []v1alpha1.CatalogSource, existing []olmv1.ClusterCatalog) []CatalogPlan {
	sorted := slices.Clone(sources)
	slices.SortFunc(sorted, func(a, b v1alpha1.CatalogSource) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})

	byImage, taken := map[string]string{}, map[string]bool{}
	for i := range existing {
		taken[existing[i].Name] = true
		if image := existing[i].Spec.Source.Image; image != nil && byImage[image.Ref] == "" {
			byImage[image.Ref] = existing[i].Name
		}
	}

	plans := make([]CatalogPlan, len(sorted))
	for i := range sorted {
		source := &sorted[i]
		p := CatalogPlan{Source: source.Namespace + "/" + source.Name}
		switch reason := whyNoImage(source); {
		case reason != "":
			p.Action, p.Notes = CatalogSkip, []string{reason}
		case byImage[source.Spec.Image] != "":
			p.Action, p.Catalog = CatalogUse, byImage[source.Spec.Image]
		default:
			p.Action, p.Catalog = CatalogCreate, chooseCatalogName(source, sorted, taken)
			p.Create, p.Notes = newCatalog(source, p.Catalog)
			byImage[source.Spec.Image], taken[p.Catalog] = p.Catalog, true
		}
		plans[i] = p
	}

	return plans
}

// whyNoImage returns why the content of a CatalogSource is not in an image, or an empty text.
func whyNoImage(source *v1alpha1.CatalogSource) string {
	const remedy = "publish its content as a catalog image, and create a ClusterCatalog with it"
	switch {
	case source.Spec.SourceType != v1alpha1.SourceTypeGrpc:
		return fmt.Sprintf("its type is %s: %s", source.Spec.SourceType, remedy)
	case source.Spec.Image == "":
		return "it has an address and no image: " + remedy
	case !source.DeletionTimestamp.IsZero():
		return "it is being deleted"
	}
	return ""
}

// chooseCatalogName returns the name of the ClusterCatalog for a CatalogSource: its own name, unless
// another CatalogSource with another image, or a ClusterCatalog, has that name too. Then the namespace
// is appended.
func chooseCatalogName(source *v1alpha1.CatalogSource, all []v1alpha1.CatalogSource, taken map[string]bool) string {
	isAmbiguous := slices.ContainsFunc(all, func(other v1alpha1.CatalogSource) bool {
		return other.Name == source.Name && other.Spec.Image != source.Spec.Image && whyNoImage(&other) == ""
	})
	if !isAmbiguous && !taken[source.Name] {
		return source.Name
	}

	base := source.Name + "-" + source.Namespace
	name := base
	for number := 2; taken[name]; number++ {
		name = fmt.Sprintf("%s-%d", base, number)
	}
	return name
}

// newCatalog returns the ClusterCatalog for a CatalogSource, and what it does not have.
func newCatalog(source *v1alpha1.CatalogSource, name string) (*olmv1.ClusterCatalog, []string) {
	var notes []string
	catalog := &olmv1.ClusterCatalog{
		TypeMeta: metav1.TypeMeta{APIVersion: olmv1.GroupVersion.String(), Kind: "ClusterCatalog"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Annotations: map[string]string{AnnotationMigratedFromCatalog: source.Namespace + "/" + source.Name},
		},
		Spec: olmv1.ClusterCatalogSpec{
			Source:           olmv1.CatalogSource{Type: olmv1.SourceTypeImage, Image: &olmv1.ImageSource{Ref: source.Spec.Image}},
			AvailabilityMode: olmv1.AvailabilityModeAvailable,
		},
	}

	priority := max(math.MinInt32, min(math.MaxInt32, source.Spec.Priority))
	catalog.Spec.Priority = int32(priority) // it is within the limits
	if priority != source.Spec.Priority {
		notes = append(notes, fmt.Sprintf("its priority %d becomes %d", source.Spec.Priority, priority))
	}

	if interval := pollInterval(source); interval > 0 {
		if strings.Contains(source.Spec.Image, "@") {
			notes = append(notes, fmt.Sprintf("its poll interval %s has no effect on a digest", interval))
		} else {
			minutes := wholeMinutes(interval)
			catalog.Spec.Source.Image.PollIntervalMinutes = &minutes
		}
	}

	if len(source.Spec.Secrets) > 0 {
		notes = append(notes, "it has pull secrets: add the credentials to the pull secret of Mainstay")
	}
	if source.Spec.GrpcPodConfig != nil {
		notes = append(notes, "it has a pod configuration: a ClusterCatalog has no pod")
	}
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		notes = append(notes, fmt.Sprintf("its name is not valid: %s", strings.Join(problems, ", ")))
	}

	return catalog, notes
}

// defaultPollInterval is the poll interval of a CatalogSource whose interval is not valid.
const defaultPollInterval = 15 * time.Minute

// pollInterval returns how often OLM Classic polls the image of a CatalogSource, or zero if it does not.
func pollInterval(source *v1alpha1.CatalogSource) time.Duration {
	strategy := source.Spec.UpdateStrategy
	if strategy == nil || strategy.RegistryPoll == nil {
		return 0
	}
	if interval, err := time.ParseDuration(strategy.RegistryPoll.Interval); err == nil && interval > 0 {
		return interval
	}
	return defaultPollInterval
}

// wholeMinutes returns an interval in minutes, rounded up.
func wholeMinutes(interval time.Duration) int32 {
	minutes := (interval + time.Minute - 1) / time.Minute
	return int32(min(minutes, math.MaxInt32)) //nolint:gosec // it is within the limits
}
