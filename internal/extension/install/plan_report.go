package install

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/crdsafety"
	"github.com/mainstay-dev/mainstay/internal/extension/preflight"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/objectdiff"
	"github.com/mainstay-dev/mainstay/internal/rbac"
	"github.com/mainstay-dev/mainstay/internal/resolve"
)

// Actions of a plan.
const (
	actionNone    = "none"
	actionInstall = "install"
	actionUpdate  = "update"
	actionChange  = "change"
	actionGoBack  = "go back"
)

// Checks that report problems.
const (
	checkTarget           = "place"
	checkResolution       = "choice"
	checkRollback         = "rollback"
	checkBundle           = "bundle"
	checkDependencies     = "dependencies"
	checkPermissions      = "permissions"
	checkCRDUpgradeSafety = "crdUpgradeSafety"
	checkOther            = "preflight"
)

// plan is what the controller would do about an extension. Its JSON form is an API for programs.
type plan struct {
	Extension      string `json:"extension"`
	Package        string `json:"package"`
	Namespace      string `json:"namespace"`
	ServiceAccount string `json:"serviceAccount,omitempty"`
	// IgnoredServiceAccount is the service account of the spec while service accounts are ignored.
	IgnoredServiceAccount string `json:"ignoredServiceAccount,omitempty"`
	// Action is none, install, update, change (the same bundle, other objects) or go back.
	Action    string         `json:"action"`
	Installed *plannedBundle `json:"installed,omitempty"`
	Bundle    *plannedBundle `json:"bundle,omitempty"`
	// Why states in sentences why the bundle was chosen.
	Why        []string    `json:"why,omitempty"`
	Considered []candidate `json:"considered,omitempty"`
	// Path are the update edges from the installed bundle.
	Path []pathEdge `json:"path,omitempty"`
	// Problems would block the action.
	Problems []plannedProblem `json:"problems,omitempty"`
	// CRDUpgradeSafety is none (there are no CRDs), safe, unsafe, unknown or off.
	CRDUpgradeSafety string             `json:"crdUpgradeSafety,omitempty"`
	Missing          []string           `json:"missingDependencies,omitempty"`
	Created          []plannedExtension `json:"createdExtensions,omitempty"`
	Images           []string           `json:"images,omitempty"`
	// Contents summarizes a first installation. It is nil if something is installed.
	Contents *plannedContents `json:"contents,omitempty"`
	Objects  *plannedObjects  `json:"objects,omitempty"`
	Note     string           `json:"note,omitempty"`
}

// plannedObjects are the changes of the objects.
type plannedObjects struct {
	Added     int                 `json:"added"`
	Changed   int                 `json:"changed"`
	Removed   int                 `json:"removed"`
	Unchanged int                 `json:"unchanged"`
	Changes   []objectdiff.Change `json:"changes,omitempty"`
}

type plannedBundle struct {
	Name         string   `json:"name"`
	Version      string   `json:"version"`
	Release      string   `json:"release,omitempty"`
	Image        string   `json:"image,omitempty"`
	Catalog      string   `json:"catalog,omitempty"`
	Channels     []string `json:"channels,omitempty"`
	Deprecations []string `json:"deprecations,omitempty"`
}

// candidate is the best bundle of one catalog.
type candidate struct {
	Catalog  string `json:"catalog"`
	Priority int32  `json:"priority"`
	Bundle   string `json:"bundle,omitempty"`
	Version  string `json:"version,omitempty"`
	// Problem states why the catalog has no matching bundle.
	Problem string `json:"problem,omitempty"`
}

type pathEdge struct {
	From      string   `json:"from"`
	To        string   `json:"to"`
	Kind      string   `json:"kind"`
	SkipRange string   `json:"skipRange,omitempty"`
	Channels  []string `json:"channels,omitempty"`
}

type plannedProblem struct {
	Check   string `json:"check"`
	Message string `json:"message"`
}

// plannedExtension is an extension that would be created for a dependency.
type plannedExtension struct {
	Name    string `json:"name"`
	Package string `json:"package"`
	Bundle  string `json:"bundle"`
	Version string `json:"version"`
	Catalog string `json:"catalog"`
}

// addProblems adds a problem for each of the errors that a check joined. If check is empty, it is
// derived from each error.
func (p *plan) addProblems(check string, err error) {
	for _, err := range splitJoinedErrors(err) {
		about := check
		if about == "" {
			about = classifyProblem(err)
		}
		p.Problems = append(p.Problems, plannedProblem{about, err.Error()})
	}
}

// splitJoinedErrors returns the errors that errors.Join has joined, recursively.
func splitJoinedErrors(err error) []error {
	if err == nil {
		return nil
	}

	inner := err
	for next := inner; next != nil && next.Error() == err.Error(); next = errors.Unwrap(next) {
		inner = next
	}

	joined, ok := inner.(interface{ Unwrap() []error })
	if !ok || errors.Join(joined.Unwrap()...).Error() != err.Error() {
		return []error{err}
	}

	var all []error
	for _, part := range joined.Unwrap() {
		all = append(all, splitJoinedErrors(part)...)
	}

	return all
}

func classifyProblem(err error) string {
	var missing *rbac.MissingError
	var unsafe *crdsafety.UnsafeError
	switch {
	case errors.As(err, &missing):
		return checkPermissions
	case errors.As(err, &unsafe):
		return checkCRDUpgradeSafety
	default:
		return checkOther
	}
}

// recordResolution records the chosen bundle, and why it was chosen. The conditions of the extension
// state what is deprecated while the current bundle is kept.
func (p *plan) recordResolution(ext *olmv1.ClusterExtension, how *resolution) {
	chosen := how.chosen
	p.Bundle = &plannedBundle{
		Name: chosen.Name, Version: chosen.Version, Release: chosen.Release, Image: chosen.Image,
		Catalog: chosen.catalog, Channels: how.result.Channels,
	}

	known := slices.Clone(ext.Status.Conditions)
	for _, condition := range how.deprecations {
		conditions.Set(&known, ext.Generation, condition)
	}
	for _, kind := range []string{olmv1.TypePackageDeprecated, olmv1.TypeChannelDeprecated, olmv1.TypeBundleDeprecated} {
		if meta.IsStatusConditionTrue(known, kind) {
			p.Bundle.Deprecations = append(p.Bundle.Deprecations, meta.FindStatusCondition(known, kind).Message)
		}
	}

	for _, edge := range how.result.Edges {
		p.Path = append(p.Path, pathEdge{edge.From, edge.To, string(edge.Kind), edge.SkipRange, edge.Channels})
	}

	p.Why = explainResolution(how)
}

// explainResolution returns sentences that explain the choice of a bundle.
func explainResolution(how *resolution) []string {
	var why []string
	installed, chosen := how.request.Installed, how.chosen
	if len(how.catalogs) == 0 {
		return []string{fmt.Sprintf("%s stays, as no catalog is selected that could offer another bundle", chosen.Name)}
	}

	switch {
	case installed == nil:
		why = append(why, "nothing is installed, so that no update edge binds")
	case how.request.Policy == olmv1.UpgradeConstraintPolicySelfCertified:
		why = append(why, fmt.Sprintf("%s is installed, and upgradeConstraintPolicy SelfCertified allows every other bundle", installed.Name))
	case installed.Name == chosen.Name:
		why = append(why, fmt.Sprintf("%s is installed, and no bundle that it can be updated to fits better", installed.Name))
	default:
		why = append(why, fmt.Sprintf("%s is installed, and can be updated to it", installed.Name))
	}

	if how.request.Version != "" {
		why = append(why, fmt.Sprintf("its version matches %q", how.request.Version))
	}
	if len(how.request.Channels) > 0 {
		why = append(why, "it is in the channels that are asked for: "+strings.Join(how.request.Channels, ", "))
	}
	if len(how.catalogs) > 1 {
		why = append(why, fmt.Sprintf("of the %d catalogs, %s goes first: bundles that are not deprecated, then the priority", len(how.catalogs), chosen.catalog))
	}

	return append(why, fmt.Sprintf("of what fits in catalog %s it is the best: not deprecated if possible, then the highest version", chosen.catalog))
}

// listCandidates returns the best bundle of each catalog, resolved from that catalog alone.
func listCandidates(how *resolution) []candidate {
	var all []candidate
	for _, catalog := range how.catalogs {
		c := candidate{Catalog: catalog.Name, Priority: catalog.Priority}
		if result, err := resolve.Resolve(how.request, []resolve.Catalog{catalog}); err != nil {
			c.Problem = err.Error()
		} else {
			c.Bundle, c.Version = result.Bundle.Name, result.Version.String()
		}
		all = append(all, c)
	}

	slices.SortFunc(all, func(a, b candidate) int { return strings.Compare(a.Catalog, b.Catalog) })
	return all
}

// addDependencies records the requirements that are not met, and the extensions that would be
// created.
func (p *plan) addDependencies(found *dependencyFindings) {
	for _, unmet := range found.missing {
		p.Missing = append(p.Missing, unmet.Sentence)
	}
	for _, created := range found.create {
		b := created.bundle
		p.Created = append(p.Created, plannedExtension{created.extension.Name, b.Package, b.Name, b.Version.String(), b.Catalog})
	}
}

// summarizeCRDSafety sets CRDUpgradeSafety from the problems that the preflight checks reported.
func (p *plan) summarizeCRDSafety(ext *olmv1.ClusterExtension, objects []unstructured.Unstructured) {
	found := func(check string) bool {
		return slices.ContainsFunc(p.Problems, func(problem plannedProblem) bool { return problem.Check == check })
	}
	has := slices.ContainsFunc(objects, func(object unstructured.Unstructured) bool {
		return object.GroupVersionKind().GroupKind() == apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition").GroupKind()
	})
	switch {
	case !has:
		p.CRDUpgradeSafety = "none"
	case !preflight.CRDsEnforced(ext):
		p.CRDUpgradeSafety = "off"
	case found(checkCRDUpgradeSafety):
		p.CRDUpgradeSafety = "unsafe"
	case found(checkOther):
		p.CRDUpgradeSafety = "unknown"
	default:
		p.CRDUpgradeSafety = "safe"
	}
}

// collectImages returns the related images of a bundle and the images of its pods.
func collectImages(related []fbc.RelatedImage, objects []unstructured.Unstructured) []string {
	var all []string
	for _, image := range related {
		all = append(all, image.Image)
	}

	for i := range objects {
		for _, field := range []string{"initContainers", "containers"} {
			containers, _, _ := unstructured.NestedSlice(objects[i].Object, "spec", "template", "spec", field)
			for _, container := range containers {
				if fields, ok := container.(map[string]any); ok {
					image, _ := fields["image"].(string)
					all = append(all, image)
				}
			}
		}
	}

	all = slices.DeleteFunc(all, func(image string) bool { return image == "" })
	slices.Sort(all)
	return slices.Compact(all)
}

// addObjectChanges records the differences between the objects of the replaced revision and the new
// ones.
func (p *plan) addObjectChanges(before, after []unstructured.Unstructured) error {
	result, err := objectdiff.Compare(toObjectPointers(before), toObjectPointers(after))
	if err != nil {
		return fmt.Errorf("comparing the objects: %w", err)
	}

	p.Objects = &plannedObjects{
		Added: result.Count(objectdiff.Added), Changed: result.Count(objectdiff.Changed), Removed: result.Count(objectdiff.Removed),
		Unchanged: result.Unchanged, Changes: result.Changes,
	}
	slices.SortStableFunc(p.Objects.Changes, func(a, b objectdiff.Change) int { return rankForReview(a) - rankForReview(b) })
	return nil
}

func toObjectPointers(objects []unstructured.Unstructured) []*unstructured.Unstructured {
	result := make([]*unstructured.Unstructured, len(objects))
	for i := range objects {
		result[i] = &objects[i]
	}
	return result
}
