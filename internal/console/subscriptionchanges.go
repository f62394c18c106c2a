package console

import (
	"context"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/action/subscription"
	"github.com/mainstay-dev/mainstay/internal/console/session"
)

// ApprovalPreview is what the approval of an InstallPlan would do.
type ApprovalPreview struct {
	Plan    *subscription.Plan        `json:"plan"`
	Changes *subscription.PlanChanges `json:"changes"`
}

// SubscriptionRef selects a Subscription. It is exported, because huma reads only exported embedded structs.
type SubscriptionRef struct {
	Namespace string `path:"namespace" maxLength:"63" pattern:"^[a-z0-9-]+$"`
	Name      string `path:"name" maxLength:"253" pattern:"^[a-z0-9][a-z0-9.-]*$"`
}

type approvalInput struct {
	SubscriptionRef

	Body struct {
		// Plan and ResourceVersion identify the InstallPlan that was previewed.
		Plan            string `json:"plan" maxLength:"253"`
		ResourceVersion string `json:"resourceVersion" maxLength:"64"`
	}
}

type subscriptionChangeInput struct {
	SubscriptionRef

	Body struct {
		// Generation is the generation of the Subscription that the change was chosen for.
		Generation int64  `json:"generation"`
		Channel    string `json:"channel,omitempty" maxLength:"253" doc:"Empty keeps the channel."`
		Approval   string `json:"approval,omitempty" enum:"Automatic,Manual" doc:"Empty keeps the approval."`
		// Config is the whole configuration of the operator's pods.
		Config map[string]any `json:"config,omitempty" doc:"spec.config of the Subscription. An empty object removes it."`
	}
}

// newUpgrade returns the change of a Subscription. A configuration with a field that the API does not have is an error.
func (i *subscriptionChangeInput) newUpgrade(user *session.Session) (*subscription.Upgrade, error) {
	upgrade := &subscription.Upgrade{
		Client: user.Client, Namespace: i.Namespace, Name: i.Name, Channel: i.Body.Channel,
		Approval: v1alpha1.Approval(i.Body.Approval), Generation: i.Body.Generation,
	}
	if i.Body.Config == nil {
		return upgrade, nil
	}

	upgrade.Config = &v1alpha1.SubscriptionConfig{}
	return upgrade, decodeStrictly("configuration", i.Body.Config, upgrade.Config)
}

// SubscriptionRemoval is what the removal of an operator would do.
type SubscriptionRemoval struct {
	Subscription string `json:"subscription"`
	// CSV is the operator that stops. It is empty if none is installed.
	CSV string `json:"csv,omitempty"`
	// Replaced are the versions that the operator is just replacing.
	Replaced []string `json:"replaced,omitempty"`
	// CRDs are those that the operator owns. They stay unless their removal is requested.
	CRDs []action.CRDRemoval `json:"crds,omitempty"`
	// RequiredBy are the operators that require one of the CRDs.
	RequiredBy []string `json:"requiredBy,omitempty"`
	// Message is the text of the author of the operator.
	Message string `json:"message,omitempty"`
	// HidesOperands means that the author asks not to list custom resources.
	HidesOperands bool `json:"hidesOperands,omitempty"`
}

type subscriptionUninstallInput struct {
	SubscriptionRef

	Body struct {
		RemovalConsent

		// KeepOperator removes only the Subscription: the operator keeps running and is not upgraded.
		KeepOperator bool `json:"keepOperator,omitempty"`
		DeleteCRDs   bool `json:"deleteCRDs,omitempty"`
	}
}

// registerSubscriptionChanges adds the operations that approve, change and remove operators.
func registerSubscriptionChanges(api huma.API) {
	const path = "/namespaces/{namespace}/subscriptions/{name}"
	get(api, "previewApproval", path+"/approval", "What the approval of the waiting InstallPlan would do", previewApproval)
	registerPost(api, "approveInstallPlan", path+"/approvals", "Approve an InstallPlan", approvePlan)
	registerPost(api, "changeSubscription", path+"/upgrades", "Change channel, approval or configuration of an operator", changeSubscription)
	get(api, "previewSubscriptionUninstall", path+"/removal", "What is removed with an operator", previewSubscriptionRemoval)
	// Custom resources are removed first, which their finalizers can delay.
	postPlan(api, "uninstallSubscription", path+"/uninstalls", "Uninstall an operator", uninstallSubscription)
	get(api, "listSubscriptionVersions", path+"/versions", "The versions that an operator can have",
		func(ctx context.Context, user *session.Session, input *namespacedNameInput) (*subscription.Versions, error) {
			return (&subscription.Graph{Client: user.Client, Namespace: input.Namespace, Name: input.Name}).Run(ctx)
		})
}

func changeSubscription(ctx context.Context, user *session.Session, input *subscriptionChangeInput) (Written, error) {
	upgrade, err := input.newUpgrade(user)
	if err != nil {
		return Written{}, err
	}
	_, _, err = upgrade.Run(ctx)
	return Written{Name: input.Name}, err
}

func previewApproval(ctx context.Context, user *session.Session, input *namespacedNameInput) (ApprovalPreview, error) {
	approve := &subscription.Approve{Client: user.Client, Namespace: input.Namespace, Name: input.Name}
	plan, err := approve.Preview(ctx)
	if err != nil {
		return ApprovalPreview{}, err
	}
	changes, err := approve.Compare(ctx, plan)
	return ApprovalPreview{Plan: plan, Changes: changes}, err
}

// approvePlan approves the InstallPlan that the user saw, and no other.
func approvePlan(ctx context.Context, user *session.Session, input *approvalInput) (Written, error) {
	r := &recorder{}
	approve := &subscription.Approve{Client: user.Client, Progress: r, Namespace: input.Namespace, Name: input.Name}
	plan, err := approve.Preview(ctx)
	if err != nil {
		return Written{}, err
	}
	if plan.Name != input.Body.Plan || plan.ResourceVersion != input.Body.ResourceVersion {
		return Written{}, newProblem(http.StatusConflict, fmt.Sprintf("The Subscription waits for another plan meanwhile, or InstallPlan %s has changed.", plan.Name), "Look at the plan again.")
	}
	_, err = approve.Run(ctx, plan)
	return Written{Name: plan.Name, Messages: r.messages}, err
}

// Annotations by which the author of an operator changes how it is uninstalled.
const (
	annotationUninstallMessage = "operator.openshift.io/uninstall-message"
	annotationHideOperands     = "console.openshift.io/disable-operand-delete"
)

func previewSubscriptionRemoval(ctx context.Context, user *session.Session, input *namespacedNameInput) (SubscriptionRemoval, error) {
	found, err := (&subscription.Uninstall{Client: user.Client, Namespace: input.Namespace, Name: input.Name}).Preview(ctx)
	if err != nil {
		return SubscriptionRemoval{}, err
	}

	removal := SubscriptionRemoval{Subscription: found.Subscription.Name, CRDs: found.CRDs, RequiredBy: found.RequiredBy}
	if csv := found.CSV; csv != nil {
		removal.CSV, removal.Message = csv.Name, csv.Annotations[annotationUninstallMessage]
		removal.HidesOperands = csv.Annotations[annotationHideOperands] == "true"
	}
	for _, replaced := range found.Replaced {
		removal.Replaced = append(removal.Replaced, replaced.Name)
	}
	return removal, nil
}

func uninstallSubscription(ctx context.Context, user *session.Session, input *subscriptionUninstallInput) (Written, error) {
	r, body := &recorder{}, &input.Body
	uninstall := &subscription.Uninstall{
		Client: user.Client, Progress: r, Namespace: input.Namespace, Name: input.Name,
		KeepOperator: body.KeepOperator, DeleteCRDs: body.DeleteCRDs, DeleteCustomResources: body.DeleteCustomResources,
	}
	removal, err := uninstall.Preview(ctx)
	if err != nil {
		return Written{}, err
	}
	if err := body.checkConsent(body.DeleteCRDs && len(removal.CRDs) > 0, removal.Subscription.Name); err != nil {
		return Written{}, err
	}
	err = uninstall.Run(ctx, removal)
	return Written{Name: removal.Subscription.Name, Messages: r.messages}, err
}
