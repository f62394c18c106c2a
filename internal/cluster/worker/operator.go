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
	"github.com/mainstay-dev/mainstay/internal/release"
)

// versionOfOperator is what the version of an operator itself is called.
const versionOfOperator = "operator"

// precreate makes a ClusterOperator that is absent, with the objects to look at when
// something is wrong, before its operator runs. It is only for people, so that nothing
// depends on whether it succeeds.
func (p *pass) precreate(ctx context.Context, it *item) {
	if it.excluded != "" || it.deletes || it.fault != nil {
		return
	}

	_, exists, known := p.survey.find(it)
	if !known {
		exists = !apierrors.IsNotFound(p.worker.client.Get(ctx, client.ObjectKey{Name: it.key.Name}, empty(it)))
	}
	if exists {
		return
	}

	wanted, _, err := p.wanted(it)
	if err != nil {
		return
	}

	created, err := p.create(ctx, it, wanted)
	if err == nil {
		related, _, _ := unstructured.NestedFieldNoCopy(it.manifest.Object, "status", "relatedObjects")
		if related == nil {
			return
		}
		created.Object["status"] = map[string]any{"relatedObjects": related}
		err = p.worker.client.Status().Update(ctx, created, client.FieldOwner(fieldManager))
	}

	if err != nil && !apierrors.IsAlreadyExists(err) {
		log.FromContext(ctx).V(1).Info("a ClusterOperator could not be made", "name", it.key.Name, "error", err.Error())
	}
}

// operator looks whether a ClusterOperator is as the release wants it. It never makes one.
func (p *pass) operator(ctx context.Context, it *item) error {
	live := empty(it)
	err := p.worker.client.Get(ctx, client.ObjectKey{Name: it.key.Name}, live)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if err != nil {
		p.precreate(ctx, it) // Its kind may have been missing when that was tried.
	}

	if err == nil && p.mode == release.Reconciling {
		if err := p.mergeOperator(ctx, it, live); err != nil {
			return err
		}
	}

	wanted, reported := &configv1.ClusterOperator{}, &configv1.ClusterOperator{}
	if err := convert(it.manifest, wanted); err != nil {
		return fault{err}
	}
	if err := convert(live, reported); err != nil {
		return err
	}

	err = judgeOperator(wanted, reported, p.mode)
	p.worker.noteOperator(p.job, it.key.Name, err == nil)
	return err
}

// mergeOperator writes the metadata of the manifest.
func (p *pass) mergeOperator(ctx context.Context, it *item, live *unstructured.Unstructured) error {
	wanted, _, err := p.wanted(it)
	if err != nil {
		return err
	}

	merged, differs := merge.Merge(live, wanted)
	if !differs {
		return nil
	}

	return p.worker.client.Update(ctx, merged.DeepCopy(), client.FieldOwner(fieldManager))
}

func convert(u *unstructured.Unstructured, into any) error {
	return runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, into)
}

// judgeOperator tells what keeps a ClusterOperator from being as the manifest says. It does
// not look at Progressing: an operator that is at its version may have other work.
func judgeOperator(wanted, reported *configv1.ClusterOperator, mode release.Mode) error {
	name := wanted.Name
	problem := func(reason string, effect Effect, text string) error {
		return &Error{Reason: reason, Effect: effect, Message: fmt.Sprintf("Cluster operator %s %s", name, text), Names: []string{name}}
	}
	if len(wanted.Status.Versions) == 0 {
		return problem(ReasonOperatorNoVersions, EffectFail, "does not declare expected versions")
	}
	if statusOf(reported, configv1.OperatorAvailable) != metav1.ConditionTrue {
		return problem(ReasonOperatorNotAvailable, EffectFail, "is not available")
	}

	isInitial := mode == release.Initializing
	if statusOf(reported, configv1.OperatorDegraded) != metav1.ConditionFalse {
		if isInitial {
			return problem(ReasonOperatorDegraded, EffectReport, "is degraded")
		}
		return problem(ReasonOperatorDegraded, EffectFailAfterInterval, "is degraded")
	}

	for _, version := range wanted.Status.Versions {
		if !isInitial && versionOf(reported, version.Name) != version.Version {
			return problem(ReasonOperatorUpdating, EffectNone, "is updating versions")
		}
	}

	return nil
}

func statusOf(operator *configv1.ClusterOperator, condition string) metav1.ConditionStatus {
	for _, c := range operator.Status.Conditions {
		if c.Type == condition {
			return c.Status
		}
	}
	return ""
}

func versionOf(operator *configv1.ClusterOperator, name string) string {
	for _, version := range operator.Status.Versions {
		if version.Name == name {
			return version.Version
		}
	}
	return ""
}

// watchOperators makes a change of what is awaited of a ClusterOperator wake the Worker.
func (w *Worker) watchOperators(ctx context.Context) error {
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
			if ok && both && isAwaited(was, is) {
				signal(w.operators)
			}
		},
		AddFunc: func(any) { signal(w.operators) },
	})
	if err != nil {
		return fmt.Errorf("watching ClusterOperators: %w", err)
	}

	context.AfterFunc(ctx, func() {
		if err := informer.RemoveEventHandler(registration); err != nil && !errors.Is(err, context.Canceled) {
			log.FromContext(ctx).V(1).Info("the watch of ClusterOperators did not end", "error", err.Error())
		}
	})
	return nil
}

// isAwaited reports whether a ClusterOperator changed in what a pass waits for.
func isAwaited(before, after *configv1.ClusterOperator) bool {
	return versionOf(before, versionOfOperator) != versionOf(after, versionOfOperator) ||
		statusOf(before, configv1.OperatorAvailable) != statusOf(after, configv1.OperatorAvailable) ||
		statusOf(before, configv1.OperatorDegraded) != statusOf(after, configv1.OperatorDegraded)
}
