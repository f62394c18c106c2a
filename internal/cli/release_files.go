package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action/releases"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// extraction is what the flags of extract say.
type extraction struct {
	releases.Extract
	included releases.Included
	program  releases.Program
	// filter has the manifests be those of the cluster that included is.
	filter       bool
	from         string
	capabilities []string
	install      string
}

func (a *app) releaseExtractCommand() *cobra.Command {
	var e extraction
	cmd := &cobra.Command{
		Use:   "extract [IMAGE|VERSION]",
		Short: "Write the manifests of a release into a folder",
		Long: `Write the manifests of a release into a folder, with image-references and
release-metadata as they are.

A version is looked up in the cluster, and then in the channels fast, stable and candidate
of an update service, that of --upstream or of the cluster. Without a name it is the release
of the cluster.`,
		Example: `  # Write all of it into a new folder
  mainstay release extract registry.example.com/releases:1.1.0 --to ./1.1.0

  # Print one file
  mainstay release extract registry.example.com/releases:1.1.0 --file image-references

  # The mainstay of the same version
  mainstay release extract registry.example.com/releases:1.1.0 --command mainstay --to ./bin

  # Only what a cluster with some capabilities would have
  mainstay release extract registry.example.com/releases:1.1.0 --to ./mine --included --capability Console --capability Ingress`,
		Args: terminal.TakesUpTo(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := e.read(cmd, args); err != nil {
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

			fmt.Fprintln(cmd.OutOrStdout(), found.Sentence())
			return nil
		},
	}

	a.bindSource(cmd, &e.Source)
	flags := cmd.Flags()
	flags.StringVar(&e.from, "from", "", "the release, instead of as an argument")
	flags.StringVar(&e.To, "to", "", "folder to write to (default: the current one)")
	flags.StringVar(&e.File, "file", "", "print only the file with this name, as it is")
	flags.BoolVar(&e.filter, "included", false, "write only the manifests that a cluster would have")
	flags.StringVar(&e.install, "install-config", "", "file install-config.yaml that says which cluster that is; other flags say more")
	flags.StringVar(&e.included.Profile, "profile", "", "profile of that cluster (default: self-managed-high-availability)")
	flags.StringVar(&e.included.FeatureSet, "feature-set", "", "feature set of that cluster (default: Default)")
	flags.StringSliceVar(&e.included.FeatureGates, "feature-gate", nil, "feature gates of that cluster that are on, with commas")
	flags.StringSliceVar(&e.capabilities, "capability", nil, "capabilities of that cluster, with commas (default: all)")
	flags.BoolVar(&e.CredentialsRequests, "credentials-requests", false, "write only the CredentialsRequests")
	flags.StringVar(&e.program.Name, "command", "", "write only this program for people, of the version that belongs to the release: mainstay or oc")
	flags.StringVar(&e.program.System, "command-os", "", "system that the program is to run on, as linux/arm64 (default: this one)")
	flags.String("git", "", "not supported")
	flags.Bool("tools", false, "not supported")
	for _, name := range []string{"git", "tools"} {
		_ = flags.MarkHidden(name) // scripts of the field pass it
	}

	for _, other := range []string{"file", "included", "credentials-requests"} {
		cmd.MarkFlagsMutuallyExclusive("command", other)
	}

	flags.StringVar(&e.Cloud, "cloud", "", "write only those for this cloud, as aws or gcp")
	return cmd
}

// read completes what the flags say by the argument, and refuses what does not fit together.
func (e *extraction) read(cmd *cobra.Command, args []string) error {
	flags := cmd.Flags()
	e.Image = cmp.Or(argument(args), e.from)
	if flags.Changed("capability") {
		e.included.Capabilities = e.capabilities
	}

	switch {
	case flags.Changed("git") || flags.Changed("tools"):
		return errNoSources
	case argument(args) != "" && e.from != "":
		return errors.New("the release is named as an argument or by --from, not twice")
	case e.filter:
		e.Included, e.InstallConfig = &e.included, e.install
	case !e.included.IsEmpty() || e.install != "":
		return errors.New("--install-config, --profile, --feature-set, --feature-gate and --capability say which manifests are chosen by --included")
	}

	return nil
}

// errNoSources is about flags that nothing here can do.
var errNoSources = errors.New("neither sources nor archives of tools are made of a release: --command writes one program, and 'mainstay release info --commit-urls' tells where the sources are")

// extractProgram writes a program of the release that is to be extracted from.
func extractProgram(cmd *cobra.Command, program releases.Program, extract *releases.Extract) error {
	program.Source, program.Image, program.To = extract.Source, extract.Image, extract.To
	written, err := program.Run(cmd.Context())
	if err == nil {
		fmt.Fprintln(cmd.OutOrStdout(), "Extracted "+written)
	}
	return err
}

func (a *app) releaseMirrorCommand() *cobra.Command {
	var (
		mirror       releases.Mirror
		instructions = releases.InstructionsIDMS
		apply        bool
		out          terminal.Output
	)

	cmd := &cobra.Command{
		Use:   "mirror [IMAGE|VERSION]",
		Short: "Copy a release with all its images to another registry, or into a folder",
		Long: `Copy a release, with all the images that it names, to another registry or into a folder
that is carried to a site without a network, and from that folder into the registry there.

Digests stay the same, and lists of platforms stay whole. The printed ImageDigestMirrorSet
has a cluster find the copies. With --keyring or --trust-release the signatures of the release
go along, as a ConfigMap that the cluster verifies the release by without any store.`,
		Example: `  # Copy to a registry, and tell the cluster
  mainstay release mirror registry.example.com/releases:1.1.0 --to mirror.example.org/releases

  # Into a folder, with its signatures, and from there into a registry without a network
  mainstay release mirror registry.example.com/releases:1.1.0 --to-dir ./carry --keyring releases.asc --store https://example.com/signatures
  mainstay release mirror --from-dir ./carry --to mirror.example.org/releases --apply-release-image-signature

  # Only see what would be copied
  mainstay release mirror registry.example.com/releases:1.1.0 --to mirror.example.org/releases --dry-run`,
		Args: terminal.TakesUpTo(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if name := argument(args); name != "" {
				if mirror.From != "" {
					return &terminal.UsageError{Err: errors.New("the release is named as an argument or by --from, not twice")}
				}
				mirror.From = name
			}

			mirror.Progress = terminal.NewProgress(cmd.ErrOrStderr())
			if apply {
				mirror.Apply = a.applier(cmd.ErrOrStderr())
			}

			mirrored, err := mirror.Run(cmd.Context())
			if err != nil {
				return err
			}
			if out.Format != "" {
				return terminal.PrintValue(cmd.OutOrStdout(), out.Format, mirrored)
			}

			return printMirrored(cmd.OutOrStdout(), mirrored, &mirror, instructions)
		},
	}

	a.bindSource(cmd, &mirror.Source)
	flags := cmd.Flags()
	flags.StringVar(&mirror.From, "from", "", "the release, instead of as an argument; with --from-dir its version")
	flags.StringVar(&mirror.FromDir, "from-dir", "", "folder that a release was mirrored into")
	flags.StringVar(&mirror.To, "to", "", "repository without tag and digest; ${component} in it stands for the name of each image")
	flags.StringVar(&mirror.ToDir, "to-dir", "", "folder to copy into, as an OCI layout")
	flags.StringVar(&mirror.ToReleaseImage, "to-release-image", "", "reference that the release image gets (default: it lies beside the others)")
	flags.BoolVar(&mirror.SkipReleaseImage, "skip-release-image", false, "leave the release image out")
	flags.BoolVar(&mirror.DryRun, "dry-run", false, "copy nothing; show what would be copied")
	oneOf(cmd, &instructions, "print-mirror-instructions", "what to print for the cluster", releases.InstructionsIDMS, releases.InstructionsICSP, releases.InstructionsNone)
	flags.StringVar(&mirror.SignatureDir, "release-image-signature-to-dir", "", "folder for a ConfigMap with the signatures (default: config in --to-dir)")
	flags.BoolVar(&apply, "apply-release-image-signature", false, "put the ConfigMap with the signatures into the cluster")
	flags.Bool("keep-manifest-list", true, "lists of platforms are always kept")
	_ = flags.MarkHidden("keep-manifest-list") // scripts of the field pass it
	bindTrust(cmd, &mirror.Trust)
	out.Bind(cmd, terminal.FormatJSON, terminal.FormatYAML)

	return cmd
}

// printMirrored shows what was copied, and what is to be done next.
func printMirrored(w io.Writer, mirrored *releases.Mirrored, mirror *releases.Mirror, instructions string) error {
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
		fmt.Fprintln(w, "\nSignatures written to "+mirrored.SignatureFile+"; apply them to the cluster by\n\n  kubectl apply -f "+mirrored.SignatureFile)
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
