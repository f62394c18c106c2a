package copied_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/testing/builder"
)

// Copies are in the namespaces that the operator watches, with the content of the source.
func TestCopies(t *testing.T) {
	c := newFixture(t)
	for _, name := range []string{"copies-a", "copies-b"} {
		c.EnsureNamespace(name)
	}

	g := c.createGroup("copies", "copies", "copies-a")
	csv := c.createCSV("copies", "copies", "copies,copies-a")
	c.EventuallyTrue("a copy", c.hasCopiesIn(csv, "copies-a"), nil)
	first := c.listCopies(csv)["copies-a"]
	want := []any{
		map[string]string{"olm.operatorGroup": "og", "olm.operatorNamespace": "copies", "mine": "1"}, map[string]string{"olm.copiedFrom": "copies", "mine": "1"},
		csv.Spec, v1alpha1.CSVPhaseSucceeded, "The operator is running in copies but is managing this namespace",
	}
	if diff := cmp.Diff(want, []any{first.Annotations, first.Labels, first.Spec, first.Status.Phase, first.Status.Message}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	c.setStatus(csv, v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonComponentUnhealthy)
	c.EventuallyTrue("the phase", func() bool { return c.listCopies(csv)["copies-a"].Status.Phase == v1alpha1.CSVPhaseFailed }, nil)
	c.PatchObject(csv, func() { csv.Spec.Description = "another" })
	c.EventuallyTrue("the spec", func() bool { return c.listCopies(csv)["copies-a"].Spec.Description == "another" }, nil)

	// Manual changes of a copy are reverted.
	for name, change := range map[string]func(*v1alpha1.ClusterServiceVersion){
		"its spec":        func(csv *v1alpha1.ClusterServiceVersion) { csv.Spec.Description = "mine" },
		"its labels":      func(csv *v1alpha1.ClusterServiceVersion) { csv.Labels["added"] = "x" },
		"its annotations": func(csv *v1alpha1.ClusterServiceVersion) { delete(csv.Annotations, "mine") },
		"all of them":     func(csv *v1alpha1.ClusterServiceVersion) { csv.Spec.Description, csv.Labels["mine"] = "", "2" },
	} {
		edited := c.listCopies(csv)["copies-a"]
		c.PatchObject(edited, func() { change(edited) })
		c.EventuallyTrue(name, func() bool {
			now := c.listCopies(csv)["copies-a"]
			return now.Spec.Description == "another" && len(now.Labels) == 2 && now.Labels["mine"] == "1" && len(now.Annotations) == 3
		}, nil)
	}

	edited := c.listCopies(csv)["copies-a"]
	edited.Status.Message, edited.Status.CertsLastUpdated = "mine", ptr.To(metav1.Unix(1, 0))
	c.Must(c.Status().Update(t.Context(), edited))
	c.EventuallyTrue("its status", func() bool {
		now := c.listCopies(csv)["copies-a"].Status
		return now.Message != "mine" && now.CertsLastUpdated == nil
	}, nil)
	c.Must(c.Delete(t.Context(), first))
	c.EventuallyTrue("the deleted copy is recreated", func() bool { now := c.listCopies(csv)["copies-a"]; return now != nil && now.UID != first.UID }, nil)

	// The targets change.
	c.setTargets(g, "copies-b")
	c.setAnnotation(csv, "olm.targetNamespaces", "copies-b")
	c.EventuallyTrue("other targets", c.hasCopiesIn(csv, "copies-b"), nil)
	// Without a valid group the copies stay.
	c.setStatus(csv, v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonUnsupportedOperatorGroup)
	c.setTargets(g, "copies-a", "copies-b")
	c.setAnnotation(csv, "olm.targetNamespaces", "copies-a,copies-b")
	other := c.createCSV("copies", "copies-other", "copies-a,copies-b")
	c.EventuallyTrue("the copies of another operator", c.hasCopiesIn(other, "copies-a", "copies-b"), nil)
	if !c.hasCopiesIn(csv, "copies-b")() {
		t.Error("the copies of an operator that cannot watch its targets were changed")
	}

	c.setStatus(csv, v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonInterOperatorGroupOwnerConflict)
	c.EventuallyTrue("no copies of an operator in conflict", c.hasCopiesIn(csv), nil)
	c.setStatus(csv, v1alpha1.CSVPhaseSucceeded, v1alpha1.CSVReasonInstallSuccessful)
	c.EventuallyTrue("the copies of an operator without conflict", c.hasCopiesIn(csv, "copies-a", "copies-b"), nil)
	c.Must(c.Delete(t.Context(), csv))
	c.EventuallyTrue("no copies of a deleted operator", c.hasCopiesIn(csv), nil)
	// The same while no controller runs.
	c.stop()
	c.Must(c.Delete(t.Context(), other))
	c.startControllers()
	c.EventuallyTrue("no copies of another deleted operator", c.hasCopiesIn(other), nil)
}

// A new namespace gets copies, unless it has an original ClusterServiceVersion of that name.
func TestCreatedAndDeletedNamespaces(t *testing.T) {
	c := newFixture(t)
	c.createGroup("come", "")
	csv := c.createCSV("come", "come", "")
	c.EventuallyTrue("everywhere", c.hasCopiesIn(csv, c.allNamespacesExcept("come")...), nil)
	c.EnsureNamespace("come-later")
	c.EventuallyTrue("a copy in the new namespace", c.hasCopiesIn(csv, c.allNamespacesExcept("come")...), nil)
	c.createGroup("come-own", "come-own")
	c.EventuallyTrue("a copy in another new namespace", func() bool { return c.listCopies(csv)["come-own"] != nil }, nil)
	copied := c.listCopies(csv)["come-own"]
	c.Must(c.Delete(t.Context(), copied))
	own := &v1alpha1.ClusterServiceVersion{}
	// The copy is recreated, unless an original one is created first.
	c.EventuallyTrue("an original ClusterServiceVersion", func() bool {
		_ = c.Delete(t.Context(), copied) // it may not exist
		own = copied.DeepCopy()
		own.ObjectMeta = metav1.ObjectMeta{Namespace: "come-own", Name: "come"}
		return c.Create(t.Context(), own) == nil
	}, nil)

	c.setAnnotation(csv, "mine", "2")
	c.EventuallyTrue("the other copies are updated", func() bool { return c.listCopies(csv)["come-later"].Annotations["mine"] == "2" }, nil)
	c.Must(c.Get(t.Context(), client.ObjectKeyFromObject(own), own))
	if len(own.Labels) != 0 || own.Annotations["mine"] != "" {
		t.Errorf("the original ClusterServiceVersion was changed: labels %v, annotations %v", own.Labels, own.Annotations)
	}

	c.Must(c.Delete(t.Context(), own))
	c.EventuallyTrue("it is replaced by a copy", func() bool { return c.listCopies(csv)["come-own"] != nil }, nil)
}

// A copy that is deleted before the response to its write has a record although it is deleted. It is recreated nevertheless.
func TestCopyDeletedDuringWrite(t *testing.T) {
	c := newFixture(t)
	c.EnsureNamespace("going-a")
	c.createGroup("going", "going-a")
	marker := c.createCSV("going", "marker", "going-a")
	c.EventuallyTrue("a copy of another operator", c.hasCopiesIn(marker, "going-a"), nil)
	written, release := make(chan struct{}), make(chan struct{})
	hold := sync.OnceFunc(func() { close(written); <-release })
	c.counter.onResponse(func(r *http.Request) {
		if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/namespaces/going-a/clusterserviceversions/going/status") {
			hold()
		}
	})
	csv := c.createCSV("going", "going", "going-a")
	<-written
	c.Must(c.Delete(t.Context(), c.listCopies(csv)["going-a"]))
	// Once the cache has a later change, it has seen the deletion.
	edited := c.listCopies(marker)["going-a"]
	edited.Spec.Description = "mine"
	c.Must(c.Update(t.Context(), edited))
	c.EventuallyTrue("the later change is reverted", func() bool { return c.listCopies(marker)["going-a"].Spec.Description != "mine" }, nil)
	c.setAnnotation(csv, "mine", "2")
	close(release)
	c.EventuallyTrue("the copy is recreated", func() bool {
		copied := c.listCopies(csv)["going-a"]
		return copied != nil && copied.Annotations["mine"] == "2"
	}, nil)
}

// The rights of an operator in the namespaces that it watches.
func TestRights(t *testing.T) {
	c := newFixture(t)
	c.EnsureNamespace("rights-a")
	c.createGroup("rights", "rights", "rights-a")
	csv := c.createCSV("rights", "rights", "rights,rights-a")
	c.addPermissions(csv, "a", podRule("get"), podRule("list"))
	c.deleteRolesAtEnd("rights", "rights-a")
	role, bound := newRights(csv, "right", "a", podRule("get"))
	c.Must(c.Create(t.Context(), role))
	c.Must(c.Create(t.Context(), bound))
	got, binding := &rbacv1.Role{}, &rbacv1.RoleBinding{}
	key := client.ObjectKey{Namespace: "rights-a", Name: "right"}
	there := func() bool { return c.Get(t.Context(), key, got) == nil && c.Get(t.Context(), key, binding) == nil }
	c.EventuallyTrue("the rights", there, nil)
	copied := c.listCopies(csv)["rights-a"]
	labels := csvinfo.MergeLabels(csvinfo.OwnerLabels("rights-a", "rights"), map[string]string{"olm.copiedFrom": "rights", "olm.managed": "true"})
	owners := []metav1.OwnerReference{csvinfo.OwnerReference(copied)}
	owners[0].APIVersion = "operators.coreos.com/v1alpha1"
	want := []any{labels, owners, []rbacv1.PolicyRule{podRule("get")}, labels, owners, bound.Subjects, "right"}
	if diff := cmp.Diff(want, []any{got.Labels, got.OwnerReferences, got.Rules, binding.Labels, binding.OwnerReferences, binding.Subjects, binding.RoleRef.Name}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	// They follow the operator's own roles, and manual changes are reverted.
	role.Rules[0].Verbs = []string{"list"}
	c.Must(c.Update(t.Context(), role))
	c.EventuallyTrue("the changed rules", func() bool { return there() && got.Rules[0].Verbs[0] == "list" }, nil)
	got.Rules = nil
	c.Must(c.Update(t.Context(), got))
	c.EventuallyTrue("the rules are restored", func() bool { return there() && len(got.Rules) == 1 }, nil)
	c.Must(c.Delete(t.Context(), binding))
	c.EventuallyTrue("the binding is restored", there, nil)
}

// Forged roles of the operator's namespace grant no rights in other namespaces. Neither does another client's Role that
// has the name of an operator's Role.
func TestForgedRights(t *testing.T) {
	c := newFixture(t)
	c.EnsureNamespace("forged-a")
	c.createGroup("forged", "forged", "forged-a")
	csv := c.createCSV("forged", "forged", "forged,forged-a")
	c.addPermissions(csv, "a", podRule("get"))
	c.deleteRolesAtEnd("forged", "forged-a")
	foreign := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "forged-a", Name: "taken"}, Rules: []rbacv1.PolicyRule{podRule("*")}}
	c.Must(c.Create(t.Context(), foreign))
	for name, edit := range map[string]func(*rbacv1.Role, *rbacv1.RoleBinding){
		"unowned": func(role *rbacv1.Role, _ *rbacv1.RoleBinding) { role.OwnerReferences = nil },
		"wide":    func(role *rbacv1.Role, _ *rbacv1.RoleBinding) { role.Rules = []rbacv1.PolicyRule{podRule("*")} },
		"person": func(_ *rbacv1.Role, binding *rbacv1.RoleBinding) {
			binding.Subjects = []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "eve"}}
		},
		"admin": func(_ *rbacv1.Role, binding *rbacv1.RoleBinding) {
			binding.RoleRef.Kind, binding.RoleRef.Name = "ClusterRole", "cluster-admin"
		},
		"taken": func(*rbacv1.Role, *rbacv1.RoleBinding) {},
	} {
		role, binding := newRights(csv, name, "a", podRule("get"))
		edit(role, binding)
		c.Must(c.Create(t.Context(), role))
		c.Must(c.Create(t.Context(), binding))
	}

	// The permissions change: that they are granted shows that all was reconciled again.
	c.addPermissions(csv, "b", podRule("list"))
	role, binding := newRights(csv, "later", "b", podRule("list"))
	c.Must(c.Create(t.Context(), role))
	c.Must(c.Create(t.Context(), binding))
	is := func(object client.Object, name string) bool {
		err := c.Get(t.Context(), client.ObjectKey{Namespace: "forged-a", Name: name}, object)
		if client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		return err == nil
	}

	c.EventuallyTrue("the operator's own rights", func() bool { return is(&rbacv1.RoleBinding{}, "later") }, nil)
	for _, name := range []string{"unowned", "wide", "person", "admin", "taken"} {
		if is(&rbacv1.RoleBinding{}, name) {
			t.Errorf("the RoleBinding %s was copied", name)
		}
	}

	for _, name := range []string{"unowned", "wide"} {
		if is(&rbacv1.Role{}, name) {
			t.Errorf("the Role %s was copied", name)
		}
	}

	now := &rbacv1.Role{}
	if !is(now, "taken") || now.ResourceVersion != foreign.ResourceVersion {
		t.Error("the Role of another client was changed")
	}
}

func podRule(verb string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{""}, Resources: []string{"pods"}}
}

// newRights returns a Role that an operator owns, and a RoleBinding for a service account of its namespace.
func newRights(csv *v1alpha1.ClusterServiceVersion, name, account string, rules ...rbacv1.PolicyRule) (*rbacv1.Role, *rbacv1.RoleBinding) {
	meta := metav1.ObjectMeta{
		Namespace: csv.Namespace, Name: name, Labels: csvinfo.OwnerLabels(csv.Namespace, csv.Name), OwnerReferences: []metav1.OwnerReference{csvinfo.OwnerReference(csv)},
	}
	return builder.Role(meta, rules, builder.ServiceAccountSubject(csv.Namespace, account))
}

// Copies of operators that watch all namespaces can be disabled.
func TestDisabledCopies(t *testing.T) {
	c := newFixture(t)
	c.createGroup("config", "")
	csv := c.createCSV("config", "config", "")
	c.EnsureNamespace("config-a")
	c.createGroup("config-some", "config-a")
	some := c.createCSV("config-some", "config-some", "config-a")
	c.EventuallyTrue("everywhere", c.hasCopiesIn(csv, c.allNamespacesExcept("config")...), nil)
	olm := &operatorsv1.OLMConfig{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	olm.Spec.Features = &operatorsv1.Features{DisableCopiedCSVs: ptr.To(true)}
	c.Must(c.Create(t.Context(), olm))
	t.Cleanup(func() {
		if err := c.Delete(context.Background(), olm); err != nil {
			t.Error(err)
		}
	})
	hasCondition := func(status metav1.ConditionStatus, reason, message string) func() bool {
		return func() bool {
			c.Must(c.Get(t.Context(), client.ObjectKeyFromObject(olm), olm))
			condition := meta.FindStatusCondition(olm.Status.Conditions, "DisabledCopiedCSVs")
			return condition != nil && condition.Status == status && condition.Reason == reason && condition.Message == message && condition.ObservedGeneration == olm.Generation
		}
	}

	notices := func() []corev1.Event {
		var list corev1.EventList
		c.Must(c.List(t.Context(), &list))
		var found []corev1.Event
		for _, e := range list.Items {
			if e.Reason == "DisabledCopiedCSVs" {
				found = append(found, e)
			}
		}

		return found
	}

	c.EventuallyTrue("only where they are protected", c.hasCopiesIn(csv, protected), nil)
	c.EventuallyTrue("the condition", hasCondition("True", "CopiedCSVsDisabled", "Copied CSVs are disabled and no unexpected copied CSVs were found for operators installed in AllNamespace mode"), nil)
	if !c.hasCopiesIn(some, "config-a")() {
		t.Error("an operator that watches some namespaces has no copies")
	}

	c.EventuallyTrue("the event", func() bool { return len(notices()) == 1 }, nil)
	e := notices()[0]
	if e.Type != "Warning" || e.Message != "CSV copying disabled for config/config" || e.InvolvedObject.Name != "config" || e.InvolvedObject.UID != csv.UID || e.Namespace != "config" {
		t.Errorf("the event is %+v", e)
	}

	c.stop()
	c.startControllers()
	olm.Spec.Features.DisableCopiedCSVs = nil
	c.Must(c.Update(t.Context(), olm))
	c.EventuallyTrue("everywhere again", c.hasCopiesIn(csv, c.allNamespacesExcept("config")...), nil)
	c.EventuallyTrue("the condition", hasCondition("False", "CopiedCSVsEnabled", "Copied CSVs are enabled and present across the cluster"), nil)
	c.EventuallyTrue("no event", func() bool { return len(notices()) == 0 }, nil)
}

// rounds counts how often TestManyCopies was run.
var rounds atomic.Int64

// Many copies cost two requests each, once. An unchanged copy is never read, and a restart lists the copies page by page.
func TestManyCopies(t *testing.T) {
	const namespaces, operators, page = 60, 3, 20
	c := newFixture(t)
	for i := range namespaces {
		c.EnsureNamespace(fmt.Sprintf("many-%02d", i))
	}

	c.createGroup("many", "")
	var csvs []*v1alpha1.ClusterServiceVersion
	c.counter.reset()
	for i := range operators {
		csvs = append(csvs, c.createCSV("many", fmt.Sprintf("many-%d", i), ""))
	}

	all := c.allNamespacesExcept("many")
	everywhere := func() bool {
		for _, csv := range csvs {
			if !c.hasCopiesIn(csv, all...)() {
				return false
			}
		}
		return true
	}

	c.EventuallyTrue("all copies exist", everywhere, nil)
	copies := len(all) * operators
	got := c.counter.reset()
	// No request is repeated, except that the status may be written again if it changes while copies are created.
	if got["post"] != copies || got["status"] > 2*copies || got["get"] > 0 || got["list"] > 0 || got["put"] > copies {
		t.Errorf("got the requests %v for %d copies", got, copies)
	}

	c.stop()
	c.startControllers()
	// A new namespace shows when all were reconciled.
	marker := fmt.Sprintf("many-marker-%d", rounds.Add(1))
	c.EnsureNamespace(marker)
	all = append(all, marker)
	c.EventuallyTrue("copies in the new namespace", everywhere, nil)
	pages := operators * ((len(all) + page - 1) / page)
	if got := c.counter.reset(); got["post"] != operators || got["status"] != operators || got["put"] > 0 || got["get"] > 0 || got["list"] > pages {
		t.Errorf("a restart: got the requests %v for %d copies", got, copies)
	}

	// Only an edited copy is read and written.
	edited := c.listCopies(csvs[0])["many-07"]
	c.PatchObject(edited, func() { edited.Spec.Description = "mine" })
	c.EventuallyTrue("the edit is reverted", func() bool { return c.listCopies(csvs[0])["many-07"].Spec.Description == "" }, nil)
	if got := c.counter.reset(); got["get"] != 1 || got["put"] != 1 || len(got) != 2 {
		t.Errorf("one edited copy: got the requests %v", got)
	}

	// A change of the status is written to each copy, and none is read.
	c.setStatus(csvs[1], v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonComponentUnhealthy)
	c.EventuallyTrue("the status", func() bool {
		for _, copied := range c.listCopies(csvs[1]) {
			if copied.Status.Phase != v1alpha1.CSVPhaseFailed {
				return false
			}
		}
		return true
	}, nil)
	if got := c.counter.reset(); got["status"] != len(all) || len(got) != 1 {
		t.Errorf("a change of %d statuses: got the requests %v", len(all), got)
	}
}

// Two instances at once, which leader election prevents, conflict with each other and reach the same result.
func TestTwoInstances(t *testing.T) {
	c := newFixture(t)
	c.EnsureNamespace("two-a")
	c.createGroup("two", "")
	csv := c.createCSV("two", "two", "")
	c.startControllers()
	for i := range 5 {
		c.setAnnotation(csv, "mine", strconv.Itoa(i))
		c.setStatus(csv, v1alpha1.CSVPhaseFailed, fmt.Sprintf("Reason%d", i))
		edited := &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "two-a", Name: "two"}}
		c.Must(client.IgnoreNotFound(c.Delete(t.Context(), edited)))
	}

	c.setStatus(csv, v1alpha1.CSVPhaseSucceeded, v1alpha1.CSVReasonInstallSuccessful)
	all := c.allNamespacesExcept("two")
	c.EventuallyTrue("all copies are correct", func() bool {
		copies := c.listCopies(csv)
		for _, namespace := range all {
			if found := copies[namespace]; found == nil || found.Annotations["mine"] != "4" || found.Status.Phase != v1alpha1.CSVPhaseSucceeded {
				return false
			}
		}
		return len(copies) == len(all)
	}, nil)
}
