package catalogoperator_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/catalogoperator"
	registries "github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
	"github.com/mainstay-dev/mainstay/internal/testing/ociregistry"
)

const (
	labelServing = "olm.catalogSource"
	labelUpdate  = "catalogsource.operators.coreos.com/update"
)

// pollFixture has a catalog that is polled when the test calls startPoll.
type pollFixture struct {
	*fixture
	catalog *v1alpha1.CatalogSource
}

func newPollFixture(t *testing.T, name, interval string) *pollFixture {
	t.Helper()
	address, _ := serve(t, "127.0.0.1:0")
	p := &pollFixture{fixture: newFixture(t, catalogoperator.Options{Proxy: newServiceNetwork(t, address)})}
	spec := image("quay.io/example/catalog:v1")
	spec.UpdateStrategy = &v1alpha1.UpdateStrategy{RegistryPoll: &v1alpha1.RegistryPoll{Interval: interval}}
	p.catalog = p.fixture.catalog(name, spec)
	return p
}

// startPoll moves the latest poll to the past and triggers a reconciliation. It returns the
// update pod, which must not be one of others.
func (p *pollFixture) startPoll(others ...string) *corev1.Pod {
	p.T.Helper()
	p.makePollDue()
	return p.onePod(labelUpdate, p.catalog.Name, others...)
}

// makePollDue moves the latest poll to the past and triggers a reconciliation.
func (p *pollFixture) makePollDue() {
	p.T.Helper()
	p.eventually(func() error {
		if err := p.get(p.catalog); err != nil {
			return err
		}
		before := p.catalog.DeepCopy()
		p.catalog.Status.LatestImageRegistryPoll = &metav1.Time{Time: time.Now().Add(-24 * time.Hour)}
		return p.Status().Patch(p.T.Context(), p.catalog, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	})

	p.triggerReconcile()
}

// waitForPoll waits until the catalog was polled.
func (p *pollFixture) waitForPoll() {
	p.T.Helper()
	p.eventually(func() error {
		if err := p.get(p.catalog); err != nil {
			return err
		}
		if at := p.catalog.Status.LatestImageRegistryPoll; at == nil || time.Since(at.Time) > time.Hour {
			return fmt.Errorf("got the latest poll at %v", at)
		}
		return nil
	})
}

// triggerReconcile changes the catalog, so that it is reconciled.
func (p *pollFixture) triggerReconcile() {
	p.T.Helper()
	env.EditObject(p.Fixture, p.catalog, func(s *v1alpha1.CatalogSource) { s.Annotations = map[string]string{"look": rand.Text()} })
}

func TestPoll(t *testing.T) {
	p := newPollFixture(t, "polled", "30m")
	first := p.onePod(labelServing, "polled")
	p.setPodRunning(first, "sha256:1")
	p.waitForState(p.catalog, "READY")
	if p.catalog.Status.LatestImageRegistryPoll != nil {
		t.Errorf("got a poll at %v", p.catalog.Status.LatestImageRegistryPoll)
	}

	update := p.startPoll()
	if update.Labels[labelServing] != "" || update.Spec.Containers[0].Image != "quay.io/example/catalog:v1" || update.Spec.Containers[0].ImagePullPolicy != corev1.PullAlways {
		t.Errorf("got the labels %v on the update pod", update.Labels)
	}

	p.waitForPoll()

	// The image is unchanged.
	p.setPodRunning(update, "sha256:1")
	p.eventually(func() error { return p.isDeleted(update) })
	p.onePod(labelServing, "polled")

	// The image has changed.
	update = p.startPoll(update.Name)
	p.setPodRunning(update, "sha256:2")
	serving := p.onePod(labelServing, "polled", first.Name)
	if serving.Name != update.Name || serving.Labels[labelUpdate] != "" {
		t.Errorf("pod %s serves with the labels %v, want %s", serving.Name, serving.Labels, update.Name)
	}
	if _, ok := serving.Labels[labelUpdate]; !ok {
		t.Error("the label is missing, want an empty one")
	}

	managers := map[string]bool{}
	for _, entry := range serving.ManagedFields {
		managers[entry.Manager] = true
	}

	if !managers["olm.registry"] {
		t.Errorf("got the field managers %v of the labels", managers)
	}

	p.triggerReconcile()
	if kept := p.onePod(labelServing, "polled"); kept.Name != update.Name {
		t.Errorf("got pod %s", kept.Name)
	}
}

// TestFailedPoll: an update pod that never starts is deleted, the serving pod stays, and the status reports the problem
// until a poll succeeds.
func TestFailedPoll(t *testing.T) {
	p := newPollFixture(t, "failing", "30m")
	first := p.onePod(labelServing, "failing")
	p.setPodRunning(first, "sha256:1")
	update := p.startPoll()
	p.updatePodStatus(update, func(s *corev1.PodStatus) {
		s.Phase = corev1.PodRunning
		s.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "registry-server", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
		}}
	})

	p.eventually(func() error { return p.isDeleted(update) })
	p.waitForReason(p.catalog, "RegistryServerError", is("couldn't ensure registry server - update pod "+update.Name+
		" in a Running state: deleted update pod; pod "+update.Name+": container registry-server restarts repeatedly: see its log for the reason"))
	if p.catalog.Status.GRPCConnectionState.LastObservedState != "READY" {
		t.Errorf("got the connection %+v", p.catalog.Status.GRPCConnectionState)
	}

	// The status stays at the next reconcile, and changes after a successful poll.
	p.triggerReconcile()
	second := p.startPoll(update.Name)
	p.waitForReason(p.catalog, "RegistryServerError", func(m string) bool { return strings.Contains(m, update.Name) })
	p.setPodRunning(second, "sha256:1")
	p.eventually(func() error { return p.isDeleted(second) })
	p.waitForReason(p.catalog, "", is(""))
	if serving := p.onePod(labelServing, "failing"); serving.Name != first.Name {
		t.Errorf("got pod %s, want %s", serving.Name, first.Name)
	}
}

// TestPollNeverReady: an update pod that does not become ready is replaced at the next poll.
func TestPollNeverReady(t *testing.T) {
	p := newPollFixture(t, "pending", "1s")
	p.setPodRunning(p.onePod(labelServing, "pending"), "sha256:1")
	p.waitForReason(p.catalog, "RegistryServerError", func(m string) bool {
		return strings.HasPrefix(m, "couldn't ensure registry server - update pod pending-") && strings.HasSuffix(m, " in a Pending state: deleted update pod")
	})
	// Another pod follows it.
	p.eventually(func() error {
		if len(p.pods(labelUpdate, "pending")) == 0 {
			return errors.New("nothing shows the image")
		}
		return nil
	})
}

func TestInterval(t *testing.T) {
	p := newPollFixture(t, "interval", "often")
	p.waitForReason(p.catalog, "InvalidIntervalError", is(`error parsing spec.updateStrategy.registryPoll.interval. Using the default value of 15m0s instead. Error: time: invalid duration "often"`))
	p.setPodRunning(p.onePod(labelServing, "interval"), "sha256:1")
	update := p.startPoll()
	env.EditObject(p.Fixture, p.catalog, func(s *v1alpha1.CatalogSource) { s.Spec.UpdateStrategy.RegistryPoll.Interval = "45m" })
	p.waitForReason(p.catalog, "", is(""))

	// Without polls the update pod is not needed.
	env.EditObject(p.Fixture, p.catalog, func(s *v1alpha1.CatalogSource) { s.Spec.UpdateStrategy = nil })
	p.eventually(func() error { return p.isDeleted(update) })

	// An empty strategy is none.
	env.EditObject(p.Fixture, p.catalog, func(s *v1alpha1.CatalogSource) { s.Spec.UpdateStrategy = &v1alpha1.UpdateStrategy{} })
	p.waitForState(p.catalog, "READY")
}

// TestImageChangesWhilePolled: the update pod of the former image is deleted.
func TestImageChangesWhilePolled(t *testing.T) {
	p := newPollFixture(t, "overtaken", "30m")
	first := p.onePod(labelServing, "overtaken")
	p.setPodRunning(first, "sha256:1")
	update := p.startPoll()
	env.EditObject(p.Fixture, p.catalog, func(s *v1alpha1.CatalogSource) {
		s.Spec.Image = "quay.io/example/catalog@sha256:" + strings.Repeat("0", 64)
	})
	p.onePod(labelServing, "overtaken", first.Name)
	p.eventually(func() error { return p.isDeleted(update) })
	p.triggerReconcile()
	p.waitForReason(p.fixture.catalog("after", v1alpha1.CatalogSourceSpec{SourceType: "none"}), "SpecInvalidError", is("unknown sourcetype: none"))
	if pods := p.pods(labelUpdate, "overtaken"); len(pods) != 0 {
		t.Errorf("got the pod %v for an image with a digest, want no poll", pods[0].Name)
	}
}

// The registry shows that an image is unchanged, so that a poll needs no pod. A pod is created for another image, and if the
// registry does not answer.
func TestPollWithoutPod(t *testing.T) {
	server := ociregistry.Start(t)
	puller := registries.NewClient(registries.Options{Insecure: true})
	reference := server.Host + "/test/catalog:v1"
	publish := func(pkg string) (imageID string) {
		t.Helper()
		pushCatalog(t, puller, reference, packageCatalog(pkg))
		resolved, err := puller.Resolve(t.Context(), reference)
		if err != nil {
			t.Fatal(err)
		}
		return resolved
	}

	first := publish("kettle")
	address, _ := serve(t, "127.0.0.1:0")
	p := &pollFixture{fixture: newFixture(t, catalogoperator.Options{
		Proxy:      newServiceNetwork(t, address),
		Registries: func(context.Context, ...client.ObjectKey) (*registries.Client, error) { return puller, nil },
	})}
	spec := image(reference)
	spec.UpdateStrategy = &v1alpha1.UpdateStrategy{RegistryPoll: &v1alpha1.RegistryPoll{Interval: "30m"}}
	p.catalog = p.fixture.catalog("looked-up", spec)
	serving := p.onePod(labelServing, "looked-up")
	p.setPodRunning(serving, first)
	p.waitForState(p.catalog, "READY")

	p.makePollDue()
	p.waitForPoll()
	if pods := p.pods(labelUpdate, "looked-up"); len(pods) > 0 {
		t.Errorf("got pod %s for an unchanged image, want none", pods[0].Name)
	}

	second := publish("pot")
	update := p.startPoll()
	p.setPodRunning(update, second)
	if now := p.onePod(labelServing, "looked-up", serving.Name); now.Name != update.Name {
		t.Errorf("got pod %s, want %s", now.Name, update.Name)
	}

	server.Close()
	update = p.startPoll(update.Name)
	p.setPodRunning(update, second)
	p.eventually(func() error { return p.isDeleted(update) })
}
