package rollout

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/mainstay-dev/mainstay/internal/node/pools"
)

// kindSource watches a kind.
func kindSource[T client.Object](mgr ctrl.Manager, object T, h handler.EventHandler, predicates ...predicate.Predicate) source.Source {
	return source.Kind[client.Object](mgr.GetCache(), object, h, predicates...)
}

// nodeDecisionChanges passes only changes of a node that matter for decisions, because kubelets write far more often.
var nodeDecisionChanges = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*corev1.Node)
		after, ok2 := e.ObjectNew.(*corev1.Node)
		return !ok || !ok2 ||
			(pools.NotReady(before) == "") != (pools.NotReady(after) == "") ||
			!equality.Semantic.DeepEqual(before.Annotations, after.Annotations) ||
			!equality.Semantic.DeepEqual(before.Labels, after.Labels) ||
			!equality.Semantic.DeepEqual(before.Spec.Taints, after.Spec.Taints)
	},
}
