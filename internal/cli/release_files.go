package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action/releases"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

func (a *app) releaseExtractCommand() *cobra.Command {
	var (
		extract      releases.Extract
		included     releases.Included
		filter       bool
		from         string
		capabilities []string
		install      string
	)
	cmd := &cobra.Command{
		Use:   "extract [IMAGE|VERSION]",
		Short: "Write the manifests of a release into a folder",
		Long: `Write the manifests of a release into a folder, with image-references and
release-metadata as they are.

A version is looked up in the cluster. Without a name it is the release of the cluster.`,
		Example: `  # Write all of it into a new folder
  mainstay release extract registry.example.com/releases:1.1.0 --to ./1.1.0

  # Print one file
  mainstay release extract registry.example.com/releases:1.1.0 --file image-references

  # Only what a cluster with some capabilities would have
  mainstay release extract registry.example.com/releases:1.1.0 --to ./mine --included --capability Console --capability Ingress`,
		Args: terminal.TakesUpTo(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			extract.Image = argument(args)
			if from != "" {
				if extract.Image != "" {
					return &terminal.UsageError{Err: errors.New("the release is named as an argument or by --from, not twice")}
				}
				extract.Image = from
			}
			if cmd.Flags().Changed("capability") {
				included.Capabilities = capabilities
			}
			if filter {
				extract.Included, extract.InstallConfig = &included, install
			} else if !included.IsEmpty() || install != "" {
				return &terminal.UsageError{Err: errors.New("--install-config, --profile, --feature-set, --feature-gate and --capability say which manifests are chosen by --included")}
			}
			found, err := extract.Run(cmd.Context())
			if err != nil {
				return err
			}
			if extract.File != "" {
				_, err := cmd.OutOrStdout().Write(found.Content)
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), found.Sentence())
			return nil
		},
	}
	a.bindSource(cmd, &extract.Source)
	flags := cmd.Flags()
	flags.StringVar(&from, "from", "", "the release, instead of as an argument")
	flags.StringVar(&extract.To, "to", "", "folder to write to (default: the current one)")
	flags.StringVar(&extract.File, "file", "", "print only the file with this name, as it is")
	flags.BoolVar(&filter, "included", false, "write only the manifests that a cluster would have")
	flags.StringVar(&install, "install-config", "", "file install-config.yaml that says which cluster that is; other flags say more")
	flags.StringVar(&included.Profile, "profile", "", "profile of that cluster (default: self-managed-high-availability)")
	flags.StringVar(&included.FeatureSet, "feature-set", "", "feature set of that cluster (default: Default)")
	flags.StringSliceVar(&included.FeatureGates, "feature-gate", nil, "feature gates of that cluster that are on, with commas")
	flags.StringSliceVar(&capabilities, "capability", nil, "capabilities of that cluster, with commas (default: all)")
	flags.BoolVar(&extract.CredentialsRequests, "credentials-requests", false, "write only the CredentialsRequests")
	flags.StringVar(&extract.Cloud, "cloud", "", "write only those for this cloud, as aws or gcp")
	return cmd
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
