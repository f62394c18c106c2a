// Package rbac implements `mainstay rbac`, which generates service accounts for extensions.
package rbac

import (
	"cmp"
	"errors"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/action/leastprivilege"
	"github.com/mainstay-dev/mainstay/internal/cli/kube"
	"github.com/mainstay-dev/mainstay/internal/cli/opm"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// NewCommand returns the command `mainstay rbac`.
func NewCommand(session *kube.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rbac",
		Short: "Generate RBAC objects for installing extensions",
		Args:  cobra.ArbitraryArgs,
		RunE:  terminal.RunGroup,
	}

	session.AddFlags(cmd)
	cmd.AddCommand(newGenerateCommand(session))
	return cmd
}

func newGenerateCommand(session *kube.Session) *cobra.Command {
	var (
		generate        leastprivilege.Generate
		createNamespace bool
		certManager     bool
		out             terminal.Output
	)

	cmd := &cobra.Command{
		Use:   "generate PACKAGE",
		Short: "Generate a least-privilege service account for an extension",
		Long: `Generate a ServiceAccount with the roles and bindings that are required to install, reconcile and
remove one version of a package. The roles contain no rules beyond those.

The bundle is the one that would be selected for the extension: the highest version that the flags
allow in the catalogs of the cluster or in --catalog. With --bundle, or with a --catalog that is a
directory or an image, no cluster is required. Nothing is changed on the cluster.

The rules apply to one version. Before an update, generate them again for the next version, and
specify the installed version with --update-from: the same service account removes the objects that
only the installed version contains. The operator-controller refuses an update for which rules are
missing, and lists these rules.`,
		Example: `  # Create a service account for an extension, and install the extension with it
  mainstay rbac generate argocd-operator --version 0.6.0 --namespace argocd --create-namespace > installer.yaml
  kubectl apply -f installer.yaml
  mainstay extension install argocd-operator --version 0.6.0 --namespace argocd --service-account argocd-operator-installer

  # Generate the rules for an update
  mainstay rbac generate argocd-operator --version 0.7.0 --update-from 0.6.0 --namespace argocd

  # Generate the rules of a bundle without a cluster
  mainstay rbac generate --bundle ./bundle
  mainstay rbac generate argocd-operator --catalog quay.io/operatorhubio/catalog:latest`,
		Args:              terminal.MaximumArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				generate.Package = args[0]
			} else if generate.Bundle == "" {
				return &terminal.UsageError{Err: errors.New("either PACKAGE or --bundle is required")}
			}

			if cmd.Flags().Changed("cert-manager") {
				generate.CertManager = &certManager
			}
			generate.Cluster, generate.Progress = session.Config, terminal.NewProgress(cmd.ErrOrStderr())
			generated, err := generate.Run(cmd.Context())
			if err != nil {
				return err
			}
			return printGeneratedObjects(cmd, out.Format, generated, createNamespace)
		},
	}

	flags := cmd.Flags()
	kube.AddVersionRangeFlag(cmd, &generate.Version)
	flags.StringSliceVar(&generate.Channels, "channel", nil, "channel to select the bundle from; can be repeated; empty allows every channel")
	flags.StringVar(&generate.Catalog, "catalog", "", "name of a catalog of the cluster, a directory such as ./catalog, or an image (default: all catalogs of the cluster)")
	flags.StringVar(&generate.Bundle, "bundle", "", "directory or image of a bundle to use instead of a catalog")
	flags.StringSliceVar(&generate.UpdatesFrom, "update-from", nil, "installed version to update from, or with --bundle its directory or image; can be repeated")
	flags.StringVar(&generate.Name, "name", "", "name of the ClusterExtension (default: the name of the package)")
	flags.StringVarP(&generate.Namespace, "namespace", "n", "", "namespace of the service account and the objects of the bundle (default: the name of the extension)")
	flags.BoolVar(&createNamespace, "create-namespace", false, "also generate the namespace")
	flags.StringVar(&generate.ServiceAccount, "service-account", "", "name of the service account (default: <extension>-installer)")
	flags.StringVar(&generate.WatchNamespace, "watch-namespace", "", "namespace that the extension watches (default: all namespaces)")
	flags.BoolVar(&generate.AccessRoles, "access-roles", false, "include the rules of the roles that spec.install.accessRoles: Aggregated creates")
	flags.BoolVar(&certManager, "cert-manager", false, "include the rules for cert-manager certificates of webhooks (default: true if the bundle is from a catalog of the cluster and the cluster serves cert-manager)")
	flags.StringVar(&generate.SystemNamespace, "system-namespace", "olmv1-system", "namespace of catalogd")
	for _, other := range []string{"catalog", "version", "channel"} {
		cmd.MarkFlagsMutuallyExclusive("bundle", other)
	}

	opm.AddRegistryFlags(cmd, &generate.Registry)
	out.AddFlag(cmd, terminal.FormatYAML, terminal.FormatJSON, terminal.FormatName)
	_ = cmd.RegisterFlagCompletionFunc("catalog", session.CompleteFlagValue(kube.ListCatalogNames)) // the flags were just added
	_ = cmd.RegisterFlagCompletionFunc("namespace", session.CompleteFlagValue(kube.ListNamespaceNames))
	_ = cmd.RegisterFlagCompletionFunc("watch-namespace", session.CompleteFlagValue(kube.ListNamespaceNames))

	return cmd
}

// printGeneratedObjects prints the generated objects as a stream of documents for kubectl apply.
func printGeneratedObjects(cmd *cobra.Command, format string, generated *leastprivilege.Generated, namespace bool) error {
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
	return kube.PrintDocuments(cmd.OutOrStdout(), cmp.Or(format, terminal.FormatYAML), objects)
}
