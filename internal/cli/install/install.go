// Package install implements `mainstay install` and `mainstay uninstall`.
package install

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/cli/kube"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// imageRepository is the repository of the component images, which are tagged by version.
const imageRepository = "ghcr.io/mainstay-dev/mainstay"

// releasedImage is the component image of a release, by digest. The linker sets it in the program for users. The
// program in the image has none, because it cannot contain the digest of its own image:
//
//	go build -ldflags "-X github.com/mainstay-dev/mainstay/internal/cli/install.releasedImage=REPOSITORY@DIGEST" ./cmd/mainstay
var releasedImage string

// defaultComponentImage returns the image of the release, or the component image of the version of this build.
func defaultComponentImage() string {
	return cmp.Or(releasedImage, imageRepository+":"+cmp.Or(terminal.Release(), "latest"))
}

// maxConfigFileSize is the limit in bytes for a configuration file of an installation. The files are
// stored together in a ConfigMap, which holds at most 1 MiB.
const maxConfigFileSize = 512 << 10

// NewCommand returns the command `mainstay install`.
func NewCommand(session *kube.Session) *cobra.Command {
	var (
		install action.Install
		wait    kube.WaitFlags
		dryRun  kube.DryRunFlag
		out     terminal.Output
		files   installationFiles
		parts   optionalParts
	)

	in := &install.Installation
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Install Mainstay in a cluster or upgrade it",
		Long: `Install Mainstay in a cluster or upgrade an installation. The CRDs, namespace, RBAC objects, Services
and Deployments of this build are applied with server-side apply. The program of a release installs the
image of that release by digest. Specify other images by digest if possible, so that pods that start
later run the same binary.

With --with classic, OLM Classic is installed as well, in the namespaces olm and operators. Scale an OLM
Classic of another origin to 0 first. The flags for images apply to it too. --namespace and --feature-gates
exclude it. With --with console, the web console is installed in the namespace of the components. It has no
permissions: it acts as its users.`,
		Example: `  # Install, and wait until the components are ready
  mainstay install --wait

  # Install an image by digest from a mirror, with the mirror configuration of this machine
  mainstay install --image registry.example.com/mainstay@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 --registries-conf /etc/containers/registries.conf

  # Print the manifests
  mainstay install --dry-run=client -o yaml

  # Install OLM Classic as well, with the community's catalog
  mainstay install --with classic --default-catalogs

  # Install the web console as well
  mainstay install --with console

  # Require a service account for every extension; the controller gets no permissions of its own
  mainstay install --require-service-account

  # Ignore the service accounts that extensions name
  mainstay install --ignore-service-account`,
		Args: terminal.MaximumArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := files.readInto(in); err != nil {
				return err
			}
			in.Classic, in.Console = parts.has(partClassic), parts.has(partConsole)
			manifests, err := in.Objects()
			if err != nil {
				return err
			}
			if dryRun.Client {
				return dryRun.PrintManifests(cmd, &out, toClientObjects(manifests))
			}

			if install.Client, err = session.NewClient(cmd.ErrOrStderr()); err != nil {
				return err
			}
			install.Wait, install.Progress = wait.ToWait(), terminal.NewProgress(cmd.ErrOrStderr())
			objects, err := install.Run(cmd.Context())
			if objects != nil && out.Format != "" {
				return errors.Join(kube.PrintObjects(cmd.OutOrStdout(), out.Format, toClientObjects(objects), true), err)
			}
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), formatInstallResult(wait.Wait))
			return nil
		},
	}

	session.AddFlags(cmd)
	addInstallationFlags(cmd, in)
	parts.addFlag(cmd, "install these as well: classic is OLM Classic, console the web console")
	files.addFlags(cmd)
	wait.AddFlags(cmd, "the components are ready")
	dryRun.AddFlag(cmd)
	out.AddFlag(cmd, terminal.FormatJSON, terminal.FormatYAML, terminal.FormatName)
	return cmd
}

// installationFiles are the names of the files that an installation passes to the components.
type installationFiles struct {
	registriesConf, signaturePolicy string
	pullCAs                         []string
}

func (f *installationFiles) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.registriesConf, "registries-conf", "", "file with mirrors, blocked and insecure registries (containers-registries.conf(5))")
	flags.StringVar(&f.signaturePolicy, "signature-policy", "", "file with the signature verification policy for images (containers-policy.json(5))")
	flags.StringSliceVar(&f.pullCAs, "pull-ca", nil, "file with certificate authorities (*.crt, *.pem) to trust for registries; can be repeated")
}

// readInto sets the content of the files in an installation.
func (f *installationFiles) readInto(in *action.Installation) error {
	var err error
	if in.RegistriesConf, err = readConfigFile(f.registriesConf); err != nil {
		return err
	}
	if in.SignaturePolicy, err = readConfigFile(f.signaturePolicy); err != nil {
		return err
	}

	in.PullCAs = map[string][]byte{}
	for _, file := range f.pullCAs {
		if in.PullCAs[filepath.Base(file)], err = readConfigFile(file); err != nil {
			return err
		}
	}

	return nil
}

// addInstallationFlags adds the flags that configure an installation.
func addInstallationFlags(cmd *cobra.Command, in *action.Installation) {
	flags := cmd.Flags()
	flags.StringVarP(&in.Namespace, "namespace", "n", action.DefaultSystemNamespace, "namespace of the components")
	flags.StringVar(&in.Image, "image", defaultComponentImage(), "image that holds the components")
	flags.BoolVar(&in.RequireServiceAccount, "require-service-account", false, "refuse extensions without a service account, and grant operator-controller no permissions to apply objects itself")
	flags.BoolVar(&in.ProtectCustomResources, "protect-custom-resources", false, "refuse to delete an extension with CRDs unless an annotation states what happens to the custom resources")
	flags.BoolVar(&in.IgnoreServiceAccount, "ignore-service-account", false, "install every extension with the permissions of operator-controller, and warn if an extension names a service account")
	cmd.MarkFlagsMutuallyExclusive("require-service-account", "ignore-service-account")
	flags.StringSliceVar(&in.FeatureGates, "feature-gates", nil, "feature gates, as NAME=true|false")
	terminal.RestrictFlag(cmd, "feature-gates", "NAME=true or NAME=false, or several of them separated by commas", func() bool {
		return !slices.ContainsFunc(in.FeatureGates, func(gate string) bool {
			name, state, _ := strings.Cut(gate, "=")
			return name == "" || state != "true" && state != "false"
		})
	})
	flags.BoolVar(&in.DefaultCatalogs, "default-catalogs", false, "with --with classic, add the community's catalog operatorhubio-catalog, available in all namespaces")
	flags.StringVar(&in.PullSecret, "pull-secret", "", "Secret with registry credentials, as NAMESPACE/NAME")
	terminal.RestrictFlag(cmd, "pull-secret", "the namespace and the name of a Secret, as NAMESPACE/NAME", func() bool {
		namespace, name, _ := strings.Cut(in.PullSecret, "/")
		return in.PullSecret == "" || namespace != "" && name != "" && !strings.Contains(name, "/")
	})
}

// Parts of an installation that are optional.
const (
	partClassic = "classic"
	partConsole = "console"
)

// optionalParts is the flag --with: the parts of an installation that are optional.
type optionalParts []string

func (p *optionalParts) addFlag(cmd *cobra.Command, usage string) {
	cmd.Flags().StringSliceVar((*[]string)(p), "with", nil, usage)
	terminal.RestrictFlag(cmd, "with", partClassic+" or "+partConsole+", or both separated by a comma", func() bool {
		return !slices.ContainsFunc(*p, func(part string) bool { return part != partClassic && part != partConsole })
	})
}

func (p *optionalParts) has(part string) bool { return slices.Contains(*p, part) }

func formatInstallResult(waited bool) string {
	if waited {
		return "Mainstay runs. Add a catalog with 'mainstay catalog add'."
	}
	return "Mainstay is installed and starting. Add a catalog with 'mainstay catalog add'."
}

func toClientObjects[T client.Object](list []T) []client.Object {
	objects := make([]client.Object, 0, len(list))
	for _, object := range list {
		objects = append(objects, object)
	}
	return objects
}

// readConfigFile reads a configuration file of at most maxConfigFileSize. It returns nil if name is
// empty.
func readConfigFile(name string) ([]byte, error) {
	if name == "" {
		return nil, nil
	}

	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxConfigFileSize+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	if len(data) > maxConfigFileSize {
		return nil, fmt.Errorf("%s has more than %d bytes", name, maxConfigFileSize)
	}

	return data, nil
}
