package releases

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/release"
)

// Program extracts a client program from a release. Its version belongs to that release.
type Program struct {
	Source
	// Image is the release: a reference, or a version that Resolver finds.
	Image string
	// Name is the name of the program: mainstay or oc.
	Name string
	// System is the target platform as GOOS or GOOS/GOARCH. Empty means the platform of
	// this machine.
	System string
	// To is the output folder. It is created if necessary. Empty means the current folder.
	To string
}

// programLocation is where a release contains a program: the platform, the image and the
// path in the image. A platform without an architecture means the architecture of the
// image.
type programLocation struct{ system, image, file string }

// programLocations are the locations by program.
var programLocations = map[string][]programLocation{
	"mainstay": {{"linux", "cluster-version-operator", "usr/bin/mainstay"}},
	"oc": {
		{"linux/amd64", "cli-artifacts", "usr/share/openshift/linux_amd64/oc"}, {"linux/arm64", "cli-artifacts", "usr/share/openshift/linux_arm64/oc"},
		{"linux/ppc64le", "cli-artifacts", "usr/share/openshift/linux_ppc64le/oc"}, {"linux/s390x", "cli-artifacts", "usr/share/openshift/linux_s390x/oc"},
		{"darwin/amd64", "cli-artifacts", "usr/share/openshift/mac/oc"}, {"darwin/arm64", "cli-artifacts", "usr/share/openshift/mac_arm64/oc"},
		{"windows/amd64", "cli-artifacts", "usr/share/openshift/windows/oc.exe"},
	},
}

// Run writes the program and returns the name of its file.
func (a *Program) Run(ctx context.Context) (string, error) {
	system := cmp.Or(a.System, runtime.GOOS+"/"+runtime.GOARCH)
	if !strings.Contains(system, "/") {
		system += "/" + runtime.GOARCH
	}

	operating, architecture, _ := strings.Cut(system, "/")
	places, known := programLocations[a.Name]
	if !known {
		return "", &report.Error{Object: fmt.Sprintf("program %q", a.Name), Err: errors.New("it is unknown: choose mainstay or oc")}
	}

	i := slices.IndexFunc(places, func(at programLocation) bool { return at.system == system || at.system == operating })
	if i < 0 {
		return "", &report.Error{Object: fmt.Sprintf("program %q", a.Name), Err: fmt.Errorf("releases do not contain it for %s", system)}
	}

	payload, where, err := a.loadPayload(ctx, a.Image, "", release.Options{})
	if err != nil {
		return "", err
	}

	pullSpec, ok := payload.Images.PullSpec(places[i].image)
	if !ok {
		return "", fmt.Errorf("no image tag %q exists in the release image %s", places[i].image, where)
	}

	written, err := a.extractProgram(ctx, a.newRegistryClient(pullSpec).ForArchitecture(architecture), pullSpec, places[i], architecture)
	if err != nil {
		return "", &report.Error{Object: fmt.Sprintf("image %q", places[i].image), Err: err}
	}

	return written, nil
}

// extractProgram copies the program from its image into the output folder. It returns the
// name of the file.
func (a *Program) extractProgram(ctx context.Context, client *image.Client, pullSpec string, from programLocation, architecture string) (string, error) {
	file := from.file
	pulled, err := client.Pull(ctx, pullSpec)
	if err != nil {
		return "", err
	}
	defer func() { _ = pulled.Close() }() // it was only read
	if _, has := pulled.Platform(); !strings.Contains(from.system, "/") && has != architecture {
		return "", fmt.Errorf("it is for %s, not for %s", has, architecture)
	}

	files, _, err := pulled.Files(ctx, "/"+path.Dir(file), "")
	if err != nil {
		return "", err
	}
	defer func() { _ = files.Close() }() // it was only read
	content, err := files.Open(path.Base(file))
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("there is no file /%s", file)
	}
	if err != nil {
		return "", err
	}
	defer func() { _ = content.Close() }() // it was only read
	dir := cmp.Or(a.To, ".")
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // a program is no secret
		return "", err
	}

	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer func() { _ = root.Close() }() // all files in it are closed
	written, err := root.OpenFile(path.Base(file), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return "", err
	}

	_, err = io.Copy(written, content)
	return filepath.Join(dir, path.Base(file)), errors.Join(err, written.Close())
}
