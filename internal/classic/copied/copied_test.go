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
)

// Copies are where the operator watches, and as the source is.
func TestCopies(t *testing.T) {
	c := start(t)
	for _, name := range []string{"copies-a", "copies-b"} {
		c.namespace(name)
	}

	g := c.group("copies", "copies", "copies-a")
	csv := c.csv("copies", "copies", "copies,copies-a")
	c.eventually("a copy", c.are(csv, "copies-a"))
	first := c.copies(csv)["copies-a"]
	want := []any{
		map[string]string{"olm.operatorGroup": "og", "olm.operatorNamespace": "copies", "mine": "1"}, map[string]string{"olm.copiedFrom": "copies", "mine": "1"},
		csv.Spec, v1alpha1.CSVPhaseSucceeded, "The operator is running in copies but is managing this namespace",
	}
	if diff := cmp.Diff(want, []any{first.Annotations, first.Labels, first.Spec, first.Status.Phase, first.Status.Message}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	c.status(csv, v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonComponentUnhealthy)
	c.eventually("the phase", func() bool { return c.copies(csv)["copies-a"].Status.Phase == v1alpha1.CSVPhaseFailed })
	before := csv.DeepCopy()
	csv.Spec.Description = "another"
	c.must(c.Patch(t.Context(), csv, client.MergeFrom(before)))
	c.eventually("the spec", func() bool { return c.copies(csv)["copies-a"].Spec.Description == "another" })

	// What people do to a copy is undone.
	for name, change := range map[string]func(*v1alpha1.ClusterServiceVersion){
		"its spec":        func(csv *v1alpha1.ClusterServiceVersion) { csv.Spec.Description = "mine" },
		"its labels":      func(csv *v1alpha1.ClusterServiceVersion) { csv.Labels["added"] = "x" },
		"its annotations": func(csv *v1alpha1.ClusterServiceVersion) { delete(csv.Annotations, "mine") },
		"all of them":     func(csv *v1alpha1.ClusterServiceVersion) { csv.Spec.Description, csv.Labels["mine"] = "", "2" },
	} {
		edited := c.copies(csv)["copies-a"]
		before := edited.DeepCopy()
		change(edited)
		c.must(c.Patch(t.Context(), edited, client.MergeFrom(before)))
		c.eventually(name, func() bool {
			now := c.copies(csv)["copies-a"]
			return now.Spec.Description == "another" && len(now.Labels) == 2 && now.Labels["mine"] == "1" && len(now.Annotations) == 3
		})
	}

	edited := c.copies(csv)["copies-a"]
	edited.Status.Message = "mine"
	c.must(c.Status().Update(t.Context(), edited))
	c.eventually("its status", func() bool { return c.copies(csv)["copies-a"].Status.Message != "mine" })
	c.must(c.Delete(t.Context(), first))
	c.eventually("one that was deleted", func() bool { now := c.copies(csv)["copies-a"]; return now != nil && now.UID != first.UID })

	// The targets change.
	c.target(g, "copies-b")
	c.annotate(csv, "olm.targetNamespaces", "copies-b")
	c.eventually("other targets", c.are(csv, "copies-b"))
	// Nobody can watch them for now: the copies stay.
	c.status(csv, v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonUnsupportedOperatorGroup)
	c.target(g, "copies-a", "copies-b")
	c.annotate(csv, "olm.targetNamespaces", "copies-a,copies-b")
	other := c.csv("copies", "copies-other", "copies-a,copies-b")
	c.eventually("another one's", c.are(other, "copies-a", "copies-b"))
	if !c.are(csv, "copies-b")() {
		t.Error("an operator that cannot watch its targets is copied, or its copies are gone")
	}

	c.status(csv, v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonInterOperatorGroupOwnerConflict)
	c.eventually("an operator in conflict", c.are(csv))
	c.status(csv, v1alpha1.CSVPhaseSucceeded, v1alpha1.CSVReasonInstallSuccessful)
	c.eventually("an operator that is well again", c.are(csv, "copies-a", "copies-b"))
	c.must(c.Delete(t.Context(), csv))
	c.eventually("one that is gone", c.are(csv))
	// Also while nobody looks.
	c.stop()
	c.must(c.Delete(t.Context(), other))
	c.run()
	c.eventually("another one that is gone", c.are(other))
}

// A namespace that comes later has copies as well; one with a ClusterServiceVersion of its own of that
// name has none.
func TestNamespacesThatComeAndGo(t *testing.T) {
	c := start(t)
	c.group("come", "")
	csv := c.csv("come", "come", "")
	c.eventually("everywhere", c.are(csv, c.everywhere("come")...))
	c.namespace("come-later")
	c.eventually("the new one", c.are(csv, c.everywhere("come")...))
	c.group("come-own", "come-own")
	c.eventually("another new one", func() bool { return c.copies(csv)["come-own"] != nil })
	copied := c.copies(csv)["come-own"]
	c.must(c.Delete(t.Context(), copied))
	own := &v1alpha1.ClusterServiceVersion{}
	// The copy is made again, unless one of people's own is made first.
	c.eventually("one's own", func() bool {
		_ = c.Delete(t.Context(), copied) // it may be there, or not
		own = copied.DeepCopy()
		own.ObjectMeta = metav1.ObjectMeta{Namespace: "come-own", Name: "come"}
		return c.Create(t.Context(), own) == nil
	})

	c.annotate(csv, "mine", "2")
	c.eventually("the others follow", func() bool { return c.copies(csv)["come-later"].Annotations["mine"] == "2" })
	c.must(c.Get(t.Context(), client.ObjectKeyFromObject(own), own))
	if len(own.Labels) != 0 || own.Annotations["mine"] != "" {
		t.Errorf("one's own was written to: %v, %v", own.Labels, own.Annotations)
	}

	c.must(c.Delete(t.Context(), own))
	c.eventually("it makes way for a copy", func() bool { return c.copies(csv)["come-own"] != nil })
}

// A copy that is deleted while its writer waits for an answer is remembered though it is gone. It is made
// anew all the same.
func TestACopyThatGoesWhileItIsWritten(t *testing.T) {
	c := start(t)
	c.namespace("going-a")
	c.group("going", "going-a")
	marker := c.csv("going", "marker", "going-a")
	c.eventually("a copy of another one", c.are(marker, "going-a"))
	written, release := make(chan struct{}), make(chan struct{})
	hold := sync.OnceFunc(func() { close(written); <-release })
	c.counter.whenAnswered(func(r *http.Request) {
		if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/namespaces/going-a/clusterserviceversions/going/status") {
			hold()
		}
	})
	csv := c.csv("going", "going", "going-a")
	<-written
	c.must(c.Delete(t.Context(), c.copies(csv)["going-a"]))
	// Once the watch has shown a later change, it has shown the deletion.
	edited := c.copies(marker)["going-a"]
	edited.Spec.Description = "mine"
	c.must(c.Update(t.Context(), edited))
	c.eventually("what was changed later", func() bool { return c.copies(marker)["going-a"].Spec.Description != "mine" })
	c.annotate(csv, "mine", "2")
	close(release)
	c.eventually("it is made anew", func() bool {
		copied := c.copies(csv)["going-a"]
		return copied != nil && copied.Annotations["mine"] == "2"
	})
}

// The rights of an operator in the namespaces that it watches.
func TestRights(t *testing.T) {
	c := start(t)
	c.namespace("rights-a")
	c.group("rights", "rights", "rights-a")
	csv := c.csv("rights", "rights", "rights,rights-a")
	c.asks(csv, "a", podRule("get"), podRule("list"))
	c.removeRoles("rights", "rights-a")
	role, bound := rights(csv, "right", "a", podRule("get"))
	c.must(c.Create(t.Context(), role))
	c.must(c.Create(t.Context(), bound))
	got, binding := &rbacv1.Role{}, &rbacv1.RoleBinding{}
	key := client.ObjectKey{Namespace: "rights-a", Name: "right"}
	there := func() bool { return c.Get(t.Context(), key, got) == nil && c.Get(t.Context(), key, binding) == nil }
	c.eventually("the rights", there)
	copied := c.copies(csv)["rights-a"]
	labels := csvinfo.With(csvinfo.OwnerLabels("rights-a", "rights"), map[string]string{"olm.copiedFrom": "rights", "olm.managed": "true"})
	owners := []metav1.OwnerReference{csvinfo.OwnerReference(copied)}
	owners[0].APIVersion = "operators.coreos.com/v1alpha1"
	want := []any{labels, owners, []rbacv1.PolicyRule{podRule("get")}, labels, owners, bound.Subjects, "right"}
	if diff := cmp.Diff(want, []any{got.Labels, got.OwnerReferences, got.Rules, binding.Labels, binding.OwnerReferences, binding.Subjects, binding.RoleRef.Name}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	// They follow the operator's own, and what people do to them is undone.
	role.Rules[0].Verbs = []string{"list"}
	c.must(c.Update(t.Context(), role))
	c.eventually("other rules", func() bool { return there() && got.Rules[0].Verbs[0] == "list" })
	got.Rules = nil
	c.must(c.Update(t.Context(), got))
	c.eventually("the rules are back", func() bool { return there() && len(got.Rules) == 1 })
	c.must(c.Delete(t.Context(), binding))
	c.eventually("the binding is back", there)
}

// What somebody of the operator's namespace forged gives no rights in others, nor does a Role of such
// a one that has the name of the operator's.
func TestForgedRights(t *testing.T) {
	c := start(t)
	c.namespace("forged-a")
	c.group("forged", "forged", "forged-a")
	csv := c.csv("forged", "forged", "forged,forged-a")
	c.asks(csv, "a", podRule("get"))
	c.removeRoles("forged", "forged-a")
	foreign := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "forged-a", Name: "taken"}, Rules: []rbacv1.PolicyRule{podRule("*")}}
	c.must(c.Create(t.Context(), foreign))
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
		role, binding := rights(csv, name, "a", podRule("get"))
		edit(role, binding)
		c.must(c.Create(t.Context(), role))
		c.must(c.Create(t.Context(), binding))
	}

	// The permissions change: that they are granted shows that all was looked at again.
	c.asks(csv, "b", podRule("list"))
	role, binding := rights(csv, "later", "b", podRule("list"))
	c.must(c.Create(t.Context(), role))
	c.must(c.Create(t.Context(), binding))
	is := func(object client.Object, name string) bool {
		err := c.Get(t.Context(), client.ObjectKey{Namespace: "forged-a", Name: name}, object)
		if client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		return err == nil
	}

	c.eventually("the operator's own rights", func() bool { return is(&rbacv1.RoleBinding{}, "later") })
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
		t.Error("the Role of somebody else was changed")
	}
}

func podRule(verb string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{""}, Resources: []string{"pods"}}
}

// rights are a Role that an operator owns, and what binds an account of its namespace to it.
func rights(csv *v1alpha1.ClusterServiceVersion, name, account string, rules ...rbacv1.PolicyRule) (*rbacv1.Role, *rbacv1.RoleBinding) {
	meta := metav1.ObjectMeta{
		Namespace: csv.Namespace, Name: name, Labels: csvinfo.OwnerLabels(csv.Namespace, csv.Name), OwnerReferences: []metav1.OwnerReference{csvinfo.OwnerReference(csv)},
	}
	return &rbacv1.Role{ObjectMeta: meta, Rules: rules}, &rbacv1.RoleBinding{
		ObjectMeta: *meta.DeepCopy(), Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: csv.Namespace, Name: account}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
	}
}

// Copies of operators that watch all namespaces can be done without.
func TestConfig(t *testing.T) {
	c := start(t)
	c.group("config", "")
	csv := c.csv("config", "config", "")
	c.namespace("config-a")
	c.group("config-some", "config-a")
	some := c.csv("config-some", "config-some", "config-a")
	c.eventually("everywhere", c.are(csv, c.everywhere("config")...))
	olm := &operatorsv1.OLMConfig{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	olm.Spec.Features = &operatorsv1.Features{DisableCopiedCSVs: ptr.To(true)}
	c.must(c.Create(t.Context(), olm))
	t.Cleanup(func() {
		if err := c.Delete(context.Background(), olm); err != nil {
			t.Error(err)
		}
	})
	says := func(status metav1.ConditionStatus, reason, message string) func() bool {
		return func() bool {
			c.must(c.Get(t.Context(), client.ObjectKeyFromObject(olm), olm))
			condition := meta.FindStatusCondition(olm.Status.Conditions, "DisabledCopiedCSVs")
			return condition != nil && condition.Status == status && condition.Reason == reason && condition.Message == message && condition.ObservedGeneration == olm.Generation
		}
	}

	notices := func() []corev1.Event {
		var list corev1.EventList
		c.must(c.List(t.Context(), &list))
		var found []corev1.Event
		for _, e := range list.Items {
			if e.Reason == "DisabledCopiedCSVs" {
				found = append(found, e)
			}
		}

		return found
	}

	c.eventually("only where they are protected", c.are(csv, protected))
	c.eventually("the condition", says("True", "CopiedCSVsDisabled", "Copied CSVs are disabled and no unexpected copied CSVs were found for operators installed in AllNamespace mode"))
	if !c.are(some, "config-a")() {
		t.Error("an operator that watches some namespaces has no copies")
	}

	c.eventually("the event", func() bool { return len(notices()) == 1 })
	e := notices()[0]
	if e.Type != "Warning" || e.Message != "CSV copying disabled for config/config" || e.InvolvedObject.Name != "config" || e.InvolvedObject.UID != csv.UID || e.Namespace != "config" {
		t.Errorf("the event is %+v", e)
	}

	c.stop()
	c.run()
	olm.Spec.Features.DisableCopiedCSVs = nil
	c.must(c.Update(t.Context(), olm))
	c.eventually("everywhere again", c.are(csv, c.everywhere("config")...))
	c.eventually("the condition", says("False", "CopiedCSVsEnabled", "Copied CSVs are enabled and present across the cluster"))
	c.eventually("no event", func() bool { return len(notices()) == 0 })
}

// rounds counts how often TestManyCopies was run.
var rounds atomic.Int64

// Many copies cost two requests each, once; none is read as long as nobody touches it, and beginning
// anew reads them page by page.
func TestManyCopies(t *testing.T) {
	const namespaces, operators, page = 60, 3, 20
	c := start(t)
	for i := range namespaces {
		c.namespace(fmt.Sprintf("many-%02d", i))
	}

	c.group("many", "")
	var csvs []*v1alpha1.ClusterServiceVersion
	c.counter.take()
	for i := range operators {
		csvs = append(csvs, c.csv("many", fmt.Sprintf("many-%d", i), ""))
	}

	all := c.everywhere("many")
	everywhere := func() bool {
		for _, csv := range csvs {
			if !c.are(csv, all...)() {
				return false
			}
		}
		return true
	}

	c.eventually("they are there", everywhere)
	copies := len(all) * operators
	got := c.counter.take()
	// Nothing is asked for twice: a status that comes while copies are made may be written again.
	if got["post"] != copies || got["status"] > 2*copies || got["get"] > 0 || got["list"] > 0 || got["put"] > copies {
		t.Errorf("%d copies are made by %v requests", copies, got)
	}

	c.stop()
	c.run()
	// A namespace that comes shows when all were looked at.
	marker := fmt.Sprintf("many-marker-%d", rounds.Add(1))
	c.namespace(marker)
	all = append(all, marker)
	c.eventually("the new one", everywhere)
	pages := operators * ((len(all) + page - 1) / page)
	if got := c.counter.take(); got["post"] != operators || got["status"] != operators || got["put"] > 0 || got["get"] > 0 || got["list"] > pages {
		t.Errorf("beginning anew takes %v requests for %d copies", got, copies)
	}

	// One that is edited is read and written, and no other.
	edited := c.copies(csvs[0])["many-07"]
	before := edited.DeepCopy()
	edited.Spec.Description = "mine"
	c.must(c.Patch(t.Context(), edited, client.MergeFrom(before)))
	c.eventually("it is as it was", func() bool { return c.copies(csvs[0])["many-07"].Spec.Description == "" })
	if got := c.counter.take(); got["get"] != 1 || got["put"] != 1 || len(got) != 2 {
		t.Errorf("one edited copy takes %v requests", got)
	}

	// A change of the status is written to each, and nothing is read.
	c.status(csvs[1], v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonComponentUnhealthy)
	c.eventually("the status", func() bool {
		for _, copied := range c.copies(csvs[1]) {
			if copied.Status.Phase != v1alpha1.CSVPhaseFailed {
				return false
			}
		}
		return true
	})
	if got := c.counter.take(); got["status"] != len(all) || len(got) != 1 {
		t.Errorf("a change of %d statuses takes %v requests", len(all), got)
	}
}

// Two programs at once, which leader election is to prevent, get in each other's way and come to the
// same end.
func TestTwoAtOnce(t *testing.T) {
	c := start(t)
	c.namespace("two-a")
	c.group("two", "")
	csv := c.csv("two", "two", "")
	c.run()
	for i := range 5 {
		c.annotate(csv, "mine", strconv.Itoa(i))
		c.status(csv, v1alpha1.CSVPhaseFailed, fmt.Sprintf("Reason%d", i))
		edited := &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "two-a", Name: "two"}}
		c.must(client.IgnoreNotFound(c.Delete(t.Context(), edited)))
	}

	c.status(csv, v1alpha1.CSVPhaseSucceeded, v1alpha1.CSVReasonInstallSuccessful)
	all := c.everywhere("two")
	c.eventually("all copies are right", func() bool {
		copies := c.copies(csv)
		for _, namespace := range all {
			if found := copies[namespace]; found == nil || found.Annotations["mine"] != "4" || found.Status.Phase != v1alpha1.CSVPhaseSucceeded {
				return false
			}
		}
		return len(copies) == len(all)
	})
}
