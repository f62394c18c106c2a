package copied

import (
	"maps"
	"slices"
	"testing"
	"time"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// The namespaces a to e in which copies are created, and in which they may stay.
func TestDecidePlaces(t *testing.T) {
	all := sets.New("home", "a", "b", "c")
	source := func(targets string, edit ...func(*v1alpha1.ClusterServiceVersion)) *v1alpha1.ClusterServiceVersion {
		csv := &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "home", Name: "x", Annotations: map[string]string{
			"olm.operatorGroup": "og", "olm.operatorNamespace": "home", "olm.targetNamespaces": targets,
		}}}
		csv.Status.Phase, csv.Status.Reason = v1alpha1.CSVPhaseSucceeded, v1alpha1.CSVReasonInstallSuccessful
		for _, e := range edit {
			e(csv)
		}
		return csv
	}

	reason := func(reason string) func(*v1alpha1.ClusterServiceVersion) {
		return func(csv *v1alpha1.ClusterServiceVersion) {
			csv.Status.Phase, csv.Status.Reason = v1alpha1.CSVPhaseFailed, reason
		}
	}
	without := func(annotation string) func(*v1alpha1.ClusterServiceVersion) {
		return func(csv *v1alpha1.ClusterServiceVersion) { delete(csv.Annotations, annotation) }
	}
	for name, c := range map[string]struct {
		csv *v1alpha1.ClusterServiceVersion
		// targets are the targets of the group; nil means that there is no group.
		targets     []string
		disabled    bool
		taken       []string
		make, stays []string
	}{
		"gone":                              {targets: []string{""}},
		"all namespaces":                    {csv: source(""), targets: []string{""}, make: []string{"a", "b", "c"}, stays: []string{"a", "b", "c", "e"}},
		"its own":                           {csv: source("home"), targets: []string{"home"}},
		"some, of which one does not exist": {csv: source("a,e"), targets: []string{"a", "e"}, make: []string{"a"}, stays: []string{"a", "e"}},
		"its own and another":               {csv: source("a,home"), targets: []string{"a", "home"}, make: []string{"a"}, stays: []string{"a"}},
		"disabled":                          {csv: source(""), targets: []string{""}, disabled: true, make: []string{"c"}, stays: []string{"c"}},
		"disabled is for all namespaces":    {csv: source("a"), targets: []string{"a"}, disabled: true, make: []string{"a"}, stays: []string{"a"}},
		"another one of that name":          {csv: source(""), targets: []string{""}, taken: []string{"b", "home"}, make: []string{"a", "c"}, stays: []string{"a", "c", "e"}},
		"no targets annotated":              {csv: source("", without("olm.targetNamespaces")), targets: []string{""}},
		"other targets annotated":           {csv: source("a"), targets: []string{"a", "b"}, stays: []string{"a"}},
		"no group":                          {csv: source("a"), stays: []string{"a"}},
		"new":                               {csv: source("a", func(csv *v1alpha1.ClusterServiceVersion) { csv.Status.Phase = "" }), targets: []string{"a"}, stays: []string{"a"}},
		"failed":                            {csv: source("a", reason(v1alpha1.CSVReasonComponentFailed)), targets: []string{"a"}, make: []string{"a"}, stays: []string{"a"}},
		"cannot watch these":                {csv: source("a", reason(v1alpha1.CSVReasonUnsupportedOperatorGroup)), targets: []string{"a"}, stays: []string{"a"}},
		"in conflict":                       {csv: source("a", reason(v1alpha1.CSVReasonInterOperatorGroupOwnerConflict)), targets: []string{"a"}},
		"a copy itself":                     {csv: source("a", func(csv *v1alpha1.ClusterServiceVersion) { csv.Labels = map[string]string{"olm.copiedFrom": "z"} }), targets: []string{"a"}},
		"being deleted":                     {csv: source("a", func(csv *v1alpha1.ClusterServiceVersion) { csv.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }), targets: []string{"a"}, stays: []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := facts{disabled: c.disabled, protected: sets.New("c"), namespaces: all, taken: sets.New(c.taken...)}
			if c.targets != nil {
				f.group = &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "home", Name: "og"}}
				f.group.Status.Namespaces = c.targets
			}

			p := decidePlaces(c.csv, &f)
			var stays []string
			for _, namespace := range []string{"a", "b", "c", "e", "home"} {
				if p.mayStay(namespace) {
					stays = append(stays, namespace)
				}
			}

			if made := sets.List(p.wanted); !slices.Equal(made, c.make) || !slices.Equal(stays, c.stays) {
				t.Errorf("got copies created in %v and kept in %v, want %v and %v", made, stays, c.make, c.stays)
			}
		})
	}
}

// The cached version may be older or newer than the written one.
func TestMemory(t *testing.T) {
	now := time.Unix(1000, 0)
	key := types.NamespacedName{Namespace: "a", Name: "x"}
	m := newMemory()
	object := &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x", UID: "u", ResourceVersion: "100"}}
	known := func(uid types.UID, version string) bool {
		_, ok := m.lookUp(key, uid, version, now)
		return ok
	}
	if known("u", "100") || known("", "") {
		t.Error("an object that was never added is known")
	}

	m.add(object, unique.Make("r"), unique.Make("s"), now)
	for name, c := range map[string]struct {
		uid     types.UID
		version string
		want    bool
	}{
		"the same":                       {"u", "100", true},
		"older":                          {"u", "99", true},
		"newer":                          {"u", "101", false},
		"another":                        {"v", "100", false},
		"not in the cache yet":           {"", "", true},
		"a version that is not a number": {"u", "x", false},
	} {
		if got := known(c.uid, c.version); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}

	now = now.Add(cacheSyncTimeout)
	if known("", "") {
		t.Error("an object that never appeared in the cache is known after the timeout")
	}
	if m.forget(key, "v"); !known("u", "100") {
		t.Error("forgetting another UID removed the object")
	}
	if m.forget(key, "u"); known("u", "100") {
		t.Error("a forgotten object is known")
	}
}

func TestNewCopyContent(t *testing.T) {
	csv := &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{
		Namespace: "home", Name: "x",
		Annotations: map[string]string{"olm.targetNamespaces": "a", "olm.operatorGroup": "og", "kubectl.kubernetes.io/last-applied-configuration": "{}", "mine": "1"},
		Labels:      map[string]string{"operators.coreos.com/x.home": "", "olm.api.1": "provided", "mine": "1"},
	}}
	csv.Spec.DisplayName = "X"
	csv.Status = v1alpha1.ClusterServiceVersionStatus{Phase: "Succeeded", Reason: "InstallSucceeded", Message: "all well"}
	c, err := newCopyContent(csv)
	if err != nil {
		t.Fatal(err)
	}

	got := &v1alpha1.ClusterServiceVersion{}
	c.applyTo(got)
	if len(got.Annotations) != 2 || got.Annotations["olm.operatorGroup"] != "og" || got.Annotations["mine"] != "1" {
		t.Errorf("annotations %v", got.Annotations)
	}
	if len(got.Labels) != 3 || got.Labels["olm.copiedFrom"] != "home" || got.Labels["olm.api.1"] != "provided" {
		t.Errorf("labels %v", got.Labels)
	}
	if s := got.Status; s.Phase != "Succeeded" || s.Reason != "Copied" || s.Message != "The operator is running in home but is managing this namespace" {
		t.Errorf("status %+v", s)
	}
	if got.Spec.DisplayName != "X" || csv.Annotations["olm.targetNamespaces"] != "a" || csv.Status.Reason != "InstallSucceeded" {
		t.Error("the source was changed, or the spec is missing")
	}

	csv.Status.Message = "otherwise"
	if again, err := newCopyContent(csv); err != nil || again.objectHash != c.objectHash || again.statusHash != c.statusHash {
		t.Errorf("got another hash for a message that copies do not have: %v", err)
	}

	csv.Status.Phase = "Failed"
	if again, err := newCopyContent(csv); err != nil || again.objectHash != c.objectHash || again.statusHash == c.statusHash {
		t.Errorf("another phase: want another hash of the status only: %v", err)
	}
}

// Copies that may stay are kept, those that may not are deleted once, and those without a source namespace are replaced.
func TestDecideCopies(t *testing.T) {
	csv := &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "home", Name: "op", Annotations: map[string]string{"olm.targetNamespaces": "a,b,c"}}}
	newCopy := func(namespace string, complete, deleted bool) metav1.PartialObjectMetadata {
		found := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "op"}}
		if complete {
			found.Annotations = map[string]string{"olm.operatorNamespace": "home"}
		}
		if deleted {
			found.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		}
		return found
	}
	copies := []metav1.PartialObjectMetadata{
		newCopy("a", true, false), newCopy("b", false, false), newCopy("c", true, true), newCopy("x", true, false), newCopy("y", true, true),
	}
	for name, c := range map[string]struct {
		source            *v1alpha1.ClusterServiceVersion
		existing, surplus []string
	}{
		"there is a source":  {source: csv, existing: []string{"a", "c"}, surplus: []string{"b", "x"}},
		"there is no source": {surplus: []string{"a", "b", "x"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := decideCopies(&facts{source: c.source, copies: copies})
			var surplus []string
			for _, found := range p.surplus {
				surplus = append(surplus, found.Namespace)
			}
			if existing := slices.Sorted(maps.Keys(p.existing)); !slices.Equal(existing, c.existing) || !slices.Equal(surplus, c.surplus) {
				t.Errorf("existing %q, surplus %q, want %q and %q", existing, surplus, c.existing, c.surplus)
			}
		})
	}
}
