package copied

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/group"
)

// facts are what decides where copies of a ClusterServiceVersion are.
type facts struct {
	// group is the OperatorGroup of its namespace; nil when there is not exactly one.
	group *operatorsv1.OperatorGroup
	// disabled reports whether operators that watch all namespaces are not to be copied.
	disabled bool
	// protected are namespaces that have copies even so.
	protected sets.Set[string]
	// namespaces are all namespaces that exist and do not end.
	namespaces sets.Set[string]
	// taken are namespaces that have a ClusterServiceVersion of the same name that is no copy.
	taken sets.Set[string]
}

// places says where copies of a ClusterServiceVersion are to be made, and of which namespaces they may
// stay where they are.
type places struct {
	// make are the namespaces that get one, and have it kept up to date.
	make sets.Set[string]
	// stays reports whether one that is in a namespace may stay there.
	stays func(namespace string) bool
}

// placesOf decides where copies of a ClusterServiceVersion are; that is nil when there is none.
func placesOf(csv *v1alpha1.ClusterServiceVersion, f facts) places {
	none := places{make: sets.Set[string]{}, stays: func(string) bool { return false }}
	if csv == nil || csvinfo.IsCopied(csv) || csv.Status.Reason == v1alpha1.CSVReasonInterOperatorGroupOwnerConflict {
		return none
	}

	names, ok := group.TargetsOf(csv)
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
	p := places{make: sets.Set[string]{}, stays: stays}
	if f.group == nil || csvinfo.IsUncopiable(csv) || !csv.DeletionTimestamp.IsZero() {
		return p
	}
	if _, changed := group.Annotated(csv, f.group); changed {
		return p // The group decides anew who is to have one.
	}

	for namespace := range f.namespaces {
		if stays(namespace) {
			p.make.Insert(namespace)
		}
	}

	return p
}

// isGlobal reports whether an operator watches all namespaces.
func isGlobal(csv *v1alpha1.ClusterServiceVersion) bool {
	targets, ok := group.TargetsOf(csv)
	return ok && slices.Contains(targets, metav1.NamespaceAll)
}

// content is what the copies of a ClusterServiceVersion are, in whatever namespace.
type content struct {
	labels, annotations map[string]string
	spec                v1alpha1.ClusterServiceVersionSpec
	status              v1alpha1.ClusterServiceVersionStatus
	// rest is the hash of all but the status, state that of the status.
	rest, state string
}

// contentOf says what the copies of a ClusterServiceVersion are. Which namespaces an operator watches
// is kept from those who may see a copy.
func contentOf(csv *v1alpha1.ClusterServiceVersion) (*content, error) {
	c := &content{annotations: maps.Clone(csv.Annotations), labels: maps.Clone(csv.Labels), spec: csv.Spec, status: csv.Status}
	delete(c.annotations, csvinfo.AnnotationTargetNamespaces)
	delete(c.annotations, corev1.LastAppliedConfigAnnotation)
	maps.DeleteFunc(c.labels, func(key, _ string) bool { return strings.HasPrefix(key, csvinfo.LabelComponent) })
	c.labels = csvinfo.With(c.labels, map[string]string{csvinfo.LabelCopiedFrom: csv.Namespace})
	c.status.Reason = v1alpha1.CSVReasonCopied
	c.status.Message = "The operator is running in " + csv.Namespace + " but is managing this namespace"
	var err error
	if c.rest, err = hashOfRest(csv.Name, c.labels, c.annotations, &c.spec); err != nil {
		return nil, err
	}

	c.state, err = csvinfo.Hash(c.status)
	return c, err
}

func hashOfRest(name string, labels, annotations map[string]string, spec *v1alpha1.ClusterServiceVersionSpec) (string, error) {
	if len(annotations) == 0 {
		annotations = nil // An API server makes no difference.
	}
	return csvinfo.Hash(struct {
		Name                string
		Labels, Annotations map[string]string
		Spec                *v1alpha1.ClusterServiceVersionSpec
	}{name, labels, annotations, spec})
}

// fill makes an object what a copy is to be.
func (c *content) fill(object *v1alpha1.ClusterServiceVersion) {
	object.Labels, object.Annotations = maps.Clone(c.labels), maps.Clone(c.annotations)
	object.Spec, object.Status = c.spec, c.status
}
