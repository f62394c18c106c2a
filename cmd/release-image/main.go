// Command release-image builds Mainstay's own release image, with the image of its components, into an
// OCI layout or a registry. `make release` builds and runs it.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/mainstay-dev/mainstay/internal/platform"
)

// defaultComponentName is the name of the components' image in a release that is not in a
// registry.
const defaultComponentName = "ghcr.io/mainstay-dev/mainstay"

func main() {
	b := &platform.Build{Root: "."}
	flag.StringVar(&b.Program, "program", "bin/mainstay", "the built mainstay of this version")
	flag.StringVar(&b.Version, "version", "", "version of the release")
	previous := flag.String("previous", "", "comma-separated versions from which clusters may be updated to it")
	ref := flag.String("ref", "", "repository and tag to push the release to; if unset, it is written to the folder of --layout")
	folder := flag.String("layout", "bin/release", "folder for an OCI layout, which is replaced")
	imageFile := flag.String("image-file", "", "file that gets the reference of the components' image, by digest, which users install; if unset, none is written")
	flag.Func("verification-key", "file with OpenPGP public keys, which must have signed what clusters are updated to; may be repeated", addFlag(b, "--verification-key"))
	flag.Func("verification-store", "URL of a store with their signatures; may be repeated", addFlag(b, "--verification-store"))
	flag.Parse()
	if *previous != "" {
		b.Previous = strings.Split(*previous, ",")
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	images, err := buildRelease(ctx, *b, *ref, *folder)
	stop()
	if err == nil && *imageFile != "" {
		err = writeImageFile(*imageFile, images.Component, *ref != "")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}

	fmt.Printf("release %s  %s\nimage          %s\n", b.Version, images.Release, images.Component)
	if len(b.Flags) == 0 {
		fmt.Println("It does not say who signs its successors: clusters that run it refuse every update that is not forced. Name a keyring and a store: make release KEYS=releases.asc STORE=https://example.com/signatures")
	}
}

// addFlag returns a function that adds a flag to the build, unless its value is empty.
func addFlag(b *platform.Build, name string) func(string) error {
	return func(value string) error {
		if value != "" {
			b.Flags = append(b.Flags, name, value)
		}
		return nil
	}
}

// writeImageFile writes the reference of the components' image to a file.
func writeImageFile(file, component string, isPushed bool) error {
	reference, err := publishedReference(component, isPushed)
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(reference+"\n"), 0o644)
}

// publishedReference returns the reference by digest under which users pull the components' image. An image in an OCI
// layout, FOLDER:TAG@DIGEST, is published under the default name.
func publishedReference(component string, isPushed bool) (string, error) {
	reference := component
	if !isPushed {
		reference = defaultComponentName + "@" + component[strings.LastIndex(component, "@")+1:]
	}
	if _, err := name.NewDigest(reference); err != nil {
		return "", fmt.Errorf("the components' image %q has no digest: %w", component, err)
	}

	return reference, nil
}

// buildRelease builds the release and pushes it to a registry or writes it to an OCI layout.
func buildRelease(ctx context.Context, b platform.Build, ref, folder string) (*platform.Images, error) {
	dir, err := os.MkdirTemp("", "mainstay-release-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // The images have been delivered.
	manifests := filepath.Join(dir, "payload")
	if err := os.Mkdir(manifests, 0o755); err != nil {
		return nil, err
	}

	if ref != "" {
		if _, err := name.NewTag(ref); err != nil {
			return nil, fmt.Errorf("where the release goes: %w", err)
		}
		b.Release, b.Image = ref, ref+"-mainstay"
		return b.Run(ctx, manifests)
	}

	return buildIntoLayout(ctx, b, dir, manifests, folder)
}

// buildIntoLayout builds with a temporary registry. The release does not contain the address of
// that registry, so that its digest is reproducible.
func buildIntoLayout(ctx context.Context, b platform.Build, dir, manifests, folder string) (*platform.Images, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}

	server := &http.Server{Handler: registry.New(registry.Logger(log.New(io.Discard, "", 0))), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // It ends by being closed.
	defer func() { _ = server.Close() }()      // Its content is no longer needed.
	host := fmt.Sprintf("localhost:%d", listener.Addr().(*net.TCPAddr).Port)
	b.Image, b.Release, b.Name = host+"/mainstay:release", host+"/release:release", defaultComponentName
	b.RegistriesConf = filepath.Join(dir, "registries.conf")
	conf := fmt.Sprintf("[[registry]]\nprefix = %q\nlocation = %q\ninsecure = true\n", defaultComponentName, host+"/mainstay")
	if err := os.WriteFile(b.RegistriesConf, []byte(conf), 0o644); err != nil {
		return nil, err
	}

	images, err := b.Run(ctx, manifests)
	if err != nil {
		return nil, err
	}

	return images, saveLayout(ctx, images, b.Version, folder)
}

// saveLayout writes both images into an OCI layout, and replaces their references by those in the
// layout.
func saveLayout(ctx context.Context, images *platform.Images, version, folder string) error {
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		return err
	}

	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}

	for _, image := range []struct {
		tag       string
		reference *string
	}{{version, &images.Release}, {version + "-mainstay", &images.Component}} {
		digest, err := name.NewDigest(*image.reference)
		if err != nil {
			return err
		}

		pulled, err := remote.Image(digest, remote.WithContext(ctx))
		if err == nil {
			err = path.AppendImage(pulled, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": image.tag}))
		}
		if err != nil {
			return fmt.Errorf("writing image %s to %s: %w", image.tag, folder, err)
		}

		*image.reference = folder + ":" + image.tag + "@" + digest.DigestStr()
	}

	return nil
}
