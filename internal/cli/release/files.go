package release

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action/releases"
	"github.com/mainstay-dev/mainstay/internal/cli/kube"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// extractOptions are the flags of extract.
type extractOptions struct {
	releases.Extract
	included releases.Included
	program  releases.Program
	// includedOnly extracts only the manifests that the cluster described by included would apply.
	includedOnly  bool
	from          string
	capabilities  []string
	installConfig string
}

func newExtractCommand(session *kube.Session) *cobra.Command {
	var e extractOptions
	cmd := &cobra.Command{
		Use:   "extract [IMAGE|VERSION]",
		Short: "Extract the manifests of a release to a directory",
		Long: `Extract the manifests of a release to a directory, with the unmodified files image-references and
release-metadata.

A version is looked up in the cluster first, and then in the channels fast, stable and candidate of
the update service (--upstream, or the update service of the cluster). Without an argument, the
release of the cluster is used.`,
		Example: `  # Extract the release to a new directory
  mainstay release extract registry.example.com/releases:1.1.0 --to ./1.1.0

  # Print one file
  mainstay release extract registry.example.com/releases:1.1.0 --file image-references

  # Extract the mainstay binary of the release
  mainstay release extract registry.example.com/releases:1.1.0 --command mainstay --to ./bin

  # Extract only the manifests that a cluster with these capabilities applies
  mainstay release extract registry.example.com/releases:1.1.0 --to ./mine --included --capability Console --capability Ingress`,
		Args: terminal.MaximumArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := e.completeOptions(cmd, args); err != nil {
				return &terminal.UsageError{Err: err}
			}
			if e.program.Name != "" {
				return extractProgram(cmd, e.program, &e.Extract)
			}

			found, err := e.Run(cmd.Context())
			if err != nil {
				return err
			}
			if e.File != "" {
				_, err := cmd.OutOrStdout().Write(found.Content)
				return err
			}

			fmt.Fprintln(cmd.OutOrStdout(), found.Summary())
			return nil
		},
	}

	addReleaseSourceFlags(session, cmd, &e.Source)
	flags := cmd.Flags()
	flags.StringVar(&e.from, "from", "", "the release, as an alternative to the argument")
	flags.StringVar(&e.To, "to", "", "directory to write to (default: the current directory)")
	flags.StringVar(&e.File, "file", "", "print only the file with this name")
	flags.BoolVar(&e.includedOnly, "included", false, "extract only the manifests that a cluster would apply")
	flags.StringVar(&e.installConfig, "install-config", "", "install-config.yaml that describes the cluster for --included; other flags override it")
	flags.StringVar(&e.included.Profile, "profile", "", "profile of the cluster for --included (default: self-managed-high-availability)")
	flags.StringVar(&e.included.FeatureSet, "feature-set", "", "feature set of the cluster for --included (default: Default)")
	flags.StringSliceVar(&e.included.FeatureGates, "feature-gate", nil, "enabled feature gates of the cluster for --included, separated by commas")
	flags.StringSliceVar(&e.capabilities, "capability", nil, "capabilities of the cluster for --included, separated by commas (default: all)")
	flags.BoolVar(&e.CredentialsRequests, "credentials-requests", false, "extract only the CredentialsRequests")
	flags.StringVar(&e.program.Name, "command", "", "extract only this command-line tool of the release: mainstay or oc")
	flags.StringVar(&e.program.System, "command-os", "", "platform of the command-line tool, for example linux/arm64 (default: the platform of this machine)")
	flags.String("git", "", "not supported")
	flags.Bool("tools", false, "not supported")
	for _, name := range []string{"git", "tools"} {
		_ = flags.MarkHidden(name) // existing scripts may set them
	}

	for _, other := range []string{"file", "included", "credentials-requests"} {
		cmd.MarkFlagsMutuallyExclusive("command", other)
	}

	flags.StringVar(&e.Cloud, "cloud", "", "extract only CredentialsRequests for this cloud, for example aws or gcp")
	return cmd
}

// completeOptions adds the argument to the options and validates the combination of flags.
func (e *extractOptions) completeOptions(cmd *cobra.Command, args []string) error {
	flags := cmd.Flags()
	e.Image = cmp.Or(firstArgument(args), e.from)
	if flags.Changed("capability") {
		e.included.Capabilities = e.capabilities
	}

	switch {
	case flags.Changed("git") || flags.Changed("tools"):
		return errExtractNotSupported
	case firstArgument(args) != "" && e.from != "":
		return errors.New("specify the release either as an argument or with --from, not both")
	case e.includedOnly:
		e.Included, e.InstallConfig = &e.included, e.installConfig
	case !e.included.IsEmpty() || e.installConfig != "":
		return errors.New("--install-config, --profile, --feature-set, --feature-gate and --capability require --included")
	}

	return nil
}

// errExtractNotSupported is returned for flags that are not supported.
var errExtractNotSupported = errors.New("extracting sources or tool archives is not supported: use --command to extract one command-line tool, and 'mainstay release info --commit-urls' to list the sources")

// extractProgram extracts a command-line tool of the release.
func extractProgram(cmd *cobra.Command, program releases.Program, extract *releases.Extract) error {
	program.Source, program.Image, program.To = extract.Source, extract.Image, extract.To
	written, err := program.Run(cmd.Context())
	if err == nil {
		fmt.Fprintln(cmd.OutOrStdout(), "Extracted "+written)
	}
	return err
}

func newMirrorCommand(session *kube.Session) *cobra.Command {
	var (
		mirror       releases.Mirror
		instructions = releases.InstructionsIDMS
		apply        bool
		out          terminal.Output
	)

	cmd := &cobra.Command{
		Use:   "mirror [IMAGE|VERSION]",
		Short: "Mirror a release with all its images to a registry or a directory",
		Long: `Mirror a release with all the images that it references to another registry. For a disconnected
site, mirror to a directory first, and from that directory to the registry of the site.

Digests and manifest lists are preserved. The command prints an ImageDigestMirrorSet that makes a
cluster pull from the mirror. With --keyring or --trust-release, the signatures of the release are
mirrored too, as a ConfigMap that lets the cluster verify the release without a signature store.`,
		Example: `  # Mirror to a registry
  mainstay release mirror registry.example.com/releases:1.1.0 --to mirror.example.org/releases

  # Mirror to a directory with signatures, and from there to a disconnected registry
  mainstay release mirror registry.example.com/releases:1.1.0 --to-dir ./carry --keyring releases.asc --store https://example.com/signatures
  mainstay release mirror --from-dir ./carry --to mirror.example.org/releases --apply-release-image-signature

  # Show what would be mirrored
  mainstay release mirror registry.example.com/releases:1.1.0 --to mirror.example.org/releases --dry-run`,
		Args: terminal.MaximumArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if name := firstArgument(args); name != "" {
				if mirror.From != "" {
					return &terminal.UsageError{Err: errors.New("specify the release either as an argument or with --from, not both")}
				}
				mirror.From = name
			}

			mirror.Progress = terminal.NewProgress(cmd.ErrOrStderr())
			if apply {
				mirror.Apply = newConfigMapApplier(session, cmd.ErrOrStderr())
			}

			mirrored, err := mirror.Run(cmd.Context())
			if err != nil {
				return err
			}
			if out.Format != "" {
				return terminal.PrintValue(cmd.OutOrStdout(), out.Format, mirrored)
			}

			return printMirrorResult(cmd.OutOrStdout(), mirrored, &mirror, instructions)
		},
	}

	addReleaseSourceFlags(session, cmd, &mirror.Source)
	flags := cmd.Flags()
	flags.StringVar(&mirror.From, "from", "", "the release, as an alternative to the argument; with --from-dir, its version")
	flags.StringVar(&mirror.FromDir, "from-dir", "", "directory that a release was mirrored to")
	flags.StringVar(&mirror.To, "to", "", "repository to mirror to, without tag or digest; ${component} is replaced by the name of each image")
	flags.StringVar(&mirror.ToDir, "to-dir", "", "directory to mirror to, as an OCI layout")
	flags.StringVar(&mirror.ToReleaseImage, "to-release-image", "", "reference to mirror the release image to (default: the same repository as the other images)")
	flags.BoolVar(&mirror.SkipReleaseImage, "skip-release-image", false, "do not mirror the release image")
	flags.BoolVar(&mirror.DryRun, "dry-run", false, "print what would be mirrored without copying it")
	terminal.AddEnumFlag(cmd, &instructions, "print-mirror-instructions", "configuration to print for the cluster", releases.InstructionsIDMS, releases.InstructionsICSP, releases.InstructionsNone)
	flags.StringVar(&mirror.SignatureDir, "release-image-signature-to-dir", "", "directory to write a ConfigMap with the signatures to (default: config in --to-dir)")
	flags.BoolVar(&apply, "apply-release-image-signature", false, "apply the ConfigMap with the signatures to the cluster")
	flags.Bool("keep-manifest-list", true, "ignored: manifest lists are always preserved")
	_ = flags.MarkHidden("keep-manifest-list") // existing scripts may set it
	addTrustFlags(cmd, &mirror.Trust)
	out.AddFlag(cmd, terminal.FormatJSON, terminal.FormatYAML)

	return cmd
}

// printMirrorResult prints what was mirrored and the next steps.
func printMirrorResult(w io.Writer, mirrored *releases.Mirrored, mirror *releases.Mirror, instructions string) error {
	if mirror.DryRun {
		for _, copied := range mirrored.Copies {
			fmt.Fprintln(w, copied.From, copied.To)
		}
		return nil
	}

	fmt.Fprintln(w, "Success")
	if mirrored.Image != "" {
		fmt.Fprintln(w, "Update image:  "+mirrored.Image)
	}

	fmt.Fprintln(w, "Mirror prefix: "+mirrored.Prefix)
	if mirrored.SignatureFile != "" {
		fmt.Fprintln(w, "\nSignatures written to "+mirrored.SignatureFile+"; to apply them to the cluster, run:\n\n  kubectl apply -f "+mirrored.SignatureFile)
	}
	if mirror.ToDir != "" {
		fmt.Fprintf(w, "\nTo upload the images to a registry, run:\n\n  mainstay release mirror --from-dir %s --to REPOSITORY\n", mirror.ToDir)
		return nil
	}

	text, err := mirrored.Instructions(instructions)
	if err == nil && text != "" {
		fmt.Fprint(w, "\n"+text)
	}

	return err
}
