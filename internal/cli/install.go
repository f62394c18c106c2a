package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// imageRepository holds the image of the components; its tags are the versions.
const imageRepository = "ghcr.io/mainstay-dev/mainstay"

// defaultImage is the image of the components of this build's version.
func defaultImage() string {
	return imageRepository + ":" + cmp.Or(terminal.Release(), "latest")
}

// maxConfigFile is how large a file given to an installation may be: together they
// stand in a ConfigMap, which holds 1 MiB.
const maxConfigFile = 512 << 10

func (a *app) installCommand() *cobra.Command {
	var (
		install         action.Install
		wait            waitFlags
		dryRun          dryRunFlag
		out             terminal.Output
		registriesConf  string
		signaturePolicy string
		pullCAs         []string
	)

	in := &install.Installation
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Install Mainstay in a cluster, or bring it up to date",
		Long: `Install Mainstay in a cluster, or bring an installation up to date: CRDs, namespace,
rights, Services and Deployments are applied, server-side, as this build has them.
Name the image by digest where you can, so that pods that start later run the same program.`,
		Example: `  # Install, and wait until it runs
  mainstay install --wait

  # Install the image of a digest, from a mirror, with the machine's mirror configuration
  mainstay install --image registry.example.com/mainstay@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 --registries-conf /etc/containers/registries.conf

  # Write the manifests, for a repository or a look
  mainstay install --dry-run=client -o yaml

  # Every extension must name a service account: the controller gets no rights of its own
  mainstay install --require-service-account

  # Manifests of OLM v1 name service accounts that nobody created: ignore them
  mainstay install --ignore-service-account`,
		Args: terminal.TakesUpTo(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if in.RegistriesConf, err = readFile(registriesConf); err != nil {
				return err
			}
			if in.SignaturePolicy, err = readFile(signaturePolicy); err != nil {
				return err
			}
			in.PullCAs = map[string][]byte{}
			for _, file := range pullCAs {
				if in.PullCAs[filepath.Base(file)], err = readFile(file); err != nil {
					return err
				}
			}
			if dryRun.client {
				objects, err := in.Objects()
				if err != nil {
					return err
				}
				return dryRun.print(cmd, &out, asObjects(objects))
			}
			if install.Client, err = a.kube.client(cmd.ErrOrStderr()); err != nil {
				return err
			}
			install.Wait, install.Progress = wait.value(), terminal.NewProgress(cmd.ErrOrStderr())
			objects, err := install.Run(cmd.Context())
			if objects != nil && out.Format != "" {
				return errors.Join(printObjects(cmd.OutOrStdout(), out.Format, asObjects(objects), true), err)
			}
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), installDone(wait.wait))
			return nil
		},
	}

	a.kube.bind(cmd)
	bindInstallation(cmd, in)
	flags := cmd.Flags()
	flags.StringVar(&registriesConf, "registries-conf", "", "file with mirrors, blocked and insecure registries (containers-registries.conf(5))")
	flags.StringVar(&signaturePolicy, "signature-policy", "", "file that says which images are trusted (containers-policy.json(5))")
	flags.StringSliceVar(&pullCAs, "pull-ca", nil, "file with certificate authorities (*.crt, *.pem) that registries are trusted by; may be repeated")
	wait.bind(cmd, "the components run")
	dryRun.bind(cmd)
	out.Bind(cmd, terminal.FormatJSON, terminal.FormatYAML, terminal.FormatName)
	return cmd
}

// bindInstallation binds the flags that say what is installed.
func bindInstallation(cmd *cobra.Command, in *action.Installation) {
	flags := cmd.Flags()
	flags.StringVarP(&in.Namespace, "namespace", "n", action.DefaultSystemNamespace, "namespace of the components")
	flags.StringVar(&in.Image, "image", defaultImage(), "image that holds the components")
	flags.BoolVar(&in.RequireServiceAccount, "require-service-account", false, "refuse extensions without a service account, and give the operator-controller no right to act without one")
	flags.BoolVar(&in.ProtectCustomResources, "protect-custom-resources", false, "refuse to delete extensions whose CRDs would go with them, until an annotation says what becomes of the custom resources")
	flags.BoolVar(&in.IgnoreServiceAccount, "ignore-service-account", false, "install every extension with the rights of the operator-controller, and only warn of a service account that it names")
	cmd.MarkFlagsMutuallyExclusive("require-service-account", "ignore-service-account")
	flags.StringSliceVar(&in.FeatureGates, "feature-gates", nil, "features to turn on or off, as NAME=true|false")
	flags.StringVar(&in.PullSecret, "pull-secret", "", "Secret with credentials for registries, as NAMESPACE/NAME")
}

func installDone(waited bool) string {
	if waited {
		return "Mainstay runs. Add a catalog with 'mainstay catalog add'."
	}
	return "Mainstay is installed and starting. Add a catalog with 'mainstay catalog add'."
}

func asObjects[T client.Object](list []T) []client.Object {
	objects := make([]client.Object, 0, len(list))
	for _, object := range list {
		objects = append(objects, object)
	}
	return objects
}

// readFile reads a file that the user named. No name gives nil.
func readFile(name string) ([]byte, error) {
	if name == "" {
		return nil, nil
	}

	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}

	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxConfigFile+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	if len(data) > maxConfigFile {
		return nil, fmt.Errorf("%s has more than %d bytes", name, maxConfigFile)
	}

	return data, nil
}

func (a *app) uninstallCommand() *cobra.Command {
	var (
		uninstall action.Uninstall
		wait      waitFlags
		out       terminal.Output
	)
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Remove Mainstay from a cluster",
		Long: `Remove Mainstay from a cluster, with its CRDs and catalogs. It refuses to while
extensions are installed, unless it is told what becomes of them. With --delete-extensions it
stops with exit code 3, and deletes nothing, when custom resources of their CRDs would be lost.
What stays on the cluster is listed with the reason.`,
		Example: `  mainstay uninstall --wait

  # Uninstall every extension first, with all its objects
  mainstay uninstall --delete-extensions

  # Leave extensions and catalogs as they are, for an installation to come
  mainstay uninstall --keep-crds`,
		Args: terminal.TakesUpTo(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.kube.client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}

			uninstall.Client, uninstall.Progress = c, terminal.NewProgress(cmd.ErrOrStderr())
			uninstall.Wait, uninstall.WaitForAll = action.Wait{Timeout: wait.timeout}, wait.wait
			result, err := uninstall.Run(cmd.Context())
			if result != nil {
				err = errors.Join(printUninstalled(cmd, &out, result, err == nil), err)
			}

			return withExitCode(err)
		},
	}

	a.kube.bind(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&uninstall.Namespace, "namespace", "n", action.DefaultSystemNamespace, "namespace of the components")
	flags.BoolVar(&uninstall.DeleteExtensions, "delete-extensions", false, "uninstall every extension, with all its objects, first")
	flags.BoolVar(&uninstall.DeleteCustomResources, "delete-custom-resources", false, "with --delete-extensions: delete the custom resources of their CRDs too")
	flags.BoolVar(&uninstall.KeepCRDs, "keep-crds", false, "leave the CRDs, and with them catalogs and extensions, as they are")
	cmd.MarkFlagsMutuallyExclusive("delete-extensions", "keep-crds")
	cmd.MarkFlagsMutuallyExclusive("delete-custom-resources", "keep-crds")
	wait.bind(cmd, "everything is gone")
	out.Bind(cmd, terminal.FormatName)

	return cmd
}

// printUninstalled prints what was deleted, and what stays and why.
func printUninstalled(cmd *cobra.Command, out *terminal.Output, result *action.Uninstalled, done bool) error {
	if out.Format == terminal.FormatName {
		return printObjects(cmd.OutOrStdout(), terminal.FormatName, asObjects(result.Deleted), true)
	}

	w := cmd.OutOrStdout()
	switch n := len(result.Deleted); {
	case n == 0:
		fmt.Fprintln(w, "Nothing was installed.")
		return nil
	case done:
		fmt.Fprintf(w, "Mainstay is removed: %d objects deleted.\n", n)
	default:
		fmt.Fprintf(w, "Mainstay is being removed: %d objects deleted.\n", n)
	}

	for _, left := range result.Left {
		fmt.Fprintf(w, "What stays: %s: %s.\n", left.Objects, left.Why)
	}

	return nil
}
