package group_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	operatorsv2 "github.com/mainstay-dev/mainstay/api/operators/v2"
	"github.com/mainstay-dev/mainstay/internal/classic/olmoperator"
	"github.com/mainstay-dev/mainstay/internal/testing/builder"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// newFixtureWithOLMOperator runs the whole olm-operator with the role that is shipped with it.
func newFixtureWithOLMOperator(t *testing.T) *fixture {
	t.Helper()
	c := &fixture{Fixture: env.NewFixture(t, append(kinds, clientgoscheme.AddToScheme, apiregistrationv1.AddToScheme, operatorsv2.AddToScheme)...)}
	options := ctrl.Options{}
	olmoperator.ConfigureOptions(&options)
	c.StartManager(env.Manager{
		Roles: "config/classic/olm-operator/role.yaml", Options: options,
		Setup: func(mgr ctrl.Manager) error {
			return olmoperator.Setup(mgr, olmoperator.Options{Namespace: "olm", Program: "v1.2.3"})
		},
	})
	return c
}

// createOperator creates a ClusterServiceVersion with a Deployment. Its CRD may be owned by another one too.
func (c *fixture) createOperator(namespace, name, crd, kind string) *v1alpha1.ClusterServiceVersion {
	c.T.Helper()
	csv := c.newCSV(namespace, name)
	csv.Spec.CustomResourceDefinitions.Owned = []v1alpha1.CRDDescription{{Name: crd, Version: "v1", Kind: kind}}
	deployment := v1alpha1.StrategyDeploymentSpec{Name: name}
	deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
	deployment.Spec.Template.Labels = deployment.Spec.Selector.MatchLabels
	deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "a", Image: "registry.example.com/a"}}
	csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs = append(csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs, deployment)
	c.Must(c.Create(c.T.Context(), csv))

	return csv
}

// hasPhase returns a function that reports whether a ClusterServiceVersion has a phase and a reason. The function also
// marks its Deployments available.
func (c *fixture) hasPhase(csv *v1alpha1.ClusterServiceVersion, phase v1alpha1.ClusterServiceVersionPhase, reason string) func() bool {
	return func() bool {
		c.T.Helper()
		d := &appsv1.Deployment{}
		if c.Find(d, csv.Namespace, csv.Name) && d.Status.ObservedGeneration != d.Generation {
			d.Status = builder.AvailableStatus(d)
			if err := c.Status().Update(c.T.Context(), d); err != nil {
				return false
			}
		}

		c.Find(csv, csv.Namespace, csv.Name)
		return csv.Status.Phase == phase && csv.Status.Reason == reason
	}
}

const (
	conflict  = v1alpha1.CSVReasonInterOperatorGroupOwnerConflict
	static    = v1alpha1.CSVReasonCannotModifyStaticOperatorGroupAPIs
	installed = v1alpha1.CSVReasonInstallSuccessful
)

// Of the operators in intersecting groups the first one gets the API. The other one fails, and is retried once the API
// is free.
func TestIntersectingGroups(t *testing.T) {
	c := newFixtureWithOLMOperator(t)
	at := uniqueName("meet")
	for _, name := range []string{at + "-a", at + "-b", at + "-c", at + "-target", at + "-other"} {
		c.createNamespace(name)
	}

	c.createCRD("things."+at+".example.com", "Thing")
	c.createCRD("boxes."+at+".example.com", "Box")
	c.createGroup(at+"-a", targets(at+"-target"))
	first := c.createOperator(at+"-a", "first", "things."+at+".example.com", "Thing")
	c.EventuallyTrue("the first", c.hasPhase(first, v1alpha1.CSVPhaseSucceeded, installed), nil)
	lists := func(namespace, apis string) func() bool {
		return func() bool { return c.getGroup(namespace).Annotations["olm.providedAPIs"] == apis }
	}
	c.EventuallyTrue("its API", lists(at+"-a", "Thing.v1."+at+".example.com"), nil)

	// Another API in the same namespace, and the same API in another one.
	c.createGroup(at+"-b", targets(at+"-target"))
	box := c.createOperator(at+"-b", "box", "boxes."+at+".example.com", "Box")
	c.EventuallyTrue("another API", c.hasPhase(box, v1alpha1.CSVPhaseSucceeded, installed), nil)
	c.createGroup(at+"-c", targets(at+"-other"))
	apart := c.createOperator(at+"-c", "apart", "things."+at+".example.com", "Thing")
	c.EventuallyTrue("another namespace", c.hasPhase(apart, v1alpha1.CSVPhaseSucceeded, installed), nil)

	// The same API in the same namespace.
	second := c.createOperator(at+"-b", "second", "things."+at+".example.com", "Thing")
	c.EventuallyTrue("the second", c.hasPhase(second, v1alpha1.CSVPhaseFailed, conflict), nil)
	if second.Status.Message != "intersecting operatorgroups provide the same apis" {
		t.Errorf("got the message %q", second.Status.Message)
	}

	c.EventuallyTrue("it is not listed", lists(at+"-b", "Box.v1."+at+".example.com"), nil)
	if c.Find(&appsv1.Deployment{}, at+"-b", "second") {
		t.Error("an operator in conflict has a Deployment")
	}

	// The first one is deleted: the second one gets the API.
	c.Must(c.Delete(t.Context(), first))
	c.EventuallyTrue("the second is retried", c.hasPhase(second, v1alpha1.CSVPhaseSucceeded, installed), nil)
	c.EventuallyTrue("its API", lists(at+"-b", "Box.v1."+at+".example.com,Thing.v1."+at+".example.com"), nil)
	c.EventuallyTrue("the first no longer provides it", lists(at+"-a", ""), nil)
	// The targets of an installed operator's group begin to intersect: its group removes the API, and it fails.
	env.EditObject(c.Fixture, c.getGroup(at+"-c"), targets(at+"-target"))
	c.EventuallyTrue("one of them fails", func() bool {
		a, b := c.hasPhase(second, v1alpha1.CSVPhaseFailed, conflict)(), c.hasPhase(apart, v1alpha1.CSVPhaseFailed, conflict)()
		return a != b
	}, nil)
	loser, name := second, at+"-b"
	if apart.Status.Reason == conflict {
		loser, name = apart, at+"-c"
	}

	c.EventuallyTrue("its Deployment is deleted", func() bool { return !c.Find(&appsv1.Deployment{}, loser.Namespace, loser.Name) }, nil)
	// The group targets another namespace, and the operator succeeds.
	env.EditObject(c.Fixture, c.getGroup(name), targets(name))
	c.EventuallyTrue("it is retried", c.hasPhase(loser, v1alpha1.CSVPhaseSucceeded, installed), nil)
}

// A static group keeps its list of APIs: other operators cannot provide them, and no API is added.
func TestStaticGroup(t *testing.T) {
	c := newFixtureWithOLMOperator(t)
	at := uniqueName("static")
	for _, name := range []string{at + "-a", at + "-b"} {
		c.createNamespace(name)
	}

	c.createCRD("kepts."+at+".example.com", "Kept")
	c.createCRD("mores."+at+".example.com", "More")
	g := c.createGroup(at+"-a", targets(at+"-a"), func(g *operatorsv1.OperatorGroup) {
		g.Spec.StaticProvidedAPIs = true
		g.Annotations = map[string]string{"olm.providedAPIs": "Kept.v1." + at + ".example.com"}
	})
	more := c.createOperator(at+"-a", "more", "mores."+at+".example.com", "More")
	c.EventuallyTrue("it accepts no other API", c.hasPhase(more, v1alpha1.CSVPhaseFailed, static), nil)
	c.createGroup(at+"-b", targets(at+"-a"))
	kept := c.createOperator(at+"-b", "kept", "kepts."+at+".example.com", "Kept")
	c.EventuallyTrue("it keeps its own", c.hasPhase(kept, v1alpha1.CSVPhaseFailed, conflict), nil)
	if got := c.getGroup(at + "-a").Annotations["olm.providedAPIs"]; got != "Kept.v1."+at+".example.com" {
		t.Errorf("got the list %q", got)
	}

	env.EditObject(c.Fixture, g, func(g *operatorsv1.OperatorGroup) {
		g.Spec.StaticProvidedAPIs = false
		delete(g.Annotations, "olm.providedAPIs")
	})
	c.EventuallyTrue("the others are retried", func() bool {
		a, b := c.hasPhase(more, v1alpha1.CSVPhaseSucceeded, installed)(), c.hasPhase(kept, v1alpha1.CSVPhaseSucceeded, installed)()
		return a && b
	}, nil)
}

// An operator fails while it does not support the targets of its group, or while there is not exactly one group.
func TestMembership(t *testing.T) {
	c := newFixtureWithOLMOperator(t)
	at := uniqueName("member")
	c.createNamespace(at)
	c.createCRD("members."+at+".example.com", "Member")
	csv := c.createOperator(at, "member", "members."+at+".example.com", "Member")
	c.EventuallyTrue("no group", c.hasPhase(csv, v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonNoOperatorGroup), nil)
	g := c.createGroup(at, targets(at))
	c.EventuallyTrue("a group", c.hasPhase(csv, v1alpha1.CSVPhaseSucceeded, installed), nil)
	env.EditObject(c.Fixture, csv, func(csv *v1alpha1.ClusterServiceVersion) {
		csv.Spec.InstallModes = []v1alpha1.InstallMode{{Type: v1alpha1.InstallModeTypeOwnNamespace, Supported: true}}
	})
	env.EditObject(c.Fixture, g, func(g *operatorsv1.OperatorGroup) { g.Spec.TargetNamespaces = nil })
	c.EventuallyTrue("a group with unsupported targets", c.hasPhase(csv, v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonUnsupportedOperatorGroup), nil)
	env.EditObject(c.Fixture, g, targets(at))
	c.EventuallyTrue("supported targets", c.hasPhase(csv, v1alpha1.CSVPhaseSucceeded, installed), nil)
	env.EditObject(c.Fixture, g, func(g *operatorsv1.OperatorGroup) {
		g.Spec.TargetNamespaces, g.Spec.Selector = nil, &metav1.LabelSelector{MatchLabels: map[string]string{"nobody": "has"}}
	})
	c.EventuallyTrue("no namespaces", c.hasPhase(csv, v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonNoTargetNamespaces), nil)
	env.EditObject(c.Fixture, g, targets(at))
	c.EventuallyTrue("namespaces", func() bool { return c.hasPhase(csv, v1alpha1.CSVPhaseSucceeded, installed)() }, nil)
	second := c.createGroup(at, func(g *operatorsv1.OperatorGroup) { g.Name = "second" })
	c.EventuallyTrue("two groups", c.hasPhase(csv, v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonTooManyOperatorGroups), nil)
	c.Must(c.Delete(t.Context(), second))
	c.EventuallyTrue("one group", c.hasPhase(csv, v1alpha1.CSVPhaseSucceeded, installed), nil)
	// The annotation of the pods follows the group.
	env.EditObject(c.Fixture, csv, func(csv *v1alpha1.ClusterServiceVersion) {
		csv.Spec.InstallModes = []v1alpha1.InstallMode{{Type: v1alpha1.InstallModeTypeAllNamespaces, Supported: true}}
	})
	env.EditObject(c.Fixture, g, func(g *operatorsv1.OperatorGroup) { g.Spec.TargetNamespaces, g.Spec.Selector = nil, nil })
	c.EventuallyTrue("the pods", func() bool {
		d := &appsv1.Deployment{}
		c.hasPhase(csv, v1alpha1.CSVPhaseSucceeded, installed)()
		value, ok := "", false
		if c.Find(d, at, "member") {
			value, ok = d.Spec.Template.Annotations["olm.targetNamespaces"]
		}

		return ok && value == "" && d.Spec.Template.Annotations["olm.operatorGroup"] == "og"
	}, nil)

	var copies v1alpha1.ClusterServiceVersionList
	c.EventuallyTrue("the copies", func() bool {
		c.Must(c.List(t.Context(), &copies, client.MatchingLabels{"olm.copiedFrom": at}))
		return len(copies.Items) > 3
	}, nil)
}
