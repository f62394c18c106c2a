package membership_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/membership"
)

// The rows of the decision table for intersecting groups.
func TestDecideProvidedAPIs(t *testing.T) {
	const a, b = "A.v1.example.com", "B.v1.example.com"
	const static = "CannotModifyStaticOperatorGroupProvidedAPIs static provided api operatorgroup cannot be modified by these apis"
	for name, c := range map[string]struct {
		provided, own, others string
		static                bool
		want, apis, failure   string
	}{
		"taken and listed":                        {provided: a, own: a + "," + b, others: a, want: "RemoveAPIs", apis: b},
		"taken and listed, static":                {provided: a, own: a, others: a, static: true, want: "RemoveAPIs", apis: a, failure: static},
		"taken, not listed":                       {provided: a, own: b, others: a, want: "APIConflict", apis: b, failure: "InterOperatorGroupOwnerConflict intersecting operatorgroups provide the same apis"},
		"taken, not listed, static":               {provided: a, others: a, static: true, want: "APIConflict", failure: "InterOperatorGroupOwnerConflict intersecting operatorgroups provide the same apis"},
		"one of two is taken":                     {provided: a + "," + b, own: b, others: a, want: "APIConflict", apis: b, failure: "InterOperatorGroupOwnerConflict intersecting operatorgroups provide the same apis"},
		"free, not listed":                        {provided: b, own: a, want: "AddAPIs", apis: a + "," + b},
		"free, not listed, static":                {provided: b, own: a, static: true, want: "AddAPIs", apis: a, failure: static},
		"free and listed":                         {provided: a, own: a, others: b, want: "NoAPIConflict", apis: a},
		"free and listed, static":                 {provided: a, own: a, static: true, want: "NoAPIConflict", apis: a},
		"an operator without APIs":                {own: a, others: a, want: "NoAPIConflict", apis: a},
		"another version of an API is free":       {provided: "A.v2.example.com", others: a, want: "AddAPIs", apis: "A.v2.example.com"},
		"APIs of others that it does not provide": {provided: a, own: a + "," + b, others: b, want: "NoAPIConflict", apis: a + "," + b},
	} {
		t.Run(name, func(t *testing.T) {
			d := membership.DecideProvidedAPIs(csvinfo.ParseAPIs(c.provided), csvinfo.ParseAPIs(c.own), csvinfo.ParseAPIs(c.others), c.static)
			failure := strings.TrimSpace(d.Reason + " " + d.Message)
			if string(d.Outcome) != c.want || csvinfo.JoinAPIs(d.ProvidedAPIs) != c.apis || failure != c.failure {
				t.Errorf("got %s, %q, %q; want %s, %q, %q", d.Outcome, csvinfo.JoinAPIs(d.ProvidedAPIs), failure, c.want, c.apis, c.failure)
			}
		})
	}
}

// groupOf returns a group that targets namespaces and lists APIs.
func groupOf(namespace, apis string, targets ...string) operatorsv1.OperatorGroup {
	g := operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: "g", Annotations: map[string]string{operatorsv1.OperatorGroupProvidedAPIsAnnotation: apis},
	}}
	g.Status.Namespaces = targets
	return g
}

// A group's own namespace counts as a target, and all namespaces intersect with any namespace.
func TestOthers(t *testing.T) {
	const a, b = "A.v1.example.com", "B.v1.example.com"
	for name, c := range map[string]struct {
		own    operatorsv1.OperatorGroup
		others []operatorsv1.OperatorGroup
		want   string
	}{
		"disjoint":                     {groupOf("x", a, "t1"), []operatorsv1.OperatorGroup{groupOf("y", b, "t2")}, ""},
		"a common target":              {groupOf("x", a, "t1", "t2"), []operatorsv1.OperatorGroup{groupOf("y", b, "t2")}, b},
		"the other's own namespace":    {groupOf("x", a, "y"), []operatorsv1.OperatorGroup{groupOf("y", b, "t2")}, b},
		"its own namespace":            {groupOf("x", a, "t1"), []operatorsv1.OperatorGroup{groupOf("y", b, "x")}, b},
		"the other is global":          {groupOf("x", a, "t1"), []operatorsv1.OperatorGroup{groupOf("y", b, "")}, b},
		"it is global":                 {groupOf("x", a, ""), []operatorsv1.OperatorGroup{groupOf("y", b, "t1")}, b},
		"the group itself is excluded": {groupOf("x", a, ""), []operatorsv1.OperatorGroup{groupOf("x", a, "")}, ""},
		"of several, all that concur":  {groupOf("x", "", ""), []operatorsv1.OperatorGroup{groupOf("y", b, "y"), groupOf("z", a, "z")}, a + "," + b},
	} {
		t.Run(name, func(t *testing.T) {
			if got := csvinfo.JoinAPIs(membership.APIsOfIntersectingGroups(&c.own, c.others)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestServiceAccountOf(t *testing.T) {
	const missing = "please make sure the service account exists. sa=brewer operatorgroup=tea/g"
	ref := &corev1.ObjectReference{Namespace: "tea", Name: "brewer", UID: "1"}
	for name, test := range map[string]struct {
		named       string
		found, want *corev1.ObjectReference
		wantError   string
	}{
		"none":                 {},
		"one that exists":      {named: "brewer", found: ref, want: ref},
		"one that was deleted": {named: "brewer", wantError: missing},
		"another one":          {named: "brewer", found: &corev1.ObjectReference{Namespace: "tea", Name: "former"}, wantError: missing},
		"no longer any":        {found: ref},
	} {
		t.Run(name, func(t *testing.T) {
			group := groupOf("tea", "")
			group.Spec.ServiceAccountName, group.Status.ServiceAccountRef = test.named, test.found
			got, err := membership.ServiceAccountOf(&group)
			if diff := cmp.Diff(test.want, got); diff != "" || errorText(err) != test.wantError {
				t.Errorf("got error %q, want %q; account (-want +got):\n%s", errorText(err), test.wantError, diff)
			}
		})
	}
}

func TestTargets(t *testing.T) {
	all := map[string]labels.Set{"a": {"team": "x"}, "b": {"team": "x"}, "c": {"team": "y"}, "d": nil}
	team := &metav1.LabelSelector{MatchLabels: map[string]string{"team": "x"}}
	for name, c := range map[string]struct {
		spec operatorsv1.OperatorGroupSpec
		want []string
		err  string
	}{
		"a sorted list with a missing namespace": {spec: operatorsv1.OperatorGroupSpec{TargetNamespaces: []string{"z", "a"}}, want: []string{"a", "z"}},
		"a list counts before a selector":        {spec: operatorsv1.OperatorGroupSpec{TargetNamespaces: []string{"c"}, Selector: team}, want: []string{"c"}},
		"a selector":                             {spec: operatorsv1.OperatorGroupSpec{Selector: team}, want: []string{"a", "b"}},
		"a selector that selects none":           {spec: operatorsv1.OperatorGroupSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "z"}}}},
		"no targets mean all":                    {want: []string{""}},
		"an empty selector means all":            {spec: operatorsv1.OperatorGroupSpec{Selector: &metav1.LabelSelector{}}, want: []string{""}},
		"the empty name in a list":               {spec: operatorsv1.OperatorGroupSpec{TargetNamespaces: []string{"a", ""}}, err: "TargetNamespaces cannot contain NamespaceAll: [a ]"},
		"an invalid selector": {
			spec: operatorsv1.OperatorGroupSpec{Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}},
			err:  `spec.selector: "Near" is not a valid label selector operator`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := membership.Targets(c.spec, all)
			if text := errorText(err); text != c.err {
				t.Errorf("error %q, want %q", text, c.err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("targets (-want +got):\n%s", diff)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestAnnotated(t *testing.T) {
	g := groupOf("home", "", "b", "a")
	csv := &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "home", Annotations: map[string]string{"kept": "x"}}}
	got, changed := membership.WithGroupAnnotations(csv, &g)
	want := map[string]string{"kept": "x", "olm.operatorGroup": "g", "olm.operatorNamespace": "home", "olm.targetNamespaces": "a,b"}
	if diff := cmp.Diff(want, got); diff != "" || !changed {
		t.Errorf("changed %t, annotations (-want +got):\n%s", changed, diff)
	}

	csv.Annotations = got
	if _, changed = membership.WithGroupAnnotations(csv, &g); changed {
		t.Error("the second call changed the annotations")
	}

	// While the group has no targets, the operator's targets are kept.
	g.Status.Namespaces = nil
	if got, changed = membership.WithGroupAnnotations(csv, &g); !changed || !cmp.Equal(got, want) {
		t.Errorf("got changed %t and the annotations %v", changed, got)
	}

	g = groupOf("home", "", "")
	if got, changed = membership.WithGroupAnnotations(csv, &g); !changed || got["olm.targetNamespaces"] != "" {
		t.Errorf("got changed %t and the annotations %v", changed, got)
	}
}

// newMember returns a ClusterServiceVersion in a phase that provides kinds of example.com, version v1.
func newMember(name string, phase v1alpha1.ClusterServiceVersionPhase, kinds ...string) v1alpha1.ClusterServiceVersion {
	csv := v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "home", Name: name}}
	for _, kind := range kinds {
		csv.Spec.CustomResourceDefinitions.Owned = append(csv.Spec.CustomResourceDefinitions.Owned, v1alpha1.CRDDescription{
			Name: strings.ToLower(kind) + "s.example.com", Version: "v1", Kind: kind,
		})
	}

	csv.Spec.InstallModes = []v1alpha1.InstallMode{{Type: v1alpha1.InstallModeTypeAllNamespaces, Supported: true}}
	csv.Status.Phase = phase
	return csv
}

// Members that are installed, that are being deleted, or that cannot be members, do not count.
func TestAPIsOfNewMembers(t *testing.T) {
	deleted, elsewhere := newMember("deleted", v1alpha1.CSVPhaseNone, "Deleted"), newMember("elsewhere", v1alpha1.CSVPhaseNone, "Elsewhere")
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Unix(1000, 0)}
	elsewhere.Spec.InstallModes[0].Type = v1alpha1.InstallModeTypeOwnNamespace
	members := []v1alpha1.ClusterServiceVersion{
		newMember("new", v1alpha1.CSVPhaseNone, "New", "Second"), newMember("pending", v1alpha1.CSVPhasePending, "Pending"),
		newMember("installed", v1alpha1.CSVPhaseSucceeded, "Installed"), deleted, elsewhere,
	}
	g := groupOf("home", "", "")
	const want = "New.v1.example.com,Pending.v1.example.com,Second.v1.example.com"
	if got := csvinfo.JoinAPIs(membership.APIsOfNewMembers(&g, members)); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPrune(t *testing.T) {
	const a, b = "A.v1.example.com", "B.v1.example.com"
	conflict := newMember("c", v1alpha1.CSVPhaseFailed, "A")
	conflict.Status.Reason = v1alpha1.CSVReasonInterOperatorGroupOwnerConflict
	elsewhere := newMember("c", v1alpha1.CSVPhaseSucceeded, "A")
	elsewhere.Spec.InstallModes[0].Type = v1alpha1.InstallModeTypeOwnNamespace
	copied := newMember("c", v1alpha1.CSVPhaseSucceeded, "A")
	copied.Labels = map[string]string{"olm.copiedFrom": "x"}
	deleted := newMember("c", v1alpha1.CSVPhasePending, "B")
	deleted.DeletionTimestamp = &metav1.Time{}
	deleted.DeletionTimestamp.Time = deleted.DeletionTimestamp.AddDate(2000, 0, 0)
	for name, c := range map[string]struct {
		members []v1alpha1.ClusterServiceVersion
		listed  string
		static  bool
		want    string
		ok      bool
	}{
		"provided by a member":             {members: []v1alpha1.ClusterServiceVersion{newMember("c", v1alpha1.CSVPhaseSucceeded, "A")}, listed: a, want: a, ok: true},
		"without a provider":               {listed: a, ok: true},
		"only provided APIs":               {members: []v1alpha1.ClusterServiceVersion{newMember("c", v1alpha1.CSVPhaseSucceeded, "B")}, listed: a + "," + b, want: b, ok: true},
		"an API that is not listed":        {members: []v1alpha1.ClusterServiceVersion{newMember("c", v1alpha1.CSVPhaseSucceeded, "A", "B")}, listed: a, want: a, ok: true},
		"a static group":                   {listed: a, static: true, want: a},
		"a new member without listed APIs": {members: []v1alpha1.ClusterServiceVersion{newMember("c", v1alpha1.CSVPhasePending, "B")}, listed: a, want: a},
		"one without a phase":              {members: []v1alpha1.ClusterServiceVersion{newMember("c", v1alpha1.CSVPhaseNone, "B")}, listed: a, want: a},
		"a pending member that has listed": {members: []v1alpha1.ClusterServiceVersion{newMember("c", v1alpha1.CSVPhasePending, "B")}, listed: a + "," + b, want: b, ok: true},
		"one that is being deleted":        {members: []v1alpha1.ClusterServiceVersion{deleted}, listed: a, ok: true},
		"one in conflict":                  {members: []v1alpha1.ClusterServiceVersion{conflict}, listed: a, ok: true},
		"one that cannot be a member":      {members: []v1alpha1.ClusterServiceVersion{elsewhere}, listed: a, ok: true},
		"a copy":                           {members: []v1alpha1.ClusterServiceVersion{copied}, listed: a, ok: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := groupOf("home", c.listed, "")
			g.Spec.StaticProvidedAPIs = c.static
			kept, ok := membership.PruneProvidedAPIs(&g, c.members)
			if csvinfo.JoinAPIs(kept) != c.want || ok != c.ok {
				t.Errorf("got %q, %t; want %q, %t", csvinfo.JoinAPIs(kept), ok, c.want, c.ok)
			}
		})
	}
}
