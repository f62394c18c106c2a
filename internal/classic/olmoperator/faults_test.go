package olmoperator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
	"github.com/mainstay-dev/mainstay/internal/testing/mortal"
)

// flow is a part of the life of an operator that a fault can interrupt.
type flow string

const (
	flowPlan    flow = "plan"
	flowInstall flow = "install"
	flowUpdate  flow = "update"
	flowRemoval flow = "removal"
)

// states are the objects of an operator after each flow.
type states map[flow][]string

// lifecycle is the life of an operator that a fault interrupts.
type lifecycle struct {
	*installation
	// interrupt is called in the middle of each flow: when the InstallPlan is created, while the operator and its
	// update wait for a Deployment, and while it is removed.
	interrupt func(flow, *installation)
	// await waits until a flow, or a part of it, is done.
	await func(flow, func() error)
	// want are the states that the flows must lead to. Nil means any.
	want, got states
}

// run installs, updates and removes an operator.
func (l *lifecycle) run() {
	l.T.Helper()
	l.setWorking(false)
	l.subscribe()
	l.interrupt(flowPlan, l.installation)
	l.await(flowPlan, func() error { _, err := l.findPlan("1.0.0"); return err })

	l.approve("1.0.0")
	l.await(flowInstall, func() error { return l.checkPhase("1.0.0", v1alpha1.CSVPhaseInstalling) })
	l.interrupt(flowInstall, l.installation)
	l.setWorking(true)
	l.awaitState(flowInstall, func() error {
		_, err := l.findPlan("1.1.0")
		return errors.Join(l.checkInstalled("1.0.0", v1alpha1.SubscriptionStateUpgradePending), err)
	})

	l.setWorking(false)
	l.approve("1.1.0")
	l.await(flowUpdate, func() error { return l.checkPhase("1.1.0", v1alpha1.CSVPhaseInstalling) })
	l.interrupt(flowUpdate, l.installation)
	l.setWorking(true)
	l.awaitState(flowUpdate, func() error {
		if err := l.checkPhase("1.0.0", ""); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the replaced version exists: %w", err)
		}
		return l.checkInstalled("1.1.0", v1alpha1.SubscriptionStateAtLatest)
	})

	sub, csv := &v1alpha1.Subscription{}, &v1alpha1.ClusterServiceVersion{}
	sub.Namespace, sub.Name, csv.Namespace, csv.Name = l.namespace, l.name, l.namespace, l.csvName("1.1.0")
	l.Must(l.Delete(l.T.Context(), sub))
	l.Must(l.Delete(l.T.Context(), csv))
	l.interrupt(flowRemoval, l.installation)
	l.awaitState(flowRemoval, l.checkRemoved)
}

// awaitState waits until a flow is done and has led to its state.
func (l *lifecycle) awaitState(at flow, check func() error) {
	l.T.Helper()
	l.await(at, func() error {
		if err := errors.Join(check(), l.checkSettled()); err != nil {
			return err
		}

		l.got[at] = l.captureState()
		if l.want == nil {
			return nil
		}
		if diff := cmp.Diff(l.want[at], l.got[at]); diff != "" {
			return fmt.Errorf("objects (-undisturbed +interrupted):\n%s", diff)
		}

		return nil
	})
}

// checkSettled returns an error while an InstallPlan is executed, the CRD has no roles, or the roles of the OperatorGroup are
// not those for its operators.
func (i *installation) checkSettled() error {
	var plans v1alpha1.InstallPlanList
	var csvs v1alpha1.ClusterServiceVersionList
	var roles rbacv1.ClusterRoleList
	home := client.InNamespace(i.namespace)
	err := errors.Join(i.List(i.T.Context(), &plans, home), i.List(i.T.Context(), &csvs, home), i.List(i.T.Context(), &roles))
	if err != nil {
		return err
	}

	for n := range plans.Items {
		if p := &plans.Items[n]; p.Spec.Approved && p.Status.Phase != v1alpha1.InstallPlanPhaseComplete {
			return fmt.Errorf("the approved InstallPlan %s is in phase %s", p.Name, p.Status.Phase)
		}
	}

	count := 0
	for n := range roles.Items {
		role := &roles.Items[n]
		if strings.HasPrefix(role.Name, "things."+i.name+".") {
			count++
		}
		isOfGroup := strings.HasPrefix(role.Name, "olm.og.") && role.Labels[csvinfo.LabelOwnerNamespace] == i.namespace
		if hasRights := role.AggregationRule != nil; isOfGroup && hasRights != (len(csvs.Items) > 0) {
			return fmt.Errorf("ClusterRole %s has the rights of operators: %t, but there are %d", role.Name, hasRights, len(csvs.Items))
		}
	}
	if count != 4 {
		return fmt.Errorf("the CRD has %d ClusterRoles, want 4", count)
	}

	return nil
}

// checkRemoved returns an error while there is a CSV, or an object of the cluster that OLM created for it.
func (i *installation) checkRemoved() error {
	var left []string
	for _, line := range i.captureState() {
		isOfGroupOrCRD := strings.Contains(line, "olm.og.") || strings.Contains(line, "of [CustomResourceDefinition")
		if strings.HasPrefix(line, "ClusterServiceVersion ") || strings.HasPrefix(line, "ClusterRole") && !isOfGroupOrCRD {
			left = append(left, line)
		}
	}

	if len(left) > 0 {
		return fmt.Errorf("still existing: %q", left)
	}
	return nil
}

// stateKinds are the kinds whose objects are compared.
var stateKinds = []schema.GroupVersionKind{
	{Group: "operators.coreos.com", Version: "v1alpha1", Kind: "ClusterServiceVersion"},
	{Group: "operators.coreos.com", Version: "v1alpha1", Kind: "Subscription"},
	{Group: "operators.coreos.com", Version: "v1alpha1", Kind: "InstallPlan"},
	{Group: "operators.coreos.com", Version: "v1", Kind: "OperatorGroup"},
	{Group: "operators.coreos.com", Version: "v2", Kind: "OperatorCondition"},
	{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
	{Group: "apps", Version: "v1", Kind: "Deployment"},
	{Version: "v1", Kind: "Service"},
	{Version: "v1", Kind: "ServiceAccount"},
	{Version: "v1", Kind: "Secret"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding"},
}

// hashes are the parts of names that differ between operators of other names.
var hashes = regexp.MustCompile(`[0-9a-zA-Z]{25,}|aggregate-to-[0-9a-f]{10,}|install-[0-9a-z]{5}\b`)

// captureState returns the objects of an operator, sorted, without what differs between two operators.
func (i *installation) captureState() []string {
	i.T.Helper()
	neutral := strings.NewReplacer(i.namespace, "HOME", i.target, "TARGET", i.name, "NAME")
	var lines []string
	for _, kind := range stateKinds {
		var list unstructured.UnstructuredList
		list.SetGroupVersionKind(kind)
		i.Must(i.List(i.T.Context(), &list))
		for n := range list.Items {
			if object := &list.Items[n]; i.contains(object) {
				lines = append(lines, hashes.ReplaceAllString(neutral.Replace(describeObject(i, object)), "HASH"))
			}
		}
	}

	slices.Sort(lines)
	return lines
}

// contains reports whether an object is in one of the namespaces of an operator, or belongs to the operator.
func (i *installation) contains(object *unstructured.Unstructured) bool {
	switch object.GetNamespace() {
	case i.namespace, i.target:
		return true
	case "":
		owner := object.GetLabels()["olm.owner.namespace"]
		return owner == i.namespace || owner == i.target || strings.Contains(object.GetName(), "."+i.name+".")
	default:
		return false
	}
}

// describeObject returns a line about an object: its owners, content, phase and conditions.
func describeObject(i *installation, object *unstructured.Unstructured) string {
	content := object.DeepCopy().Object
	phase, _, _ := unstructured.NestedString(content, "status", "phase")
	state, _, _ := unstructured.NestedString(content, "status", "state")
	for _, field := range []string{"metadata", "status", "data", "secrets"} {
		delete(content, field)
	}
	if object.GetKind() == v1alpha1.ClusterServiceVersionKind || object.GetKind() == "CustomResourceDefinition" {
		delete(content, "spec") // It is long, and written by others.
	}

	if object.GetKind() == v1alpha1.InstallPlanKind {
		unstructured.RemoveNestedField(content, "spec", "generation") // It counts the InstallPlans that were created.
	}

	text, err := json.Marshal(content)
	i.Must(err)
	var owners []string
	for _, owner := range object.GetOwnerReferences() {
		owners = append(owners, owner.Kind+" "+owner.Name)
	}

	slices.Sort(owners)
	return fmt.Sprintf("%s %s/%s of %v labels %v finalizers %v: %s%s %s", object.GetKind(), object.GetNamespace(), object.GetName(),
		owners, neutralLabels(object.GetLabels()), object.GetFinalizers(), phase, state, text)
}

// neutralLabels returns labels without hashes, without the UIDs that OperatorGroups have in their keys, and without
// those that are added to the components of operators at some later time.
func neutralLabels(labels map[string]string) map[string]string {
	result := map[string]string{}
	for key, value := range labels {
		switch {
		case strings.HasPrefix(key, "olm.operatorgroup.uid/"):
			key = "olm.operatorgroup.uid/UID"
		case strings.HasPrefix(key, "operators.coreos.com/"):
			continue
		case key == "olm.deployment-spec-hash":
			value = "HASH"
		case len(key) > 16 && strings.HasPrefix(key, "olm.api."):
			key = "olm.api.HASH"
		}

		result[key] = value
	}

	return result
}

// await waits until a flow is done by programs that keep running.
func (f *fixture) await(what flow, done func() error) {
	f.T.Helper()
	f.Eventually("the flow "+string(what)+" is done", done)
}

// undisturbed is the result of a lifecycle without a fault, with which those of all tests are compared.
var undisturbed struct {
	once sync.Once
	states
}

// newFaultFixture returns a fixture without programs, after a lifecycle without a fault.
func newFaultFixture(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t)
	undisturbed.once.Do(func() {
		for _, m := range f.newManagers(programOptions{log: logr.Discard()}) {
			_, stop := f.StartManager(m)
			defer stop()
		}
		l := lifecycle{installation: f.newInstallation("calm"), interrupt: noInterruption, await: f.await, got: states{}}
		l.run()
		undisturbed.states = l.got
	})
	return f
}

// checkFault runs a lifecycle that a fault interrupts. Each flow must lead to the state of an undisturbed one.
func (f *fixture) checkFault(name string, interrupt func(flow, *installation), await func(flow, func() error)) {
	f.T.Helper()
	l := lifecycle{installation: f.newInstallation(name), interrupt: interrupt, await: await, want: undisturbed.states, got: states{}}
	l.run()
}

// noInterruption interrupts no flow.
func noInterruption(flow, *installation) {}

// TestServerRestartsInEachFlow restarts the API server while an operator is resolved, installed, updated and removed
// by programs that keep running.
func TestServerRestartsInEachFlow(t *testing.T) {
	f := newFaultFixture(t)
	p := f.start(programOptions{})
	f.checkFault("restarts", func(at flow, _ *installation) {
		if at != flowInstall { // The update is tested in the same way.
			env.RestartServer(t)
		}
	}, f.await)
	p.each((*env.Replica).CheckRunning)
}

// TestEtcdWithoutSpace has etcd refuse writes while an operator is resolved, installed and updated. Deletions are
// still possible: objects that are deleted meanwhile are restored when there is space.
func TestEtcdWithoutSpace(t *testing.T) {
	f := newFaultFixture(t)
	const refusal = "database space exceeded"
	p := f.start(programOptions{})
	f.checkFault("crowded", func(at flow, i *installation) {
		var lost client.Object
		switch at {
		case flowPlan:
			f.Eventually("the InstallPlan is created", func() (err error) { lost, err = i.findPlan("1.0.0"); return err })
		case flowInstall, flowUpdate:
			lost = &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: i.target, Name: i.csvName("1.0.0")}}
			f.Eventually("the CSV is copied", func() error { return f.Get(t.Context(), client.ObjectKeyFromObject(lost), lost) })
		default: // The removal is requested already.
			return
		}

		free := env.FillEtcd(t)
		before := p.refused()
		f.Must(f.Delete(t.Context(), lost))
		f.Eventually("the programs retry to restore "+lost.GetName(), func() error {
			if got := p.refused() - before; got < 3 {
				return fmt.Errorf("%d writes were refused", got)
			}
			return nil
		})
		if !p.hasLogged(refusal) {
			t.Errorf("%s: the log does not contain %q", at, refusal)
		}
		free()
	}, f.await)
}

// TestTwoReplicas disconnects the leader of two replicas while an operator is installed and updated. The other one
// takes over, and the former leader writes nothing more.
func TestTwoReplicas(t *testing.T) {
	f := newFaultFixture(t)
	o := programOptions{lease: "replicas"}
	leader := f.start(o)
	leader.each((*env.Replica).WaitForLeadership)
	follower := f.start(o)
	f.checkFault("pair", func(at flow, _ *installation) {
		switch at {
		case flowInstall, flowUpdate:
			follower.each((*env.Replica).CheckPassive)
			leader.each((*env.Replica).CutOff)
			follower.each((*env.Replica).WaitForLeadership)
			leader, follower = follower, f.start(o)
		}
	}, f.await)
}

// TestKilledAtEachStep installs, updates and removes an operator by programs that are killed: each after some more
// writes than the one before.
func TestKilledAtEachStep(t *testing.T) {
	f := newFaultFixture(t)
	admin := env.Start(t)
	deaths := 0
	f.checkFault("killed", noInterruption, func(at flow, done func() error) {
		for writes := int64(1); done() != nil; writes += 3 {
			if writes > 100 {
				t.Fatalf("%s: not done after %d writes of one program: %v", at, writes, done())
			}

			life := mortal.Start(t.Context(), admin, writes, func(ctx context.Context, connection *rest.Config) {
				f.runUntilKilled(ctx, connection)
			})
			f.Eventually("the flow "+string(at)+" is done, or the program is dead", func() error {
				if life.IsDead() {
					return nil
				}
				return done()
			})
			life.Kill()
			deaths++
		}
	})

	t.Logf("%d programs were killed", deaths)
	if deaths < 10 {
		t.Errorf("got %d killed programs, too few for this test", deaths)
	}
}

// runUntilKilled runs both programs with a connection. It ignores their errors, because they are killed.
func (f *fixture) runUntilKilled(ctx context.Context, connection *rest.Config) {
	var running sync.WaitGroup
	defer running.Wait()
	for _, m := range f.newManagers(programOptions{log: logr.Discard()}) { //nolint:contextcheck // the calls of its gRPC server have contexts of their own
		m.Options.GracefulShutdownTimeout = ptr.To(time.Duration(0))
		mgr, err := env.NewManager(connection, m.Options, m.Setup)
		if err != nil {
			return
		}
		running.Go(func() { _ = mgr.Start(ctx) })
	}
}

// TestClockJumps sets the clock forward and back while an operator is resolved, installed, updated and removed. A
// deadline that seems to have passed does not stop the flow.
func TestClockJumps(t *testing.T) {
	const years = 10 * 365 * 24 * time.Hour
	f := newFaultFixture(t)
	clock := &env.JumpingClock{}
	f.start(programOptions{clock: clock})
	f.checkFault("clock", func(at flow, i *installation) {
		for _, offset := range []time.Duration{years, -years, years} {
			clock.JumpTo(offset)
			i.touchDeployment()
		}
		if at == flowUpdate {
			clock.JumpTo(0)
		}
	}, f.await)
}

// touchDeployment changes the Deployment of an operator, if there is one, so that its CSV is reconciled.
func (i *installation) touchDeployment() {
	i.T.Helper()
	deployment := &appsv1.Deployment{}
	err := i.Get(i.T.Context(), client.ObjectKey{Namespace: i.namespace, Name: i.name}, deployment)
	if apierrors.IsNotFound(err) {
		return
	}

	i.Must(err)
	i.PatchStatus(deployment, func() { deployment.Status.Replicas++ })
}
