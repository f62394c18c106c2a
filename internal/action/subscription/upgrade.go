package subscription

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/action/report"
)

// Upgrade changes what a Subscription follows.
type Upgrade struct {
	Client   client.Client
	Progress report.Progress

	// Namespace and Name identify the Subscription. Name may also be the name of its package.
	Namespace, Name string
	// Channel is the new channel. Empty keeps it.
	Channel string
	// Approval is the new approval of upgrades. Empty keeps it.
	Approval v1alpha1.Approval
	// Config is the new configuration of the operator's pods. Nil keeps it, and an empty one removes it.
	Config *v1alpha1.SubscriptionConfig
	// Generation is the generation of the Subscription that the change was chosen for. Another generation
	// is refused. Zero means any.
	Generation int64
	// Wait, if not nil, makes Run wait until the newest version runs.
	Wait *action.Wait
}

// Validate returns an error if no change is requested.
func (a *Upgrade) Validate() error {
	if a.Channel == "" && a.Approval == "" && a.Config == nil {
		return &report.Error{Object: describeSubscription(a.Namespace, a.Name), Err: errors.New("nothing to change"),
			Advice: "specify --channel or --approval; upgrades within the channel happen automatically, or once 'mainstay subscription approve' approves them"}
	}
	return nil
}

// Run changes the Subscription and waits if requested. It returns the current Subscription and
// whether it was changed, also together with an error of the wait.
func (a *Upgrade) Run(ctx context.Context) (sub *v1alpha1.Subscription, changed bool, err error) {
	if err := a.Validate(); err != nil {
		return nil, false, err
	}

	sub, err = getSubscription(ctx, a.Client, a.Namespace, a.Name)
	if err != nil {
		return nil, false, err
	}

	object := describeSubscription(a.Namespace, sub.Name)
	if err := action.CheckGeneration(object, sub, a.Generation); err != nil {
		return nil, false, err
	}
	facts, err := readFacts(ctx, a.Client, sub)
	if err != nil {
		return nil, false, action.NewServerError(object, err)
	}
	if a.Channel != "" && facts.Package != nil {
		if _, err := channelOf(facts.Package, a.Channel); err != nil {
			return nil, false, err
		}
	}

	before := sub.DeepCopy()
	if a.Channel != "" {
		sub.Spec.Channel = a.Channel
	}
	if a.Approval != "" {
		sub.Spec.InstallPlanApproval = a.Approval
	}
	if a.Config != nil {
		sub.Spec.Config = a.Config
		if equality.Semantic.DeepEqual(a.Config, &v1alpha1.SubscriptionConfig{}) {
			sub.Spec.Config = nil
		}
	}
	// The patch has only these fields. OLM may change the labels and the status meanwhile.
	if err := a.Client.Patch(ctx, sub, client.MergeFrom(before)); err != nil {
		return nil, false, action.NewServerError(object, err)
	}

	changed = sub.Generation != before.Generation
	if a.Wait == nil {
		return sub, changed, nil
	}

	return sub, changed, waitUntilReady(ctx, a.Client, a.Wait, a.Progress, sub)
}
