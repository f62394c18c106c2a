package operatorstatus

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/source"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

func TestMain(m *testing.M) { os.Exit(env.Run(m)) }

var start = metav1.NewTime(time.Date(2030, 1, 2, 3, 4, 5, 678, time.UTC))

func condition(kind string, status metav1.ConditionStatus, message string) configv1.ClusterOperatorStatusCondition {
	return configv1.ClusterOperatorStatusCondition{Type: kind, Status: status, Message: message}
}

func TestSet(t *testing.T) {
	var conditions []configv1.ClusterOperatorStatusCondition
	SetCondition(&conditions, condition("Other", "True", "of another"), start)
	SetCondition(&conditions, condition("Available", "False", "at first"), start)
	later := metav1.NewTime(start.Add(time.Minute))
	SetCondition(&conditions, condition("Available", "False", "still"), later)
	c := configv1.FindCondition(conditions, "Available")
	if c == nil || len(conditions) != 2 || c.Message != "still" || !c.LastTransitionTime.Equal(ptr.To(start.Rfc3339Copy())) {
		t.Fatalf("another message: got conditions %+v, want the message changed and the transition time kept", conditions)
	}

	SetCondition(&conditions, condition("Available", "True", "now"), later)
	if c = configv1.FindCondition(conditions, "Available"); !c.LastTransitionTime.Equal(ptr.To(later.Rfc3339Copy())) || c.LastTransitionTime.Nanosecond() != 0 {
		t.Errorf("another status: got condition %+v, want the transition time %s", c, later.Rfc3339Copy())
	}
	if configv1.FindCondition(conditions, "Degraded") != nil {
		t.Error("got a condition that does not exist, want none")
	}
}

func TestVersionOf(t *testing.T) {
	status := &configv1.ClusterOperatorStatus{Versions: []configv1.OperandVersion{{Name: "operand", Version: "1"}, {Name: VersionName, Version: "2"}}}
	if got := VersionOf(status, VersionName); got != "2" {
		t.Errorf("got version %q, want 2", got)
	}
	if got := VersionOf(status, "none"); got != "" {
		t.Errorf("got version %q of a missing operand, want none", got)
	}
}

func fill(message string) func(*configv1.ClusterOperatorStatus) {
	return func(status *configv1.ClusterOperatorStatus) {
		SetCondition(&status.Conditions, condition("Available", "True", message), metav1.Now())
	}
}

// The object is created, and written only when something changed.
func TestWrite(t *testing.T) {
	c := env.Client(t, configv1.AddToScheme)
	o := Operator{Name: "write", Reader: c, Client: c}
	operator := &configv1.ClusterOperator{ObjectMeta: metav1.ObjectMeta{Name: o.Name}}
	t.Cleanup(func() { _ = c.Delete(context.Background(), operator) })
	var versions []string
	for _, message := range []string{"a", "a", "b"} {
		if err := o.PatchStatus(t.Context(), fill(message)); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(operator), operator); err != nil {
			t.Fatal(err)
		}
		versions = append(versions, operator.ResourceVersion)
	}

	if versions[0] != versions[1] || versions[1] == versions[2] {
		t.Errorf("got resource versions %v, want no write by the second update and one by the third", versions)
	}

	// A stale object does not overwrite a newer one.
	stale := staleReader{operator.DeepCopy()}
	operator.Labels = map[string]string{"changed": "yes"}
	if err := c.Update(t.Context(), operator); err != nil {
		t.Fatal(err)
	}
	if err := (Operator{Name: o.Name, Reader: stale, Client: c}).PatchStatus(t.Context(), fill("c")); !apierrors.IsConflict(err) {
		t.Errorf("got error %v, want Conflict", err)
	}
}

// staleReader returns an outdated object.
type staleReader struct{ was *configv1.ClusterOperator }

func (s staleReader) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	s.was.DeepCopyInto(into.(*configv1.ClusterOperator))
	return nil
}

func (s staleReader) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("it lists nothing")
}

// component is a component of the cluster with a reporter.
type component struct {
	mutex   sync.Mutex
	message string
	queries int
	news    chan event.GenericEvent
}

func (s *component) setMessage(message string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.message = message
	s.news <- event.GenericEvent{Object: &configv1.ClusterOperator{}}
}

func (s *component) report(context.Context, *configv1.ClusterOperatorStatus) (func(*configv1.ClusterOperatorStatus), time.Duration, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.queries++
	if s.message == "" {
		return nil, 0, nil
	}
	return fill(s.message), 0, nil
}

func startReporter(t *testing.T, r *Reporter, s *component) {
	t.Helper()
	env.NewFixture(t, configv1.AddToScheme).StartManager(env.Manager{Setup: func(mgr ctrl.Manager) error {
		return r.Setup(mgr, source.Channel(s.news, r.EventHandler()))
	}})
}

// waitForMessage waits until the ClusterOperator has a message.
func waitForMessage(t *testing.T, c client.Client, name, want string) {
	t.Helper()
	env.Eventually(t, "the message of ClusterOperator "+name, func() error {
		operator := &configv1.ClusterOperator{}
		if err := c.Get(t.Context(), client.ObjectKey{Name: name}, operator); err != nil {
			return err
		}

		got := ""
		if found := configv1.FindCondition(operator.Status.Conditions, "Available"); found != nil {
			got = found.Message
		}
		if got != want {
			return fmt.Errorf("got %q, want %q", got, want)
		}

		return nil
	})
}

func TestReporter(t *testing.T) {
	c := env.Client(t, configv1.AddToScheme)
	other := &configv1.ClusterOperator{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
	own := &configv1.ClusterOperator{ObjectMeta: metav1.ObjectMeta{Name: "reporter"}}
	if err := c.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		_ = c.Delete(context.Background(), other)
		_ = c.Delete(context.Background(), own)
	})
	s := &component{news: make(chan event.GenericEvent, 1)}
	startReporter(t, &Reporter{Name: own.Name, Report: s.report}, s)
	s.setMessage("first")
	waitForMessage(t, c, own.Name, "first")
	s.setMessage("second")
	waitForMessage(t, c, own.Name, "second")
	// Changes by others are reverted.
	if err := c.Delete(t.Context(), own.DeepCopy()); err != nil {
		t.Fatal(err)
	}

	waitForMessage(t, c, own.Name, "second")
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(own), own); err != nil {
		t.Fatal(err)
	}

	own.Status = configv1.ClusterOperatorStatus{}
	if err := c.Status().Update(t.Context(), own); err != nil {
		t.Fatal(err)
	}

	waitForMessage(t, c, own.Name, "second")
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(other), other); err != nil || len(other.Status.Conditions) > 0 {
		t.Errorf("got status %+v of another ClusterOperator (error %v), want it empty", other.Status, err)
	}
}

// The reporter starts to report when the kind is served later.
func TestKindServedLater(t *testing.T) {
	c := env.Client(t, configv1.AddToScheme, apiextensionsv1.AddToScheme)
	crd := &apiextensionsv1.CustomResourceDefinition{}
	key := client.ObjectKey{Name: "clusteroperators.config.openshift.io"}
	if err := c.Get(t.Context(), key, crd); err != nil {
		t.Fatal(err)
	}

	again := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: crd.Name, Annotations: crd.Annotations}, Spec: *crd.Spec.DeepCopy()}
	if err := c.Delete(t.Context(), crd); err != nil {
		t.Fatal(err)
	}

	isServed := func() bool {
		t.Helper()
		// The test uses its own discovery client, because that of a client is cached.
		mapper, err := newMapper(t)
		if err != nil {
			t.Fatal(err)
		}
		served, err := IsKindServed(mapper)
		if err != nil {
			t.Fatal(err)
		}
		return served
	}
	env.EventuallyTrue(t, "the kind is not served", func() bool { return !isServed() }, nil)

	s := &component{news: make(chan event.GenericEvent, 1)}
	startReporter(t, &Reporter{Name: "later", Report: s.report, KindCheckInterval: 50 * time.Millisecond}, s)
	s.setMessage("here")
	if err := c.Create(t.Context(), again); err != nil {
		t.Fatal(err)
	}

	env.EventuallyTrue(t, "the kind is served", isServed, nil)

	waitForMessage(t, env.Client(t, configv1.AddToScheme), "later", "here")
}
