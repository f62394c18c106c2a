// Package subscription implements `mainstay subscription`, which manages the operators of OLM Classic.
package subscription

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/action/subscription"
	"github.com/mainstay-dev/mainstay/internal/cli/kube"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// resource is the resource of Subscriptions in the output of commands.
const resource = "subscription.operators.coreos.com"

// NewCommand returns the command `mainstay subscription`.
func NewCommand(session *kube.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "subscription",
		Aliases: []string{"subscriptions", "sub"},
		Short:   "Install, inspect, approve, upgrade and uninstall operators of OLM Classic",
		Args:    cobra.ArbitraryArgs,
		RunE:    terminal.RunGroup,
	}

	session.AddFlags(cmd)
	cmd.AddCommand(
		newInstallCommand(session), newListCommand(session), newStatusCommand(session), newExplainCommand(session),
		newGraphCommand(session), newApproveCommand(session), newUpgradeCommand(session), newUninstallCommand(session),
	)
	return cmd
}

// target is a command about one Subscription.
type target struct {
	session   *kube.Session
	namespace kube.NamespaceFlag
}

// addFlags adds the flag --namespace, and completes the first argument.
func (t *target) addFlags(cmd *cobra.Command) {
	t.namespace.AddFlag(cmd, t.session, "namespace of the Subscription")
	cmd.ValidArgsFunction = t.namespace.CompleteName(t.session, subscription.Names)
}

// connectToCluster returns a client and the namespace.
func (t *target) connectToCluster(cmd *cobra.Command) (client.Client, string, error) {
	c, err := t.session.NewClient(cmd.ErrOrStderr())
	if err != nil {
		return nil, "", err
	}
	namespace, err := t.namespace.Namespace(t.session)
	return c, namespace, err
}

// printChanged prints a Subscription after a change. If waiting failed with err, the Subscription is printed as well,
// because it was changed.
func printChanged(cmd *cobra.Command, out *terminal.Output, sub *v1alpha1.Subscription, done string, err error) error {
	if sub == nil {
		return err
	}

	kube.SetGroupVersionKind(sub, v1alpha1.GroupVersion, v1alpha1.SubscriptionKind)
	if out.Format != "" {
		return errors.Join(kube.PrintObjects(cmd.OutOrStdout(), out.Format, []client.Object{sub}, false), err)
	}

	fmt.Fprintln(cmd.OutOrStdout(), kube.ResourceName(sub), done)
	return err
}

// withInstalled appends the installed operator of a Subscription to what was done. It appends nothing if there is none, or
// if waiting failed with err.
func withInstalled(done string, sub *v1alpha1.Subscription, err error) string {
	if sub == nil || sub.Status.InstalledCSV == "" || err != nil {
		return done
	}
	return done + " (" + sub.Status.InstalledCSV + ")"
}
