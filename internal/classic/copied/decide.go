package copied

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/membership"
)

// facts determine what must be done with the copies of a ClusterServiceVersion.
type facts struct {
	// source is the ClusterServiceVersion; nil when it does not exist. key is its name.
	source *v1alpha1.ClusterServiceVersion
	key    types.NamespacedName
	// copies are the existing copies.
	copies []metav1.PartialObjectMetadata
	// group is the OperatorGroup of its namespace; nil when there is not exactly one.
	group *operatorsv1.OperatorGroup
	// disabled is true when operators that watch all namespaces are not copied.
	disabled bool
	// protected are the namespaces that have copies nevertheless.
	protected sets.Set[string]
	// namespaces are all namespaces that are not terminating.
	namespaces sets.Set[string]
	// taken are the namespaces that have an original ClusterServiceVersion of the same name.
	taken sets.Set[string]
}

// copyPlan states what must be done with the copies of a ClusterServiceVersion.
type copyPlan struct {
	// wanted are the namespaces in which a copy is created and kept up to date.
	wanted sets.Set[string]
	// existing are the copies that stay, by namespace. surplus are those to delete.
	existing map[string]*metav1.PartialObjectMetadata
	surplus  []*metav1.PartialObjectMetadata
	// requeueAfter is the time until the next check of copies that are not in the cache yet; zero when all are.
	requeueAfter time.Duration
}

// decideCopies returns what must be done with the copies of a ClusterServiceVersion.
func decideCopies(f *facts) *copyPlan {
	where := decidePlaces(f.source, f)
	p := &copyPlan{wanted: where.wanted, existing: map[string]*metav1.PartialObjectMetadata{}}
	for i := range f.copies {
		found := &f.copies[i]
		if where.mayStay(found.Namespace) && found.Annotations[csvinfo.AnnotationOperatorNamespace] != "" {
			p.existing[found.Namespace] = found
		} else if found.DeletionTimestamp.IsZero() {
			p.surplus = append(p.surplus, found)
		}
	}

	return p
}

// places states in which namespaces copies of a ClusterServiceVersion are created, and where existing ones may stay.
type places struct {
	// wanted are the namespaces in which a copy is created and kept up to date.
	wanted sets.Set[string]
	// mayStay reports whether an existing copy in a namespace is kept.
	mayStay func(namespace string) bool
}

// decidePlaces returns the places of the copies of a ClusterServiceVersion. csv is nil when it does not exist.
func decidePlaces(csv *v1alpha1.ClusterServiceVersion, f *facts) places {
	none := places{wanted: sets.Set[string]{}, mayStay: func(string) bool { return false }}
	if csv == nil || csvinfo.IsCopied(csv) || csv.Status.Reason == v1alpha1.CSVReasonInterOperatorGroupOwnerConflict {
		return none
	}

	names, ok := membership.TargetsOf(csv)
	if !ok {
		return none
	}

	targets := sets.New(names...)
	isGlobal := targets.Has(metav1.NamespaceAll)
	if isGlobal && f.disabled {
		targets, isGlobal = f.protected, false
	}

	stays := func(namespace string) bool {
		return namespace != csv.Namespace && (isGlobal || targets.Has(namespace)) && !f.taken.Has(namespace)
	}
	p := places{wanted: sets.Set[string]{}, mayStay: stays}
	if f.group == nil || csvinfo.IsUncopiable(csv) || !csv.DeletionTimestamp.IsZero() {
		return p
	}
	if _, changed := membership.WithGroupAnnotations(csv, f.group); changed {
		return p // Its annotations will be updated to the group's new targets first.
	}

	for namespace := range f.namespaces {
		if stays(namespace) {
			p.wanted.Insert(namespace)
		}
	}

	return p
}

// watchesAllNamespaces reports whether an operator watches all namespaces.
func watchesAllNamespaces(csv *v1alpha1.ClusterServiceVersion) bool {
	targets, ok := membership.TargetsOf(csv)
	return ok && slices.Contains(targets, metav1.NamespaceAll)
}

// copyContent is the content of a ClusterServiceVersion's copies, which is the same in all namespaces.
type copyContent struct {
	labels, annotations map[string]string
	spec                v1alpha1.ClusterServiceVersionSpec
	status              v1alpha1.ClusterServiceVersionStatus
	// objectText is a copy without namespace and status as JSON, statusText the status.
	objectText, statusText json.RawMessage
	// objectHash is the hash of all fields but the status, statusHash that of the status.
	objectHash, statusHash contentHash
}

// newCopyContent returns the content of the copies of a ClusterServiceVersion. It omits the target namespaces, so that
// users who may read a copy do not see which namespaces the operator watches.
func newCopyContent(csv *v1alpha1.ClusterServiceVersion) (*copyContent, error) {
	c := &copyContent{annotations: maps.Clone(csv.Annotations), labels: maps.Clone(csv.Labels), spec: csv.Spec, status: csv.Status}
	delete(c.annotations, csvinfo.AnnotationTargetNamespaces)
	delete(c.annotations, corev1.LastAppliedConfigAnnotation)
	maps.DeleteFunc(c.labels, func(key, _ string) bool { return strings.HasPrefix(key, csvinfo.LabelComponent) })
	c.labels = csvinfo.MergeLabels(c.labels, map[string]string{csvinfo.LabelCopiedFrom: csv.Namespace})
	c.status.Reason = v1alpha1.CSVReasonCopied
	c.status.Message = "The operator is running in " + csv.Namespace + " but is managing this namespace"
	var err error
	if c.objectHash, err = hashWithoutStatus(csv.Name, c.labels, c.annotations, &c.spec); err != nil {
		return nil, err
	}

	object := &v1alpha1.ClusterServiceVersion{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.ClusterServiceVersionKind},
		ObjectMeta: metav1.ObjectMeta{Name: csv.Name, Labels: c.labels, Annotations: c.annotations}, Spec: c.spec,
	}
	if c.objectText, err = json.Marshal(object); err != nil {
		return nil, fmt.Errorf("encoding the copies of ClusterServiceVersion %s/%s: %w", csv.Namespace, csv.Name, err)
	}

	if c.statusText, err = json.Marshal(c.status); err != nil {
		return nil, fmt.Errorf("encoding the status of the copies of ClusterServiceVersion %s/%s: %w", csv.Namespace, csv.Name, err)
	}

	c.statusHash, err = newContentHash(c.status)
	return c, err
}

func hashWithoutStatus(name string, labels, annotations map[string]string, spec *v1alpha1.ClusterServiceVersionSpec) (contentHash, error) {
	if len(annotations) == 0 {
		annotations = nil // The API server does not distinguish empty from missing annotations.
	}
	return newContentHash(struct {
		Name                string
		Labels, Annotations map[string]string
		Spec                *v1alpha1.ClusterServiceVersionSpec
	}{name, labels, annotations, spec})
}

// applyTo sets the content in an object.
func (c *copyContent) applyTo(object *v1alpha1.ClusterServiceVersion) {
	object.Labels, object.Annotations = maps.Clone(c.labels), maps.Clone(c.annotations)
	object.Spec, object.Status = c.spec, c.status
}

// newStatusPatch returns a patch that replaces the status of a copy. It fails with a conflict if the copy has another
// resource version. A merge patch would keep fields that the copy has and the status lacks.
func (c *copyContent) newStatusPatch(version string) (client.Patch, error) {
	data, err := json.Marshal([]map[string]any{
		{"op": "replace", "path": "/metadata/resourceVersion", "value": version},
		{"op": "add", "path": "/status", "value": c.statusText},
	})
	return client.RawPatch(types.JSONPatchType, data), err
}
