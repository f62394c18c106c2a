package cli

import (
	"cmp"
	"errors"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/action/leastprivilege"
	"github.com/mainstay-dev/mainstay/internal/cli/opm"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

func (a *app) rbacCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rbac",
		Short: "Write the rights that extensions are installed with",
		Args:  cobra.ArbitraryArgs,
		RunE:  terminal.Group,
	}

	a.kube.bind(cmd)
	cmd.AddCommand(a.rbacGenerateCommand())
	return cmd
}

func (a *app) rbacGenerateCommand() *cobra.Command {
	var (
		generate        leastprivilege.Generate
		createNamespace bool
		certManager     bool
		out             terminal.Output
	)

	cmd := &cobra.Command{
		Use:   "generate PACKAGE",
		Short: "Write the least account that can install an extension",
		Long: `Write a ServiceAccount, and the roles and bindings that give it what it needs to install
one version of a package, to keep it as it is and to remove it: these rules, and none that
it could do without.

The bundle is the one that the extension would get: the highest that the flags allow of the
catalogs of the cluster, or of --catalog. With --bundle, or a --catalog that is a folder or
an image, no cluster is needed. Nothing is changed on a cluster.

The rules are those of one version. Before an update, write them anew for the next one,
with --update-from and the version that is installed: what only that one brought is removed
by the same account. The operator-controller refuses an update that lacks a rule, and says
which.`,
		Example: `  # Give an extension an account of its own, and install it as that
  mainstay rbac generate argocd-operator --version 0.6.0 --namespace argocd --create-namespace > installer.yaml
  kubectl apply -f installer.yaml
  mainstay extension install argocd-operator --version 0.6.0 --namespace argocd --service-account argocd-operator-installer

  # Write what an update needs
  mainstay rbac generate argocd-operator --version 0.7.0 --update-from 0.6.0 --namespace argocd

  # Look at a bundle without a cluster
  mainstay rbac generate --bundle ./bundle
  mainstay rbac generate argocd-operator --catalog quay.io/operatorhubio/catalog:latest`,
		Args:              terminal.TakesUpTo(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				generate.Package = args[0]
			} else if generate.Bundle == "" {
				return &terminal.UsageError{Err: errors.New("PACKAGE is missing, or --bundle")}
			}

			if cmd.Flags().Changed("cert-manager") {
				generate.CertManager = &certManager
			}
			generate.Cluster, generate.Progress = a.kube.Config, terminal.NewProgress(cmd.ErrOrStderr())
			generated, err := generate.Run(cmd.Context())
			if err != nil {
				return err
			}
			return printGenerated(cmd, out.Format, generated, createNamespace)
		},
	}

	flags := cmd.Flags()
	flags.StringVar(&generate.Version, "version", "", `version or range, as "1.4.0", "1.4.x" or ">=1.4, <2"; empty means every version`)
	flags.StringSliceVar(&generate.Channels, "channel", nil, "channel to choose from; may be repeated; empty means every channel")
	flags.StringVar(&generate.Catalog, "catalog", "", "name of a catalog of the cluster, or a folder, as ./catalog, or an image (default: all that the cluster serves)")
	flags.StringVar(&generate.Bundle, "bundle", "", "folder or image of the bundle, instead of a catalog")
	flags.StringSliceVar(&generate.UpdatesFrom, "update-from", nil, "version that may be installed before, or with --bundle its folder or image; may be repeated")
	flags.StringVar(&generate.Name, "name", "", "name of the ClusterExtension (default: that of the package)")
	flags.StringVarP(&generate.Namespace, "namespace", "n", "", "namespace for the account and the objects of the bundle (default: the name of the extension)")
	flags.BoolVar(&createNamespace, "create-namespace", false, "write the namespace too")
	flags.StringVar(&generate.ServiceAccount, "service-account", "", "name of the account (default: <extension>-installer)")
	flags.StringVar(&generate.WatchNamespace, "watch-namespace", "", "the one namespace that the extension watches (default: all)")
	flags.BoolVar(&generate.AccessRoles, "access-roles", false, "count the roles of spec.install.accessRoles: Aggregated, which the account must be able to give")
	flags.BoolVar(&certManager, "cert-manager", false, "count what asks cert-manager for the certificates of webhooks (default: where the cluster serves it, if the bundle is from a catalog of the cluster)")
	flags.StringVar(&generate.SystemNamespace, "system-namespace", "olmv1-system", "namespace of catalogd on the cluster")
	for _, other := range []string{"catalog", "version", "channel"} {
		cmd.MarkFlagsMutuallyExclusive("bundle", other)
	}

	opm.BindRegistry(cmd, &generate.Registry)
	out.Bind(cmd, terminal.FormatYAML, terminal.FormatJSON, terminal.FormatName)
	_ = cmd.RegisterFlagCompletionFunc("catalog", a.completeFlag(catalogNames)) // the flags were just added
	_ = cmd.RegisterFlagCompletionFunc("namespace", a.completeFlag(namespaceNames))
	_ = cmd.RegisterFlagCompletionFunc("watch-namespace", a.completeFlag(namespaceNames))

	return cmd
}

// printGenerated writes what kubectl apply reads: one document after the other.
func printGenerated(cmd *cobra.Command, format string, generated *leastprivilege.Generated, namespace bool) error {
	var objects []client.Object
	if namespace {
		objects = append(objects, &corev1.Namespace{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
			ObjectMeta: metav1.ObjectMeta{Name: generated.Namespace},
		})
	}

	for _, object := range generated.Objects {
		objects = append(objects, object)
	}
	return printDocuments(cmd.OutOrStdout(), cmp.Or(format, terminal.FormatYAML), objects)
}
