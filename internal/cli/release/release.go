// Package release implements `mainstay release`, which builds, inspects, signs, verifies and mirrors platform
// releases.
package release

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
	"github.com/mainstay-dev/mainstay/internal/cli/kube"
	"github.com/mainstay-dev/mainstay/internal/cli/opm"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// NewCommand returns the command `mainstay release`.
func NewCommand(session *kube.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "release",
		Aliases: []string{"releases"},
		Short:   "Build, inspect, sign, verify and mirror platform releases",
		Args:    cobra.ArbitraryArgs,
		RunE:    terminal.RunGroup,
	}

	cmd.AddCommand(
		newNewCommand(session), newInfoCommand(session), newDiffCommand(session), newExtractCommand(session),
		newImageCommand(session), newMirrorCommand(session), newRenderCommand(session), newVerifyCommand(session), newSignCommand(session),
	)
	return cmd
}

// addReleaseSourceFlags adds the flags that select how releases are found. The client of the cluster
// is created only if a release is looked up in the cluster.
func addReleaseSourceFlags(session *kube.Session, cmd *cobra.Command, source *releases.Source) {
	session.AddFlags(cmd)
	opm.AddRegistryFlags(cmd, &source.Registry)
	known := &action.KnownReleases{Program: terminal.Version(), Connect: func() (client.Client, error) { return session.NewClient(cmd.ErrOrStderr()) }}
	cmd.Flags().StringVar(&known.Upstream, "upstream", "", "URL of the update service for versions that the cluster does not know (default: the update service of the cluster)")
	source.Resolver = known
}

// newConfigMapApplier returns a function that applies a ConfigMap to the cluster. The client is
// created at the first call.
func newConfigMapApplier(session *kube.Session, stderr io.Writer) releases.Applier {
	return func(ctx context.Context, object *corev1.ConfigMap) error {
		c, err := session.NewClient(stderr)
		if err != nil {
			return err
		}
		return action.ApplyConfigMap(c)(ctx, object)
	}
}

// addTrustFlags adds the flags that select the keys and stores for signature verification.
func addTrustFlags(cmd *cobra.Command, trust *releases.Trust) {
	flags := cmd.Flags()
	flags.StringArrayVar(&trust.Keyrings, "keyring", nil, "file with OpenPGP public keys; a signature by one of them is required; can be repeated to require a signature for each file")
	flags.StringArrayVar(&trust.Keys, "key", nil, "file with a sigstore public key; a signature by this key is required; can be repeated to require all of them")
	flags.StringArrayVar(&trust.Stores, "store", nil, "URL of a store with OpenPGP signatures, for example https://example.com/signatures or file:///directory; can be repeated")
	flags.StringArrayVar(&trust.Signatures, "signatures", nil, "file with a ConfigMap that contains OpenPGP signatures; can be repeated")
	flags.StringVar(&trust.Release, "trust-release", "", "release whose verification keys and stores are used, such as the current release of the cluster")
}

// firstArgument returns the first argument, or "" if there is none.
func firstArgument(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

func newNewCommand(session *kube.Session) *cobra.Command {
	var (
		build   releases.New
		created string
		out     terminal.Output
	)
	cmd := &cobra.Command{
		Use:   "new [NAME=IMAGE...]",
		Short: "Build a release image",
		Long: `Build a release image. No container engine is required.

A release is built from a directory of manifests (--from-dir), from another release
(--from-release), from an ImageStream in a file or in an OpenShift cluster
(--from-image-stream-file, --from-image-stream), or from images alone. Images that are given as
NAME=IMAGE are added, or replace the image with the same name.

Manifests in a directory are named 0000_<runlevel>_<component>_<name>.yaml. The directory may also
contain the files image-references and release-metadata. An image with the label
io.openshift.release.operator=true contributes the manifests in its directory /manifests. In all
manifests, references to images of the release are replaced by digests, 0.0.1-snapshot by the name
of the release, and 0.0.1-snapshot-<component> by the version of that component.

--verification-key and --verification-store add the keys and stores that clusters use to verify the
updates of this release. Without them, a cluster with this release accepts only forced updates.

Builds are reproducible: the same input results in the same image.`,
		Example: `  # Build a release from a directory of manifests, and push it
  mainstay release new --from-dir ./platform --name 1.1.0 --previous 1.0.0 --to-image registry.example.com/releases:1.1.0

  # Replace one image of a release
  mainstay release new --from-release registry.example.com/releases:1.1.0 --name 1.1.1 --previous 1.1.0 console=registry.example.com/console:fixed --to-image registry.example.com/releases:1.1.1

  # Check whether the release can be built
  mainstay release new --from-dir ./platform --name 1.1.0 --dry-run`,
		RunE: func(cmd *cobra.Command, args []string) error {
			build.Progress, build.Now = terminal.NewProgress(cmd.ErrOrStderr()), session.Now
			if err := completeBuild(&build, args, created); err != nil {
				return err
			}

			built, err := build.Run(cmd.Context())
			if err != nil {
				return err
			}
			if out.Format != "" {
				return terminal.PrintValue(cmd.OutOrStdout(), out.Format, built)
			}

			fmt.Fprintln(cmd.OutOrStdout(), built.Digest, built.Name, built.Created.UTC().Format(time.RFC3339))
			return nil
		},
	}

	addReleaseSourceFlags(session, cmd, &build.Source)
	build.Streams = func(ctx context.Context, namespace, name string) ([]byte, error) {
		c, err := session.NewClient(cmd.ErrOrStderr())
		if err != nil {
			return nil, err
		}
		return action.ReadImageStream(ctx, c, namespace, name)
	}

	addBuildFlags(cmd, &build)
	cmd.Flags().StringVar(&created, "created", "", "creation time, for example 2026-01-31T12:00:00Z (default: $SOURCE_DATE_EPOCH, else the creation time of the source)")
	out.AddFlag(cmd, terminal.FormatJSON, terminal.FormatYAML)

	return cmd
}

// addBuildFlags adds the flags that select the content and the destination of a release.
func addBuildFlags(cmd *cobra.Command, build *releases.New) {
	flags := cmd.Flags()
	flags.StringVar(&build.FromDir, "from-dir", "", "directory of manifests to build from")
	flags.StringVar(&build.Build.FromRelease, "from-release", "", "release to build from")
	flags.StringVar(&build.FromStreamFile, "from-image-stream-file", "", "file with an ImageStream to build from")
	flags.StringVar(&build.FromStream, "from-image-stream", "", "ImageStream in the cluster to build from")
	flags.StringVarP(&build.StreamNamespace, "namespace", "n", "default", "namespace of --from-image-stream")
	flags.StringArrayVar(&build.VerificationKeys, "verification-key", nil, "file with OpenPGP public keys; clusters with this release require that one of them signed an update; can be repeated to require a signature for each file")
	flags.StringArrayVar(&build.VerificationStores, "verification-store", nil, "URL of a store with the signatures of updates, for example https://example.com/signatures; can be repeated")
	flags.StringVar(&build.MappingFile, "mapping-file", "", "file with a line NAME=IMAGE for each image")
	flags.StringVar(&build.Build.Name, "name", "", "version of the release (default: the version of the source, or 0.0.1 with the time)")
	flags.StringSliceVar(&build.Build.Previous, "previous", nil, "versions that can be updated to this release, separated by commas")
	flags.StringSliceVar(&build.Build.Next, "next", nil, "versions that this release can be updated to, separated by commas")
	flags.StringToStringVar(&build.Build.Metadata, "metadata", nil, "metadata of the release, as KEY=VALUE; can be repeated")
	flags.StringVar(&build.Build.Base, "to-image-base", "", "base image, or scratch for none")
	flags.StringVar(&build.Build.BaseTag, "to-image-base-tag", "", "image of the release to use as base image (default: cluster-version-operator)")
	flags.BoolVar(&build.Build.KeepPlatforms, "keep-manifest-list", false, "build a release for all platforms of the base image")
	flags.StringSliceVar(&build.Build.Include, "include", nil, "images to keep although no manifest references them, separated by commas")
	flags.StringSliceVar(&build.Build.Exclude, "exclude", nil, "images to omit, separated by commas")
	flags.BoolVar(&build.Build.AllowMissing, "allow-missing-images", false, "allow manifests to reference images that the release does not contain")
	flags.BoolVar(&build.Build.SkipCheck, "skip-manifest-check", false, "do not validate the manifests")
	flags.StringVar(&build.ToImage, "to-image", "", "reference with a tag to push the image to")
	flags.StringVar(&build.ToFile, "to-file", "", "file to write the image to, as an OCI archive")
	flags.StringVar(&build.ToDir, "to-dir", "", "directory to write the payload to")
	flags.StringVar(&build.ToSignature, "to-signature", "", "file to write the unsigned signature payload of the image to")
	flags.BoolVar(&build.DryRun, "dry-run", false, "do not push or write anything")
}

// completeBuild adds the image mappings of the arguments and the creation time to the options.
func completeBuild(build *releases.New, args []string, created string) error {
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
			return &terminal.UsageError{Err: errors.New("--created must be a time, for example 2026-01-31T12:00:00Z")}
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

func newVerifyCommand(session *kube.Session) *cobra.Command {
	var verify releases.Verify
	cmd := &cobra.Command{
		Use:   "verify [IMAGE|VERSION]",
		Short: "Verify the signatures of a release",
		Long: `Verify that a release is signed by the given keys.

The release must be specified by digest, because a tag can change at any time. A signature is
required for each keyring and each key. OpenPGP signatures are read from files with ConfigMaps and
then from stores. Sigstore signatures are read from the registry of the image. Without an argument,
the release of the cluster is verified.`,
		Example: `  # Verify with an OpenPGP key and a signature store
  mainstay release verify registry.example.com/releases@sha256:3d0e… --keyring releases.asc --store https://example.com/signatures

  # Verify with a sigstore key
  mainstay release verify registry.example.com/releases@sha256:3d0e… --key cosign.pub

  # Verify with the keys that another release of the platform specifies
  mainstay release verify 1.1.0 --trust-release 1.0.0`,
		Args: terminal.MaximumArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			verify.Image = firstArgument(args)
			digest, err := verify.Run(cmd.Context())
			if err != nil {
				return err
			}

			fmt.Fprintf(cmd.OutOrStdout(), "%s is signed\n", digest)
			return nil
		},
	}

	addReleaseSourceFlags(session, cmd, &verify.Source)
	addTrustFlags(cmd, &verify.Trust)

	return cmd
}

func newSignCommand(session *kube.Session) *cobra.Command {
	var (
		sign  releases.Sign
		apply bool
		out   terminal.Output
	)
	cmd := &cobra.Command{
		Use:   "sign IMAGE",
		Short: "Sign a release",
		Long: `Sign the digest of a release image.

An OpenPGP signature is written to a store, which is a directory that a web server can serve, to a
file with a ConfigMap, or to the cluster. A sigstore signature is pushed to the registry of the
image.`,
		Example: `  # Sign with an OpenPGP key, and write the signature to a store
  mainstay release sign registry.example.com/releases:1.1.0 --key releases.key --to-store ./signatures

  # Sign with a sigstore key
  mainstay release sign registry.example.com/releases:1.1.0 --sigstore-key cosign.key --passphrase-file passphrase`,
		Args: terminal.ExactArgs("IMAGE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			sign.Image, sign.Now, sign.Progress = args[0], session.Now, terminal.NewProgress(cmd.ErrOrStderr())
			if apply {
				sign.Apply = newConfigMapApplier(session, cmd.ErrOrStderr())
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

	addReleaseSourceFlags(session, cmd, &sign.Source)
	flags := cmd.Flags()
	flags.StringVar(&sign.Key, "key", "", "file with an OpenPGP private key, as written by gpg --export-secret-keys")
	flags.StringVar(&sign.SigstoreKey, "sigstore-key", "", "file with a sigstore private key, as written by cosign generate-key-pair, or in PKCS #8")
	flags.StringVar(&sign.PassphraseFile, "passphrase-file", "", "file whose first line is the passphrase of the key")
	flags.StringVar(&sign.Reference, "reference", "", "image reference to sign for (default: the repository of the release, with its version as the tag)")
	terminal.AddDurationFlag(cmd, &sign.Lifetime, "lifetime", 0, "validity of the OpenPGP signature, for example 8760h (default: the validity of the key)")
	flags.StringVar(&sign.ToStore, "to-store", "", "directory of the signature store")
	flags.StringVar(&sign.ToConfigMap, "to-configmap", "", "file to write a ConfigMap with the signature to")
	flags.BoolVar(&apply, "apply", false, "apply the ConfigMap with the signature to the cluster")
	out.AddFlag(cmd, terminal.FormatJSON, terminal.FormatYAML)

	return cmd
}
