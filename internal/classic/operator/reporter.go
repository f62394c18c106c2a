package operator

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// +kubebuilder:rbac:groups=operators.coreos.com,resources=operators,verbs=list;watch;create
// +kubebuilder:rbac:groups=operators.coreos.com,resources=operators/status,verbs=patch

// The metadata of all objects that can be components, and the conditions of components.

// +kubebuilder:rbac:groups="",resources=configmaps;namespaces;secrets;serviceaccounts;services,verbs=list;watch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch
// +kubebuilder:rbac:groups=apiregistration.k8s.io,resources=apiservices,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch
// +kubebuilder:rbac:groups=operators.coreos.com,resources=clusterserviceversions;installplans;operatorconditions;subscriptions,verbs=get;list;watch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterrolebindings;clusterroles;rolebindings;roles,verbs=list;watch

// reporter creates Operators and lists their components in the status.
type reporter struct {
	client client.Client
	// subscriptions has the Subscriptions, see keepRelations.
	subscriptions client.Reader
	components    *componentReader
}

// operatorFacts are the facts that an Operator depends on.
type operatorFacts struct {
	name string
	// operator is nil if it does not exist.
	operator *operatorsv1.Operator
	// isSubscribed is true if a Subscription names the package of the Operator.
	isSubscribed bool
	components   []component
}

// operatorDecision is what must be done with an Operator.
type operatorDecision struct {
	// create is true if the Operator must be created.
	create bool
	// report is true if the status must be patched.
	report bool
	status operatorsv1.OperatorStatus
}

func (r *reporter) newReconciler() *reconcile.KeyReconciler[operatorFacts, operatorDecision] {
	return &reconcile.KeyReconciler[operatorFacts, operatorDecision]{Gather: r.gatherFacts, Decide: decideOperator, Execute: r.executeDecision}
}

// gatherFacts reads the facts that an Operator depends on.
func (r *reporter) gatherFacts(ctx context.Context, key types.NamespacedName) (operatorFacts, error) {
	facts := operatorFacts{name: key.Name}
	operator := &operatorsv1.Operator{}
	switch err := r.client.Get(ctx, key, operator); {
	case err == nil:
		facts.operator = operator
	case client.IgnoreNotFound(err) != nil:
		return facts, fmt.Errorf("reading Operator %q: %w", key.Name, err)
	}

	var list v1alpha1.SubscriptionList
	if err := r.subscriptions.List(ctx, &list); err != nil {
		return facts, fmt.Errorf("listing the Subscriptions: %w", err)
	}
	for i := range list.Items {
		sub := &list.Items[i]
		facts.isSubscribed = facts.isSubscribed || sub.DeletionTimestamp.IsZero() && operatorOfSubscription(sub) == key.Name
	}

	label, ok := csvinfo.ComponentKey(key.Name)
	if !ok {
		return facts, nil // Nothing can have such a label.
	}
	var err error
	facts.components, err = r.components.readComponents(ctx, key.Name, label)

	return facts, err
}

// decideOperator returns what must be done with an Operator. Users delete Operators; while a
// Subscription or components exist, they are created again.
func decideOperator(f operatorFacts) operatorDecision {
	exists := f.operator != nil
	create := !exists && (f.isSubscribed || len(f.components) > 0)
	return operatorDecision{create: create, report: exists || create, status: newStatus(f.name, f.components)}
}

// executeDecision creates an Operator and patches its status.
func (r *reporter) executeDecision(ctx context.Context, f operatorFacts, d operatorDecision) error {
	operator := f.operator
	if !d.report {
		return nil
	}
	if d.create {
		operator = &operatorsv1.Operator{ObjectMeta: metav1.ObjectMeta{Name: f.name}}
		if err := r.client.Create(ctx, operator); err != nil {
			return fmt.Errorf("creating Operator %q: %w", f.name, err)
		}
	}

	before := operator.DeepCopy()
	operator.Status = d.status

	return reconcile.PatchStatus(ctx, r.client, operator, before)
}

// operatorOfSubscription returns the name of the Operator of a Subscription.
func operatorOfSubscription(sub *v1alpha1.Subscription) string {
	return csvinfo.OperatorName(sub.Spec.Package, sub.Namespace)
}
