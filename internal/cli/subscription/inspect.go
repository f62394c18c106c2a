package subscription

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/action/subscription"
	"github.com/mainstay-dev/mainstay/internal/cli/kube"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
	"github.com/mainstay-dev/mainstay/internal/excerpt"
)

func newListCommand(session *kube.Session) *cobra.Command {
	var (
		namespace kube.NamespaceFlag
		all       bool
		out       terminal.Output
	)

	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls", "get"},
		Short:   "List the Subscriptions of a namespace",
		Long: `List the Subscriptions of a namespace with their operators and their status: Ready, Degraded,
Installing, Updating, AwaitingApproval, Failed, Removing or Unknown. A Subscription is Ready only if
its operator runs. For every other one, the message states the reason.`,
		Example: `  mainstay subscription list -n argocd
  mainstay subscription list -A -o wide`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := session.NewClient(cmd.ErrOrStderr())
			if err != nil {
				return err
			}

			list := subscription.List{Client: c}
			if !all {
				if list.Namespace, err = namespace.Namespace(session); err != nil {
					return err
				}
			}

			summaries, err := list.Run(cmd.Context())
			if err != nil {
				return err
			}

			return printSummaries(cmd, session, &out, summaries, all)
		},
	}

	namespace.AddFlag(cmd, session, "namespace of the Subscriptions")
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "list the Subscriptions of all namespaces")
	out.AddFlag(cmd, terminal.FormatJSON, terminal.FormatYAML, terminal.FormatWide, terminal.FormatName)

	return cmd
}

// maxMessageBytes is the length of a message in a row; -o wide prints all of it.
const maxMessageBytes = 100

func printSummaries(cmd *cobra.Command, session *kube.Session, out *terminal.Output, summaries []subscription.Summary, all bool) error {
	wide := out.Format == terminal.FormatWide
	if out.Format != "" && !wide {
		var objects []client.Object
		for _, s := range summaries {
			objects = append(objects, kube.SetGroupVersionKind(s.Subscription, v1alpha1.GroupVersion, v1alpha1.SubscriptionKind))
		}
		return kube.PrintObjects(cmd.OutOrStdout(), out.Format, objects, true)
	}

	if len(summaries) == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "No Subscriptions found.")
		return nil
	}

	headers := []string{"NAME", "OPERATOR", "CHANNEL", "STATUS", "AGE"}
	if all {
		headers = append([]string{"NAMESPACE"}, headers...)
	}
	if wide {
		headers = append(headers, "PACKAGE", "CATALOG", "APPROVAL")
	}

	headers = append(headers, "MESSAGE")
	var rows [][]string
	for i := range summaries {
		rows = append(rows, formatRow(session, &summaries[i], wide, all))
	}

	return terminal.PrintTable(cmd.OutOrStdout(), headers, rows)
}

func formatRow(session *kube.Session, s *subscription.Summary, wide, all bool) []string {
	sub := s.Subscription
	var row []string
	if all {
		row = append(row, sub.Namespace)
	}

	row = append(row, sub.Name, sub.Status.InstalledCSV, sub.Spec.Channel, string(s.State), session.FormatAge(&sub.CreationTimestamp))
	if !wide {
		return append(row, excerpt.Line(s.Message, maxMessageBytes))
	}

	approval := sub.Spec.InstallPlanApproval
	if approval == "" {
		approval = v1alpha1.ApprovalAutomatic
	}
	return append(row, sub.Spec.Package, sub.Spec.CatalogSourceNamespace+"/"+sub.Spec.CatalogSource, string(approval), s.Message)
}

func newStatusCommand(session *kube.Session) *cobra.Command {
	t := target{session: session}
	var out terminal.Output
	cmd := &cobra.Command{
		Use:   "status NAME",
		Short: "Show a Subscription with its InstallPlan, its operator and the Deployments",
		Long: `Show a Subscription as a tree: its state and conditions, the InstallPlan, the ClusterServiceVersion
with the requirements that the cluster does not meet, and the Deployments of the operator.`,
		Example: `  mainstay subscription status argocd-operator -n argocd
  mainstay subscription status argocd-operator -n argocd -o json`,
		Args: terminal.ExactArgs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, namespace, err := t.connectToCluster(cmd)
			if err != nil {
				return err
			}

			tree, err := (&subscription.Status{Client: c, Namespace: namespace, Name: args[0]}).Run(cmd.Context())
			if err != nil {
				return err
			}
			if out.Format != "" {
				return terminal.PrintValue(cmd.OutOrStdout(), out.Format, tree)
			}

			newTree(tree).Write(cmd.OutOrStdout())
			return nil
		},
	}

	t.addFlags(cmd)
	out.AddFlag(cmd, terminal.FormatJSON, terminal.FormatYAML)

	return cmd
}

// newTree returns the state of a Subscription as lines.
func newTree(s *subscription.Tree) terminal.TreeNode {
	root := terminal.TreeNode{Text: fmt.Sprintf("subscription/%s  package %s, catalog %s, %s", s.Name, s.Package, s.Catalog, s.State)}
	if s.Channel != "" {
		root.Text = fmt.Sprintf("subscription/%s  package %s, channel %s, catalog %s, %s", s.Name, s.Package, s.Channel, s.Catalog, s.State)
	}
	if s.Message != "" {
		root.Children = append(root.Children, terminal.TreeNode{Text: s.Message})
	}

	for _, c := range s.Conditions {
		root.Children = append(root.Children, terminal.TreeNode{Text: strings.TrimSuffix(fmt.Sprintf("%s: %s", c.Type, terminal.CollapseWhitespace(c.Message)), ": ")})
	}

	if p := s.Plan; p != nil {
		node := terminal.TreeNode{Text: fmt.Sprintf("installplan/%s  %s, %d of %d objects", p.Name, p.Phase, p.Done, p.Steps)}
		for _, name := range p.Installs {
			node.Children = append(node.Children, terminal.TreeNode{Text: "installs " + name})
		}
		root.Children = append(root.Children, node)
	}

	if s.Operator != nil {
		root.Children = append(root.Children, newOperatorNode(s.Operator))
	}

	return root
}

func newOperatorNode(o *subscription.OperatorState) terminal.TreeNode {
	node := terminal.TreeNode{Text: fmt.Sprintf("clusterserviceversion/%s  %s", o.Name, o.Phase)}
	if o.Message != "" && o.Phase != v1alpha1.CSVPhaseSucceeded {
		node.Text += ": " + terminal.CollapseWhitespace(o.Message)
	}

	for _, unmet := range o.Unmet {
		node.Children = append(node.Children, terminal.TreeNode{Text: "missing: " + terminal.CollapseWhitespace(unmet)})
	}

	for _, d := range o.Deployments {
		text := fmt.Sprintf("deployment/%s  %d of %d ready", d.Name, d.Ready, d.Want)
		if d.Message != "" {
			text += ": " + terminal.CollapseWhitespace(d.Message)
		}
		node.Children = append(node.Children, terminal.TreeNode{Text: text})
	}

	return node
}

func newExplainCommand(session *kube.Session) *cobra.Command {
	t := target{session: session}
	var out terminal.Output
	cmd := &cobra.Command{
		Use:   "explain NAME",
		Short: "Explain the state of a Subscription and what to do about it",
		Long: `Explain the state of a Subscription and what to do about it. The explanation is derived from the
OperatorGroups of the namespace, the catalog, the conditions of the Subscription, the InstallPlan and
the ClusterServiceVersion.`,
		Example: `  mainstay subscription explain argocd-operator -n argocd
  mainstay subscription explain argocd-operator -n argocd -o json`,
		Args: terminal.ExactArgs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, namespace, err := t.connectToCluster(cmd)
			if err != nil {
				return err
			}

			explanation, err := (&subscription.Explain{Client: c, Namespace: namespace, Name: args[0]}).Run(cmd.Context())
			if err != nil {
				return err
			}
			if out.Format != "" {
				return terminal.PrintValue(cmd.OutOrStdout(), out.Format, explanation)
			}

			kube.PrintExplanation(cmd.OutOrStdout(), "subscription", explanation)
			return nil
		},
	}

	t.addFlags(cmd)
	out.AddFlag(cmd, terminal.FormatJSON, terminal.FormatYAML)

	return cmd
}

func newGraphCommand(session *kube.Session) *cobra.Command {
	t := target{session: session}
	var (
		catalog string
		out     terminal.Output
	)

	cmd := &cobra.Command{
		Use:   "graph NAME",
		Short: "Show the channels and versions of a Subscription or a package",
		Long: `Show the channels and versions of a Subscription or a package, the newest version first. The installed
version and the head of each channel, which new Subscriptions install, are marked. Upgrade edges are
part of the catalog; 'opm alpha render-graph' draws them.`,
		Example: `  mainstay subscription graph argocd-operator -n argocd
  mainstay subscription graph argocd-operator -n argocd --catalog olm/operatorhubio-catalog -o json`,
		Args: terminal.ExactArgs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, namespace, err := t.connectToCluster(cmd)
			if err != nil {
				return err
			}

			versions, err := (&subscription.Graph{Client: c, Namespace: namespace, Name: args[0], Catalog: catalog}).Run(cmd.Context())
			if err != nil {
				return err
			}
			if out.Format != "" {
				return terminal.PrintValue(cmd.OutOrStdout(), out.Format, versions)
			}

			printVersions(cmd.OutOrStdout(), versions)
			return nil
		},
	}

	t.addFlags(cmd)
	cmd.Flags().StringVar(&catalog, "catalog", "", "catalog, as NAME or NAMESPACE/NAME (default: that of the Subscription, or the only one with the package)")
	out.AddFlag(cmd, terminal.FormatJSON, terminal.FormatYAML)

	return cmd
}

func printVersions(w io.Writer, v *subscription.Versions) {
	root := terminal.TreeNode{Text: fmt.Sprintf("package %s, catalog %s", v.Package, v.Catalog)}
	for _, c := range v.Channels {
		node := terminal.TreeNode{Text: "channel " + c.Name + formatMarks(c.Deprecated, map[string]bool{"default": c.Default, "subscribed": c.Subscribed}, "default", "subscribed")}
		for _, e := range c.Versions {
			text := e.Name
			if e.Version != "" && !strings.Contains(e.Name, e.Version) {
				text += " " + e.Version
			}
			node.Children = append(node.Children, terminal.TreeNode{Text: text + formatMarks(e.Deprecated, map[string]bool{"head": e.Head, "installed": e.Installed}, "installed", "head")})
		}
		root.Children = append(root.Children, node)
	}

	root.Write(w)
}

// formatMarks returns the marks that are set, in the given order, and a deprecation.
func formatMarks(deprecated string, isSet map[string]bool, order ...string) string {
	var marks []string
	for _, mark := range order {
		if isSet[mark] {
			marks = append(marks, mark)
		}
	}
	if deprecated != "" {
		marks = append(marks, "deprecated: "+terminal.CollapseWhitespace(deprecated))
	}
	if len(marks) == 0 {
		return ""
	}
	return "  (" + strings.Join(marks, ", ") + ")"
}

func printPlan(w io.Writer, p *subscription.Plan) {
	fmt.Fprintf(w, "installplan/%s installs %s\n", p.Name, strings.Join(p.Operators, ", "))
	fmt.Fprintf(w, "  Subscriptions that it fulfills: %s\n", strings.Join(p.Subscriptions, ", "))
	if len(p.CRDs) > 0 {
		fmt.Fprintf(w, "  CRDs that it creates or changes: %s\n", strings.Join(p.CRDs, ", "))
	}

	var counts []string
	for _, o := range p.Objects {
		counts = append(counts, fmt.Sprintf("%d %s", o.Count, o.Kind))
	}
	if len(counts) > 0 {
		fmt.Fprintf(w, "  other objects: %s\n", strings.Join(counts, ", "))
	}
}
