package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/action/releases"
	"github.com/mainstay-dev/mainstay/internal/cli/opm"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

func (a *app) releaseCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "release",
		Aliases: []string{"releases"},
		Short:   "Put releases of a platform together, look at them, and bring them where they are needed",
		Args:    cobra.ArbitraryArgs,
		RunE:    terminal.Group,
	}

	cmd.AddCommand(
		a.releaseNewCommand(), a.releaseInfoCommand(), a.releaseDiffCommand(), a.releaseExtractCommand(),
		a.releaseImageCommand(), a.releaseMirrorCommand(), a.releaseRenderCommand(), a.releaseVerifyCommand(), a.releaseSignCommand(),
	)
	return cmd
}

// bindSource adds the flags by which releases are found. The cluster is connected to only when
// it is asked for one.
func (a *app) bindSource(cmd *cobra.Command, source *releases.Source) {
	a.kube.bind(cmd)
	opm.BindRegistry(cmd, &source.Registry)
	known := &action.KnownReleases{Program: terminal.Version(), Connect: func() (client.Client, error) { return a.kube.client(cmd.ErrOrStderr()) }}
	cmd.Flags().StringVar(&known.Upstream, "upstream", "", "URL of the update service that is asked for versions that the cluster does not know (default: that of the cluster)")
	source.Resolver = known
}

// applier puts ConfigMaps into the cluster, and connects to it only then.
func (a *app) applier(stderr io.Writer) releases.Applier {
	return func(ctx context.Context, object *corev1.ConfigMap) error {
		c, err := a.kube.client(stderr)
		if err != nil {
			return err
		}
		return action.ApplyConfigMap(c)(ctx, object)
	}
}

// bindTrust adds the flags that say whose signatures count.
func bindTrust(cmd *cobra.Command, trust *releases.Trust) {
	flags := cmd.Flags()
	flags.StringArrayVar(&trust.Keyrings, "keyring", nil, "file with OpenPGP public keys, one of which must have signed; may be repeated, each must have signed")
	flags.StringArrayVar(&trust.Keys, "key", nil, "file with a public key of sigstore, which must have signed; may be repeated")
	flags.StringArrayVar(&trust.Stores, "store", nil, "URL of a store with OpenPGP signatures, as https://example.com/signatures or file:///folder; may be repeated")
	flags.StringArrayVar(&trust.Signatures, "signatures", nil, "file with a ConfigMap that holds OpenPGP signatures; may be repeated")
	flags.StringVar(&trust.Release, "trust-release", "", "release that says who signs releases, such as the one that the cluster has")
}

// argument returns the first argument, or "".
func argument(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

func (a *app) releaseNewCommand() *cobra.Command {
	var (
		build   releases.New
		created string
		out     terminal.Output
	)
	cmd := &cobra.Command{
		Use:   "new [NAME=IMAGE...]",
		Short: "Put a release image together, without a container engine",
		Long: `Put a release image together, without a container engine.

A release is made from a folder of manifests (--from-dir), from another release
(--from-release), from an ImageStream of a file or of a cluster of OpenShift
(--from-image-stream-file, --from-image-stream), or of images alone. Images given as
NAME=IMAGE are added, or take the place of those with the same name.

In a folder, manifests are called 0000_<runlevel>_<component>_<name>.yaml. The files
image-references and release-metadata may lie beside them. Images with the label
io.openshift.release.operator=true bring the manifests in their folder /manifests. In all
manifests, the images of the release are named by digest, 0.0.1-snapshot becomes the name
of the release, and 0.0.1-snapshot-<component> the version of that component.

With --verification-key and --verification-store the release says who signs its successors.
A cluster whose release does not say so accepts no update that is not forced.

The same input makes the same image.`,
		Example: `  # Make a release from a folder of manifests, and push it
  mainstay release new --from-dir ./platform --name 1.1.0 --previous 1.0.0 --to-image registry.example.com/releases:1.1.0

  # Change one image of a release
  mainstay release new --from-release registry.example.com/releases:1.1.0 --name 1.1.1 --previous 1.1.0 console=registry.example.com/console:fixed --to-image registry.example.com/releases:1.1.1

  # Only look whether it can be made
  mainstay release new --from-dir ./platform --name 1.1.0 --dry-run`,
		RunE: func(cmd *cobra.Command, args []string) error {
			build.Progress, build.Now = terminal.NewProgress(cmd.ErrOrStderr()), a.now
			if err := readBuild(&build, args, created); err != nil {
				return err
			}

			made, err := build.Run(cmd.Context())
			if err != nil {
				return err
			}
			if out.Format != "" {
				return terminal.PrintValue(cmd.OutOrStdout(), out.Format, made)
			}

			fmt.Fprintln(cmd.OutOrStdout(), made.Digest, made.Name, made.Created.UTC().Format(time.RFC3339))
			return nil
		},
	}

	a.bindSource(cmd, &build.Source)
	build.Streams = func(ctx context.Context, namespace, name string) ([]byte, error) {
		c, err := a.kube.client(cmd.ErrOrStderr())
		if err != nil {
			return nil, err
		}
		return action.ReadImageStream(ctx, c, namespace, name)
	}

	bindBuild(cmd, &build)
	cmd.Flags().StringVar(&created, "created", "", "when it was made, as 2026-01-31T12:00:00Z (default: as what it is made from says, or SOURCE_DATE_EPOCH)")
	out.Bind(cmd, terminal.FormatJSON, terminal.FormatYAML)

	return cmd
}

// bindBuild adds the flags that say what a release is made of, and where it goes.
func bindBuild(cmd *cobra.Command, build *releases.New) {
	flags := cmd.Flags()
	flags.StringVar(&build.FromDir, "from-dir", "", "folder of manifests to begin with")
	flags.StringVar(&build.Build.FromRelease, "from-release", "", "release to begin with")
	flags.StringVar(&build.FromStreamFile, "from-image-stream-file", "", "file with an ImageStream whose images to begin with")
	flags.StringVar(&build.FromStream, "from-image-stream", "", "ImageStream of the cluster whose images to begin with")
	flags.StringVarP(&build.StreamNamespace, "namespace", "n", "default", "namespace of --from-image-stream")
	flags.StringArrayVar(&build.VerificationKeys, "verification-key", nil, "file with OpenPGP public keys, one of which must have signed what clusters of the release are updated to; may be repeated, each must have signed")
	flags.StringArrayVar(&build.VerificationStores, "verification-store", nil, "URL of a store with their signatures, as https://example.com/signatures; may be repeated")
	flags.StringVar(&build.MappingFile, "mapping-file", "", "file with a line NAME=IMAGE for each image")
	flags.StringVar(&build.Build.Name, "name", "", "version of the release (default: that of what it is made from, or 0.0.1 with the time)")
	flags.StringSliceVar(&build.Build.Previous, "previous", nil, "versions from which clusters may be updated to it, with commas")
	flags.StringSliceVar(&build.Build.Next, "next", nil, "versions to which clusters may be updated from it, with commas")
	flags.StringToStringVar(&build.Build.Metadata, "metadata", nil, "text about the release, as KEY=VALUE; may be repeated")
	flags.StringVar(&build.Build.Base, "to-image-base", "", "image to build upon, or scratch for none")
	flags.StringVar(&build.Build.BaseTag, "to-image-base-tag", "", "image of the release to build upon (default: cluster-version-operator)")
	flags.BoolVar(&build.Build.KeepPlatforms, "keep-manifest-list", false, "make a release for all platforms that the image to build upon is there for")
	flags.StringSliceVar(&build.Build.Include, "include", nil, "images to keep though nothing names them, with commas")
	flags.StringSliceVar(&build.Build.Exclude, "exclude", nil, "images to leave out, with commas")
	flags.BoolVar(&build.Build.AllowMissing, "allow-missing-images", false, "let manifests name images that the release does not have")
	flags.BoolVar(&build.Build.SkipCheck, "skip-manifest-check", false, "take manifests as they are, also broken ones")
	flags.StringVar(&build.ToImage, "to-image", "", "reference with a tag to push the image to")
	flags.StringVar(&build.ToFile, "to-file", "", "file to write the image to, as an OCI archive")
	flags.StringVar(&build.ToDir, "to-dir", "", "folder to write the payload to")
	flags.StringVar(&build.ToSignature, "to-signature", "", "file for the statement about the image, to be signed elsewhere")
	flags.BoolVar(&build.DryRun, "dry-run", false, "push and write nothing")
}

// readBuild completes what the flags say by the arguments and by the time.
func readBuild(build *releases.New, args []string, created string) error {
	for _, arg := range args {
		mapping, err := releases.ParseMapping(arg)
		if err != nil {
			return &terminal.UsageError{Err: err}
		}
		build.Build.Images = append(build.Build.Images, mapping)
	}

	epoch := os.Getenv("SOURCE_DATE_EPOCH")
	switch {
	case created != "":
		at, err := time.Parse(time.RFC3339, created)
		if err != nil {
			return &terminal.UsageError{Err: errors.New("--created must be a time, as 2026-01-31T12:00:00Z")}
		}
		build.Build.Created = at
	case epoch != "":
		seconds, err := strconv.ParseInt(epoch, 10, 64)
		if err != nil {
			return &terminal.UsageError{Err: errors.New("SOURCE_DATE_EPOCH must be a number of seconds")}
		}
		build.Build.Created = time.Unix(seconds, 0)
	}

	return nil
}

func (a *app) releaseVerifyCommand() *cobra.Command {
	var verify releases.Verify
	cmd := &cobra.Command{
		Use:   "verify [IMAGE|VERSION]",
		Short: "Tell whether a release is signed",
		Long: `Tell whether a release is signed by those whose keys are given.

The release must be named by digest: what a tag names may change at any time. Each keyring
and each key must have signed. OpenPGP signatures are looked for in files with ConfigMaps,
then in stores; those of sigstore lie beside the image in its registry. Without a name it
is the release of the cluster.`,
		Example: `  # By an OpenPGP key, with signatures in a store
  mainstay release verify registry.example.com/releases@sha256:3d0e… --keyring releases.asc --store https://example.com/signatures

  # By a key of sigstore
  mainstay release verify registry.example.com/releases@sha256:3d0e… --key cosign.pub

  # By whoever signs the releases of this platform
  mainstay release verify 1.1.0 --trust-release 1.0.0`,
		Args: terminal.TakesUpTo(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			verify.Image = argument(args)
			digest, err := verify.Run(cmd.Context())
			if err != nil {
				return err
			}

			fmt.Fprintf(cmd.OutOrStdout(), "%s is signed\n", digest)
			return nil
		},
	}

	a.bindSource(cmd, &verify.Source)
	bindTrust(cmd, &verify.Trust)

	return cmd
}

func (a *app) releaseSignCommand() *cobra.Command {
	var (
		sign  releases.Sign
		apply bool
		out   terminal.Output
	)
	cmd := &cobra.Command{
		Use:   "sign IMAGE",
		Short: "Sign a release",
		Long: `Sign a release: state, with a key, that an image with this digest is a release.

An OpenPGP signature goes into a store, which is a folder that a web server may serve, into
a file with a ConfigMap, or into the cluster. One of sigstore goes beside the image in its
registry.`,
		Example: `  # With an OpenPGP key, into a store
  mainstay release sign registry.example.com/releases:1.1.0 --key releases.key --to-store ./signatures

  # With a key of sigstore
  mainstay release sign registry.example.com/releases:1.1.0 --sigstore-key cosign.key --passphrase-file passphrase`,
		Args: terminal.Takes("IMAGE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			sign.Image, sign.Now, sign.Progress = args[0], a.now, terminal.NewProgress(cmd.ErrOrStderr())
			if apply {
				sign.Apply = a.applier(cmd.ErrOrStderr())
			}

			signed, err := sign.Run(cmd.Context())
			if err != nil {
				return err
			}
			if out.Format != "" {
				return terminal.PrintValue(cmd.OutOrStdout(), out.Format, signed)
			}

			fmt.Fprintf(cmd.OutOrStdout(), "signed %s as %s\n", signed.Digest, signed.Reference)
			for _, place := range signed.Signatures {
				fmt.Fprintln(cmd.OutOrStdout(), "  "+place)
			}

			return nil
		},
	}

	a.bindSource(cmd, &sign.Source)
	flags := cmd.Flags()
	flags.StringVar(&sign.Key, "key", "", "file with an OpenPGP private key, as gpg --export-secret-keys writes it")
	flags.StringVar(&sign.SigstoreKey, "sigstore-key", "", "file with a private key of sigstore, as cosign generate-key-pair writes it, or in PKCS #8")
	flags.StringVar(&sign.PassphraseFile, "passphrase-file", "", "file whose first line opens the key")
	flags.StringVar(&sign.Reference, "reference", "", "what the release is called in what is signed (default: its repository, with its version as the tag)")
	flags.DurationVar(&sign.Lifetime, "lifetime", 0, "how long the OpenPGP signature is good, as 8760h (default: as long as the key)")
	flags.StringVar(&sign.ToStore, "to-store", "", "folder that keeps the signature by digest")
	flags.StringVar(&sign.ToConfigMap, "to-configmap", "", "file for a ConfigMap with the signature")
	flags.BoolVar(&apply, "apply", false, "put the ConfigMap with the signature into the cluster")
	out.Bind(cmd, terminal.FormatJSON, terminal.FormatYAML)

	return cmd
}
