package group_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	operatorsv2 "github.com/mainstay-dev/mainstay/api/operators/v2"
	"github.com/mainstay-dev/mainstay/internal/classic/olmoperator"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// startAll runs the whole component, with the rights that it is shipped with.
func startAll(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t, Client: env.Client(t, append(kinds, clientgoscheme.AddToScheme, apiregistrationv1.AddToScheme, operatorsv2.AddToScheme)...)}
	rights := env.ConfigWithRoles(t, "config/classic/olm-operator/role.yaml")
	rights.QPS = -1
	options := ctrl.Options{Scheme: c.Scheme(), Metrics: server.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: ptr.To(true)}}
	olmoperator.Tune(&options)
	mgr, err := ctrl.NewManager(rights, options)
	c.must(err)
	c.must(olmoperator.Setup(mgr, olmoperator.Options{Namespace: "olm", Program: "v1.2.3"}))
	env.StartManager(t, mgr)

	return c
}

// operator makes a ClusterServiceVersion with a Deployment, which owns the CRD of a kind that another
// one may own as well.
func (c *cluster) operator(namespace, name, crd, kind string) *v1alpha1.ClusterServiceVersion {
	c.t.Helper()
	csv := c.csvOf(namespace, name)
	csv.Spec.CustomResourceDefinitions.Owned = []v1alpha1.CRDDescription{{Name: crd, Version: "v1", Kind: kind}}
	deployment := v1alpha1.StrategyDeploymentSpec{Name: name}
	deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
	deployment.Spec.Template.Labels = deployment.Spec.Selector.MatchLabels
	deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "a", Image: "registry.example.com/a"}}
	csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs = append(csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs, deployment)
	c.must(c.Create(c.t.Context(), csv))

	return csv
}

// is reports whether a ClusterServiceVersion is in a phase for a reason. Meanwhile its Deployments are
// played: they are available.
func (c *cluster) is(csv *v1alpha1.ClusterServiceVersion, phase v1alpha1.ClusterServiceVersionPhase, reason string) func() bool {
	return func() bool {
		c.t.Helper()
		d := &appsv1.Deployment{}
		if c.get(d, csv.Namespace, csv.Name) && d.Status.ObservedGeneration != d.Generation {
			d.Status = appsv1.DeploymentStatus{
				ObservedGeneration: d.Generation, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1,
				Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue}},
			}
			if err := c.Status().Update(c.t.Context(), d); err != nil {
				return false
			}
		}

		c.get(csv, csv.Namespace, csv.Name)
		return csv.Status.Phase == phase && csv.Status.Reason == reason
	}
}

const (
	conflict  = v1alpha1.CSVReasonInterOperatorGroupOwnerConflict
	static    = v1alpha1.CSVReasonCannotModifyStaticOperatorGroupAPIs
	installed = v1alpha1.CSVReasonInstallSuccessful
)

// The situations of classic OperatorGroups that intersect, as a user sees them, by the whole component:
// who comes first has the API, and who fails is tried again once the API is free.
func TestIntersectingGroups(t *testing.T) {
	c := startAll(t)
	at := unique("meet")
	for _, name := range []string{at + "-a", at + "-b", at + "-c", at + "-target", at + "-other"} {
		c.namespace(name)
	}

	c.crd("things."+at+".example.com", "Thing")
	c.crd("boxes."+at+".example.com", "Box")
	c.group(at+"-a", targets(at+"-target"))
	first := c.operator(at+"-a", "first", "things."+at+".example.com", "Thing")
	c.eventually("the first", c.is(first, v1alpha1.CSVPhaseSucceeded, installed))
	lists := func(namespace, apis string) func() bool {
		return func() bool { return c.getGroup(namespace).Annotations["olm.providedAPIs"] == apis }
	}
	c.eventually("its API", lists(at+"-a", "Thing.v1."+at+".example.com"))

	// Another API in the same namespace, and the same API in another one.
	c.group(at+"-b", targets(at+"-target"))
	box := c.operator(at+"-b", "box", "boxes."+at+".example.com", "Box")
	c.eventually("another API", c.is(box, v1alpha1.CSVPhaseSucceeded, installed))
	c.group(at+"-c", targets(at+"-other"))
	apart := c.operator(at+"-c", "apart", "things."+at+".example.com", "Thing")
	c.eventually("another namespace", c.is(apart, v1alpha1.CSVPhaseSucceeded, installed))

	// The same API in the same namespace.
	second := c.operator(at+"-b", "second", "things."+at+".example.com", "Thing")
	c.eventually("the second", c.is(second, v1alpha1.CSVPhaseFailed, conflict))
	if second.Status.Message != "intersecting operatorgroups provide the same apis" {
		t.Errorf("it says %q", second.Status.Message)
	}

	c.eventually("it is not listed", lists(at+"-b", "Box.v1."+at+".example.com"))
	if c.get(&appsv1.Deployment{}, at+"-b", "second") {
		t.Error("an operator in conflict has a Deployment")
	}

	// The first goes: the second has the API.
	c.must(c.Delete(t.Context(), first))
	c.eventually("the second is tried again", c.is(second, v1alpha1.CSVPhaseSucceeded, installed))
	c.eventually("its API", lists(at+"-b", "Box.v1."+at+".example.com,Thing.v1."+at+".example.com"))
	c.eventually("the first's is free", lists(at+"-a", ""))
	// One that is there, and comes to meet another: its group gives the API up, and it fails.
	edit(c, c.getGroup(at+"-c"), targets(at+"-target"))
	c.eventually("one of them gives way", func() bool {
		a, b := c.is(second, v1alpha1.CSVPhaseFailed, conflict)(), c.is(apart, v1alpha1.CSVPhaseFailed, conflict)()
		return a != b
	})
	loser, name := second, at+"-b"
	if apart.Status.Reason == conflict {
		loser, name = apart, at+"-c"
	}

	c.eventually("its Deployment goes", func() bool { return !c.get(&appsv1.Deployment{}, loser.Namespace, loser.Name) })
	// It goes elsewhere, and all is well.
	edit(c, c.getGroup(name), targets(name))
	c.eventually("it is tried again", c.is(loser, v1alpha1.CSVPhaseSucceeded, installed))
}

// A static group keeps its APIs from others, and takes no more on.
func TestStaticGroup(t *testing.T) {
	c := startAll(t)
	at := unique("static")
	for _, name := range []string{at + "-a", at + "-b"} {
		c.namespace(name)
	}

	c.crd("kepts."+at+".example.com", "Kept")
	c.crd("mores."+at+".example.com", "More")
	g := c.group(at+"-a", targets(at+"-a"), func(g *operatorsv1.OperatorGroup) {
		g.Spec.StaticProvidedAPIs = true
		g.Annotations = map[string]string{"olm.providedAPIs": "Kept.v1." + at + ".example.com"}
	})
	more := c.operator(at+"-a", "more", "mores."+at+".example.com", "More")
	c.eventually("it takes no more", c.is(more, v1alpha1.CSVPhaseFailed, static))
	c.group(at+"-b", targets(at+"-a"))
	kept := c.operator(at+"-b", "kept", "kepts."+at+".example.com", "Kept")
	c.eventually("it keeps its own", c.is(kept, v1alpha1.CSVPhaseFailed, conflict))
	if got := c.getGroup(at + "-a").Annotations["olm.providedAPIs"]; got != "Kept.v1."+at+".example.com" {
		t.Errorf("it lists %q", got)
	}

	edit(c, g, func(g *operatorsv1.OperatorGroup) {
		g.Spec.StaticProvidedAPIs = false
		delete(g.Annotations, "olm.providedAPIs")
	})
	c.eventually("the others are tried again", func() bool {
		a, b := c.is(more, v1alpha1.CSVPhaseSucceeded, installed)(), c.is(kept, v1alpha1.CSVPhaseSucceeded, installed)()
		return a && b
	})
}

// An operator fails while it cannot watch what its group targets, or there is not one group.
func TestMembership(t *testing.T) {
	c := startAll(t)
	at := unique("member")
	c.namespace(at)
	c.crd("members."+at+".example.com", "Member")
	csv := c.operator(at, "member", "members."+at+".example.com", "Member")
	c.eventually("no group", c.is(csv, v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonNoOperatorGroup))
	g := c.group(at, targets(at))
	c.eventually("a group", c.is(csv, v1alpha1.CSVPhaseSucceeded, installed))
	edit(c, csv, func(csv *v1alpha1.ClusterServiceVersion) {
		csv.Spec.InstallModes = []v1alpha1.InstallMode{{Type: v1alpha1.InstallModeTypeOwnNamespace, Supported: true}}
	})
	edit(c, g, func(g *operatorsv1.OperatorGroup) { g.Spec.TargetNamespaces = nil })
	c.eventually("a group that it cannot be of", c.is(csv, v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonUnsupportedOperatorGroup))
	edit(c, g, targets(at))
	c.eventually("it can again", c.is(csv, v1alpha1.CSVPhaseSucceeded, installed))
	edit(c, g, func(g *operatorsv1.OperatorGroup) {
		g.Spec.TargetNamespaces, g.Spec.Selector = nil, &metav1.LabelSelector{MatchLabels: map[string]string{"nobody": "has"}}
	})
	c.eventually("no namespaces", c.is(csv, v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonNoTargetNamespaces))
	edit(c, g, targets(at))
	c.eventually("namespaces", func() bool { return c.is(csv, v1alpha1.CSVPhaseSucceeded, installed)() })
	second := c.group(at, func(g *operatorsv1.OperatorGroup) { g.Name = "second" })
	c.eventually("two groups", c.is(csv, v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonTooManyOperatorGroups))
	c.must(c.Delete(t.Context(), second))
	c.eventually("one group", c.is(csv, v1alpha1.CSVPhaseSucceeded, installed))
	// What pods are told follows the group.
	edit(c, csv, func(csv *v1alpha1.ClusterServiceVersion) {
		csv.Spec.InstallModes = []v1alpha1.InstallMode{{Type: v1alpha1.InstallModeTypeAllNamespaces, Supported: true}}
	})
	edit(c, g, func(g *operatorsv1.OperatorGroup) { g.Spec.TargetNamespaces, g.Spec.Selector = nil, nil })
	c.eventually("the pods", func() bool {
		d := &appsv1.Deployment{}
		c.is(csv, v1alpha1.CSVPhaseSucceeded, installed)()
		value, ok := "", false
		if c.get(d, at, "member") {
			value, ok = d.Spec.Template.Annotations["olm.targetNamespaces"]
		}

		return ok && value == "" && d.Spec.Template.Annotations["olm.operatorGroup"] == "og"
	})

	var copies v1alpha1.ClusterServiceVersionList
	c.eventually("the copies", func() bool {
		c.must(c.List(t.Context(), &copies, client.MatchingLabels{"olm.copiedFrom": at}))
		return len(copies.Items) > 3
	})
}
