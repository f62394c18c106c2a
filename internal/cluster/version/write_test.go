package version

import (
	"context"
	"errors"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

func TestMain(m *testing.M) { os.Exit(env.Run(m)) }

// newStoredVersion returns a stored ClusterVersion and a controller for it.
func newStoredVersion(t *testing.T) (*Controller, *configv1.ClusterVersion) {
	t.Helper()
	c := env.Client(t, configv1.AddToScheme, corev1.AddToScheme)
	cv := &configv1.ClusterVersion{ObjectMeta: metav1.ObjectMeta{GenerateName: "version-"}, Spec: configv1.ClusterVersionSpec{ClusterID: clusterID}}
	if err := c.Create(t.Context(), cv); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if err := client.IgnoreNotFound(c.Delete(context.Background(), cv)); err != nil {
			t.Error(err)
		}
	})
	return New(c, c, c, Options{Clock: clocktesting.NewFakeClock(start.Time)}), cv
}

// withMinimalStatus returns a copy with a status whose optional fields are null.
func withMinimalStatus(cv *configv1.ClusterVersion) *configv1.ClusterVersion {
	after := cv.DeepCopy()
	after.Status.Desired = configv1.Release{Version: "1.0.0", Image: "a"}
	after.Status.History = []configv1.UpdateHistory{{State: configv1.PartialUpdate, StartedTime: start, Version: "1.0.0", Image: "a"}}
	return after
}

func TestWrite(t *testing.T) {
	controller, cv := newStoredVersion(t)
	after := withMinimalStatus(cv)
	if err := controller.statuses.writeStatus(t.Context(), cv, after); err != nil {
		t.Fatalf("got error %v for a status with null fields, want none", err)
	}

	live := &configv1.ClusterVersion{}
	if err := controller.statuses.reader.Get(t.Context(), client.ObjectKeyFromObject(cv), live); err != nil {
		t.Fatal(err)
	}
	if live.Status.Desired.Version != "1.0.0" || live.Status.History[0].CompletionTime != nil || live.Status.AvailableUpdates != nil {
		t.Errorf("got status %+v, want version 1.0.0 with null fields", live.Status)
	}
}

// Concurrent changes of others are kept.
func TestWriteOntoANewerObject(t *testing.T) {
	controller, cv := newStoredVersion(t)
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		newer := &configv1.ClusterVersion{}
		if err := controller.statuses.reader.Get(t.Context(), client.ObjectKeyFromObject(cv), newer); err != nil {
			return err
		}
		newer.Labels = map[string]string{"mine": "yes"}
		return controller.client.Update(t.Context(), newer)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := controller.statuses.writeStatus(t.Context(), cv, withMinimalStatus(cv)); err != nil {
		t.Fatal(err)
	}

	live := &configv1.ClusterVersion{}
	if err := controller.statuses.reader.Get(t.Context(), client.ObjectKeyFromObject(cv), live); err != nil {
		t.Fatal(err)
	}
	if live.Status.Desired.Version != "1.0.0" || live.Labels["mine"] != "yes" {
		t.Errorf("got labels %v and status %+v, want the changes of both writers", live.Labels, live.Status)
	}
}

func TestWriteOntoAnotherObject(t *testing.T) {
	controller, cv := newStoredVersion(t)
	if err := controller.client.Delete(t.Context(), cv); err != nil {
		t.Fatal(err)
	}

	again := &configv1.ClusterVersion{ObjectMeta: metav1.ObjectMeta{Name: cv.Name}, Spec: cv.Spec}
	if err := controller.client.Create(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	if err := controller.statuses.writeStatus(t.Context(), cv, withMinimalStatus(cv)); err == nil {
		t.Error("got no error of writing the status of a deleted object to a recreated one, want one")
	}

	live := &configv1.ClusterVersion{}
	if err := controller.statuses.reader.Get(t.Context(), client.ObjectKeyFromObject(again), live); err != nil || live.Status.Desired.Version != "" {
		t.Errorf("got status %+v (error %v), want it empty", live.Status, err)
	}
}

// unwritableClient is a client whose status writes fail.
type unwritableClient struct {
	client.Client
	t *testing.T
}

func (u unwritableClient) Status() client.SubResourceWriter {
	u.t.Helper()
	u.t.Fatal("got a write of the status, want none")
	return nil
}

func TestNoWriteWithoutChange(t *testing.T) {
	cv := withMinimalStatus(&configv1.ClusterVersion{})
	controller := New(unwritableClient{t: t}, nil, nil, Options{})
	after := cv.DeepCopy()
	after.Status.AvailableUpdates = []configv1.Release{} // equivalent to nil
	if err := controller.statuses.writeStatus(t.Context(), cv, after); err != nil {
		t.Error(err)
	}
}

// A persistent error is reported in the status; a transient one is not.
func TestFailuresThatLast(t *testing.T) {
	controller, cv := newStoredVersion(t)
	away := errors.New("away")
	reportFailure := func() condition {
		live := &configv1.ClusterVersion{}
		if err := controller.statuses.reader.Get(t.Context(), client.ObjectKeyFromObject(cv), live); err != nil {
			t.Fatal(err)
		}
		progressing, _ := (&conditionSet{all: live.Status.Conditions}).get(configv1.OperatorProgressing)
		return progressing
	}

	for i := 1; i <= maxUnreportedFailures; i++ {
		if progressing := reportFailure(); progressing.Type != "" {
			t.Fatalf("after %d failures: got Progressing %+v, want no report yet", i-1, progressing)
		}
		if err := controller.recordFailure(t.Context(), cv, away); !errors.Is(err, away) {
			t.Fatal(err)
		}
	}

	if progressing := reportFailure(); progressing.Message != "Error ensuring the cluster version is up to date: away" {
		t.Errorf("after %d failures: got Progressing %+v, want the error", maxUnreportedFailures, progressing)
	}
}
