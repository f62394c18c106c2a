package console

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/console/session"
)

// ExtensionRef selects an extension. It is exported, because huma reads only exported embedded structs.
type ExtensionRef struct {
	Name string `path:"name" maxLength:"253" pattern:"^[a-z0-9][a-z0-9.-]*$"`
}

// ExtensionChange is another choice for an extension. A field that is not set keeps its value.
type ExtensionChange struct {
	// Generation is the generation of the extension that the change was chosen for.
	Generation       int64     `json:"generation"`
	Version          *string   `json:"version,omitempty" maxLength:"64" doc:"A version or a range. Empty allows every version."`
	Channels         *[]string `json:"channels,omitempty" maxItems:"256" doc:"Empty allows every channel."`
	SelfCertified    *bool     `json:"selfCertified,omitempty" doc:"Allows updates outside of the upgrade edges of the catalog."`
	CRDUpgradeSafety *string   `json:"crdUpgradeSafety,omitempty" enum:"Strict,None"`
	// Config is the whole configuration of the bundle.
	Config map[string]any `json:"config,omitempty" doc:"Configuration of the bundle. An empty object removes it."`
}

type extensionChangeInput struct {
	ExtensionRef

	Body ExtensionChange
}

// newUpgrade returns the upgrade for a change.
func (i *extensionChangeInput) newUpgrade(user *session.Session, r *recorder) *action.ExtensionUpgrade {
	upgrade := &action.ExtensionUpgrade{
		Client: user.Client, Progress: r, Name: i.Name, Generation: i.Body.Generation, Check: planCheckOf(user),
		Choice: action.Choice{
			Version: i.Body.Version, Channels: i.Body.Channels, SelfCertified: i.Body.SelfCertified,
			CRDUpgradeSafety: (*olmv1.CRDUpgradeSafetyEnforcement)(i.Body.CRDUpgradeSafety),
		},
	}
	if i.Body.Config != nil {
		upgrade.Choice.Config = &i.Body.Config
	}
	return upgrade
}

type extensionRollbackInput struct {
	ExtensionRef

	Body struct {
		// Generation is the generation of the extension that the rollback was chosen for.
		Generation int64 `json:"generation"`
		// Revision is zero for the last successful revision with another bundle.
		Revision int64 `json:"revision,omitempty" minimum:"0"`
		// CRDUpgradeSafety is None if changes of CRDs are not checked, now and later.
		CRDUpgradeSafety *string `json:"crdUpgradeSafety,omitempty" enum:"Strict,None"`
	}
}

func (i *extensionRollbackInput) newRollback(user *session.Session, r *recorder) *action.ExtensionRollback {
	return &action.ExtensionRollback{
		Client: user.Client, Progress: r, Name: i.Name, Revision: i.Body.Revision, Generation: i.Body.Generation, Check: planCheckOf(user), Cluster: clusterOf(user),
		CRDUpgradeSafety: (*olmv1.CRDUpgradeSafetyEnforcement)(i.Body.CRDUpgradeSafety),
	}
}

// RollbackPreview is what a rollback would do.
type RollbackPreview struct {
	// To is the revision whose bundle is installed again.
	To action.RevisionRecord `json:"to"`
	PlanPreview
}

// ExtensionRemovalPreview is what the removal of an extension would do.
type ExtensionRemovalPreview struct {
	action.ExtensionRemoval

	// Refusal states why the removal needs a consent.
	Refusal *Refusal `json:"refusal,omitempty"`
}

// RemovalConsent states what is removed together with an extension or an operator.
type RemovalConsent struct {
	// DeleteCustomResources is the consent to delete custom resources. It needs a Confirmation.
	DeleteCustomResources bool `json:"deleteCustomResources,omitempty"`
	// Confirmation is the name of what is removed, as the user typed it.
	Confirmation string `json:"confirmation,omitempty" maxLength:"253"`
}

// checkConsent returns a problem if data would be deleted without the typed name.
func (c *RemovalConsent) checkConsent(losesData bool, name string) error {
	if !losesData || c.Confirmation == name {
		return nil
	}
	return newProblem(http.StatusUnprocessableEntity, "Nothing was removed, because data would be deleted and the name was not typed as a confirmation.", "Type the name "+name+".")
}

type extensionRemovalInput struct {
	ExtensionRef

	KeepCRDs bool `query:"keepCRDs"`
}

type extensionUninstallInput struct {
	ExtensionRef

	Body struct {
		RemovalConsent

		// KeepCRDs keeps the CRDs and all custom resources.
		KeepCRDs bool `json:"keepCRDs,omitempty"`
	}
}

// registerExtensionChanges adds the operations that change and remove extensions.
func registerExtensionChanges(api huma.API) {
	postPlan(api, "previewExtensionUpgrade", "/extensions/{name}/upgrade-previews", "What a change of an extension would do", previewUpgrade)
	postPlan(api, "upgradeExtension", "/extensions/{name}/upgrades", "Change version, channels or configuration of an extension",
		func(ctx context.Context, user *session.Session, input *extensionChangeInput) (Written, error) {
			r := &recorder{}
			_, _, err := input.newUpgrade(user, r).Run(ctx)
			return Written{Name: input.Name, Messages: r.messages}, err
		})
	postPlan(api, "previewExtensionRollback", "/extensions/{name}/rollback-previews", "What a rollback of an extension would do", previewRollback)
	postPlan(api, "rollBackExtension", "/extensions/{name}/rollbacks", "Roll an extension back",
		func(ctx context.Context, user *session.Session, input *extensionRollbackInput) (Written, error) {
			r := &recorder{}
			result, err := input.newRollback(user, r).Run(ctx)
			if err == nil {
				r.Done("to follow the catalog again, run: " + result.Follow)
			}
			return Written{Name: input.Name, Messages: r.messages}, err
		})
	get(api, "previewExtensionUninstall", "/extensions/{name}/removal", "What is removed with an extension", previewUninstall)
	registerPost(api, "uninstallExtension", "/extensions/{name}/uninstalls", "Uninstall an extension", uninstallExtension)
}

func previewUpgrade(ctx context.Context, user *session.Session, input *extensionChangeInput) (PlanPreview, error) {
	r := &recorder{}
	preview, err := input.newUpgrade(user, r).Preview(ctx)
	if err != nil {
		return PlanPreview{}, err
	}
	return newPlanPreview(preview, r)
}

func previewRollback(ctx context.Context, user *session.Session, input *extensionRollbackInput) (RollbackPreview, error) {
	r := &recorder{}
	to, preview, err := input.newRollback(user, r).Preview(ctx)
	if err != nil {
		return RollbackPreview{}, err
	}
	result := RollbackPreview{To: to}
	result.PlanPreview, err = newPlanPreview(preview, r)
	return result, err
}

func previewUninstall(ctx context.Context, user *session.Session, input *extensionRemovalInput) (ExtensionRemovalPreview, error) {
	uninstall := &action.ExtensionUninstall{Client: user.Client, Names: []string{input.Name}, KeepCRDs: input.KeepCRDs}
	removals, err := uninstall.Preview(ctx)
	if err != nil {
		return ExtensionRemovalPreview{}, err
	}
	return ExtensionRemovalPreview{ExtensionRemoval: removals[0], Refusal: newRefusal(uninstall.Check(removals))}, nil
}

func uninstallExtension(ctx context.Context, user *session.Session, input *extensionUninstallInput) (Written, error) {
	r := &recorder{}
	uninstall := &action.ExtensionUninstall{
		Client: user.Client, Progress: r, Names: []string{input.Name}, KeepCRDs: input.Body.KeepCRDs, DeleteCustomResources: input.Body.DeleteCustomResources,
	}
	removals, err := uninstall.Preview(ctx)
	if err != nil {
		return Written{}, err
	}
	if err := input.Body.checkConsent(removals[0].LosesData(), input.Name); err != nil {
		return Written{}, err
	}
	return Written{Name: input.Name, Messages: r.messages}, uninstall.Run(ctx, removals)
}
