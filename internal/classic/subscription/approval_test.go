package subscription_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// planWrites is a transport that records the writes to InstallPlans. It calls beforeSteps before the first write of
// steps.
type planWrites struct {
	next        http.RoundTripper
	beforeSteps func(plan string)

	mu   sync.Mutex
	all  []string // METHOD or METHOD status
	once sync.Once
}

func (w *planWrites) RoundTrip(request *http.Request) (*http.Response, error) {
	_, path, ok := strings.Cut(request.URL.Path, "/installplans")
	if !ok || request.Method == http.MethodGet {
		return w.next.RoundTrip(request)
	}

	name, isStatus := strings.CutSuffix(strings.TrimPrefix(path, "/"), "/status")
	kind := request.Method
	if isStatus {
		kind += " status"
	}

	w.mu.Lock()
	w.all = append(w.all, kind)
	w.mu.Unlock()

	if isStatus && hasPlanSteps(request) {
		w.once.Do(func() { w.beforeSteps(name) })
	}
	return w.next.RoundTrip(request)
}

// hasPlanSteps reports whether a request writes the steps of a plan.
func hasPlanSteps(request *http.Request) bool {
	body, err := io.ReadAll(request.Body)
	request.Body = io.NopCloser(bytes.NewReader(body))
	return err == nil && bytes.Contains(body, []byte(`"plan":[`))
}

// list returns the writes so far.
func (w *planWrites) list() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.all)
}

// A user approves an InstallPlan after it was created, but before the controller has written its steps. The plan keeps
// the approval and gets its steps; it is not created again.
func TestApprovalBeforeSteps(t *testing.T) {
	c, admin := newFixtureWithoutControllers(t)
	approved := make(chan *v1alpha1.InstallPlan, 1)
	writes := &planWrites{beforeSteps: func(name string) {
		plan := &v1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name}}
		if err := c.Patch(context.WithoutCancel(t.Context()), plan, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"approved":true}}`))); err != nil {
			t.Errorf("approving the plan: %v", err)
		}
		approved <- plan
	}}
	connection := rest.CopyConfig(admin)
	connection.Wrap(func(next http.RoundTripper) http.RoundTripper {
		writes.next = next
		return writes
	})
	c.startControllers(connection)

	address, _ := serveCatalog(t, "", catalogRelease{pkg: "a", version: "1.0.0"})
	c.createCatalog(c.global, "c", address)
	sub := c.createSubscription("a", func(s *v1alpha1.Subscription) { s.Spec.InstallPlanApproval = v1alpha1.ApprovalManual })
	plan := c.waitForPlan(sub, "a.v1.0.0")

	first := <-approved
	if len(first.Status.Plan) > 0 {
		t.Fatalf("the plan had %d steps when it was approved, want none", len(first.Status.Plan))
	}
	if plan.UID != first.UID {
		t.Errorf("got plan %s of the Subscription, want %s, which was approved", plan.Name, first.Name)
	}
	if !plan.Spec.Approved || plan.Status.Phase != v1alpha1.InstallPlanPhaseInstalling {
		t.Errorf("got approved %v in phase %q, want true in Installing", plan.Spec.Approved, plan.Status.Phase)
	}
	if got := writes.list(); !slices.Equal(got, []string{"POST", "PATCH status", "PATCH status"}) {
		t.Errorf("got the writes %q, want one creation, a conflict and the steps", got)
	}
}
