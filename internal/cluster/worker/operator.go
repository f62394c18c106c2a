package worker

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/cluster/worker/merge"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
	"github.com/mainstay-dev/mainstay/internal/release"
)

// operatorChecker creates ClusterOperators and checks whether they are in the state that the release
// wants.
type operatorChecker struct {
	objects  *objectApplier
	recorder recorder
}

// operatorVersionName is the name of the operator's own version in status.versions.
const operatorVersionName = "operator"

// precreateClusterOperator creates a ClusterOperator that does not exist, with its related
// objects, before its operator runs. The related objects help people to debug a failing
// operator. Nothing depends on them, so errors are logged and not returned.
func (c operatorChecker) precreateClusterOperator(ctx context.Context, it *item) {
	if it.exclusionReason != "" || it.isTombstone || it.manifestErr != nil {
		return
	}

	_, exists, known := c.objects.snapshot.findObject(it)
	if !known {
		exists = !apierrors.IsNotFound(c.objects.client.Get(ctx, client.ObjectKey{Name: it.key.Name}, newEmptyObject(it)))
	}
	if exists {
		return
	}

	wanted, _, err := c.objects.desiredObject(it)
	if err != nil {
		return
	}

	created, err := c.objects.createObject(ctx, it, wanted)
	if err == nil {
		related, _, _ := unstructured.NestedFieldNoCopy(it.manifest.Object, "status", "relatedObjects")
		if related == nil {
			return
		}
		before := created.DeepCopy()
		created.Object["status"] = map[string]any{"relatedObjects": related}
		err = reconcile.PatchStatus(ctx, c.objects.client, created, before)
	}

	if err != nil && !reconcile.IsStale(err) {
		log.FromContext(ctx).V(1).Info("failed to create a ClusterOperator", "name", it.key.Name, "error", err.Error())
	}
}

// reconcileClusterOperator checks whether a ClusterOperator is in the state that the release
// wants. It creates a missing one, and in Reconciling it updates the metadata of an existing
// one.
func (c operatorChecker) reconcileClusterOperator(ctx context.Context, it *item) error {
	live := newEmptyObject(it)
	err := c.objects.client.Get(ctx, client.ObjectKey{Name: it.key.Name}, live)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if err != nil {
		c.precreateClusterOperator(ctx, it) // The API server may not have served its kind before.
	}

	if err == nil && c.objects.mode == release.Reconciling {
		if err := c.updateOperatorMetadata(ctx, it, live); err != nil {
			return err
		}
	}

	wanted, reported := &configv1.ClusterOperator{}, &configv1.ClusterOperator{}
	if err := fromUnstructured(it.manifest, wanted); err != nil {
		return manifestError{err}
	}
	if err := fromUnstructured(live, reported); err != nil {
		return err
	}

	err = checkClusterOperator(wanted, reported, c.objects.mode)
	c.recorder.recordOperatorWait(it.key.Name, err == nil)
	return err
}

// updateOperatorMetadata merges the metadata of the manifest into a ClusterOperator.
func (c operatorChecker) updateOperatorMetadata(ctx context.Context, it *item, live *unstructured.Unstructured) error {
	wanted, _, err := c.objects.desiredObject(it)
	if err != nil {
		return err
	}

	merged, differs := merge.Merge(live, wanted)
	if !differs {
		return nil
	}

	return c.objects.client.Update(ctx, merged.DeepCopy(), client.FieldOwner(fieldManager))
}

func fromUnstructured(u *unstructured.Unstructured, into any) error {
	return runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, into)
}

// checkClusterOperator returns an error if a ClusterOperator is not in the state that the
// manifest requests. It ignores Progressing: an operator at its desired version may do other
// work.
func checkClusterOperator(wanted, reported *configv1.ClusterOperator, mode release.Mode) error {
	name := wanted.Name
	problem := func(reason string, effect Effect, text string) error {
		return &Error{Reason: reason, Effect: effect, Message: fmt.Sprintf("Cluster operator %s %s", name, text), Names: []string{name}}
	}
	if len(wanted.Status.Versions) == 0 {
		return problem(ReasonOperatorNoVersions, EffectFail, "does not declare expected versions")
	}
	if conditionStatus(reported, configv1.OperatorAvailable) != metav1.ConditionTrue {
		return problem(ReasonOperatorNotAvailable, EffectFail, "is not available")
	}

	isInitial := mode == release.Initializing
	if conditionStatus(reported, configv1.OperatorDegraded) != metav1.ConditionFalse {
		if isInitial {
			return problem(ReasonOperatorDegraded, EffectReport, "is degraded")
		}
		return problem(ReasonOperatorDegraded, EffectFailAfterInterval, "is degraded")
	}

	for _, version := range wanted.Status.Versions {
		if !isInitial && operandVersion(reported, version.Name) != version.Version {
			return problem(ReasonOperatorUpdating, EffectNone, "is updating versions")
		}
	}

	return nil
}

func conditionStatus(operator *configv1.ClusterOperator, condition string) metav1.ConditionStatus {
	for _, c := range operator.Status.Conditions {
		if c.Type == condition {
			return c.Status
		}
	}
	return ""
}

func operandVersion(operator *configv1.ClusterOperator, name string) string {
	for _, version := range operator.Status.Versions {
		if version.Name == name {
			return version.Version
		}
	}
	return ""
}

// watchClusterOperators registers a handler that wakes the Worker when a ClusterOperator changes
// in a way that a pass may wait for.
func (w *Worker) watchClusterOperators(ctx context.Context) error {
	if w.informers == nil {
		return nil
	}

	informer, err := w.informers.GetInformer(ctx, &configv1.ClusterOperator{})
	if err != nil {
		return fmt.Errorf("watching ClusterOperators: %w", err)
	}

	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(before, after any) {
			was, ok := before.(*configv1.ClusterOperator)
			is, both := after.(*configv1.ClusterOperator)
			if ok && both && hasAwaitedChange(was, is) {
				notifyWithoutBlocking(w.operatorChanged)
			}
		},
		AddFunc: func(any) { notifyWithoutBlocking(w.operatorChanged) },
	})
	if err != nil {
		return fmt.Errorf("watching ClusterOperators: %w", err)
	}

	context.AfterFunc(ctx, func() {
		if err := informer.RemoveEventHandler(registration); err != nil && !errors.Is(err, context.Canceled) {
			log.FromContext(ctx).V(1).Info("failed to stop watching ClusterOperators", "error", err.Error())
		}
	})
	return nil
}

// hasAwaitedChange reports whether a field of a ClusterOperator changed that a pass may wait
// for.
func hasAwaitedChange(before, after *configv1.ClusterOperator) bool {
	return operandVersion(before, operatorVersionName) != operandVersion(after, operatorVersionName) ||
		conditionStatus(before, configv1.OperatorAvailable) != conditionStatus(after, configv1.OperatorAvailable) ||
		conditionStatus(before, configv1.OperatorDegraded) != conditionStatus(after, configv1.OperatorDegraded)
}
