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

// Program takes a program for people out of a release, of the version that belongs to it.
type Program struct {
	Source
	// Image is the release: a reference, or a version that the resolver knows.
	Image string
	// Name of the program: mainstay or oc.
	Name string
	// System is what it is to run on: an operating system in the words of GOOS, and an
	// architecture in those of GOARCH behind a slash. Empty: this machine.
	System string
	// To is the folder to write to. It is made if it does not exist. Empty: the current one.
	To string
}

// place is where releases have a program: for a system, in an image, at a path. A system
// without an architecture stands for that of the image.
type place struct{ system, image, file string }

// programs are where releases have programs.
var programs = map[string][]place{
	"mainstay": {{"linux", "cluster-version-operator", "usr/bin/mainstay"}},
	"oc": {
		{"linux/amd64", "cli-artifacts", "usr/share/openshift/linux_amd64/oc"}, {"linux/arm64", "cli-artifacts", "usr/share/openshift/linux_arm64/oc"},
		{"linux/ppc64le", "cli-artifacts", "usr/share/openshift/linux_ppc64le/oc"}, {"linux/s390x", "cli-artifacts", "usr/share/openshift/linux_s390x/oc"},
		{"darwin/amd64", "cli-artifacts", "usr/share/openshift/mac/oc"}, {"darwin/arm64", "cli-artifacts", "usr/share/openshift/mac_arm64/oc"},
		{"windows/amd64", "cli-artifacts", "usr/share/openshift/windows/oc.exe"},
	},
}

// Run writes the program, and gives the name of its file.
func (a *Program) Run(ctx context.Context) (string, error) {
	system := cmp.Or(a.System, runtime.GOOS+"/"+runtime.GOARCH)
	if !strings.Contains(system, "/") {
		system += "/" + runtime.GOARCH
	}

	operating, architecture, _ := strings.Cut(system, "/")
	places, known := programs[a.Name]
	if !known {
		return "", &report.Error{Object: fmt.Sprintf("program %q", a.Name), Err: errors.New("is not known; there are mainstay and oc")}
	}

	i := slices.IndexFunc(places, func(at place) bool { return at.system == system || at.system == operating })
	if i < 0 {
		return "", &report.Error{Object: fmt.Sprintf("program %q", a.Name), Err: fmt.Errorf("no release has it for %s", system)}
	}

	payload, where, err := a.payload(ctx, a.Image, "", release.Options{})
	if err != nil {
		return "", err
	}

	pullSpec, ok := payload.Images.PullSpec(places[i].image)
	if !ok {
		return "", fmt.Errorf("no image tag %q exists in the release image %s", places[i].image, where)
	}

	written, err := a.take(ctx, a.clients(pullSpec).For(architecture), pullSpec, places[i], architecture)
	if err != nil {
		return "", &report.Error{Object: fmt.Sprintf("image %q", places[i].image), Err: err}
	}

	return written, nil
}

// take writes a file of an image into the folder.
func (a *Program) take(ctx context.Context, client *image.Client, pullSpec string, from place, architecture string) (string, error) {
	file := from.file
	pulled, err := client.Pull(ctx, pullSpec)
	if err != nil {
		return "", err
	}

	defer func() { _ = pulled.Close() }() // It was only read.
	if _, has := pulled.Platform(); !strings.Contains(from.system, "/") && has != architecture {
		return "", fmt.Errorf("it is for %s, not for %s", has, architecture)
	}

	files, _, err := pulled.Files(ctx, "/"+path.Dir(file), "")
	if err != nil {
		return "", err
	}

	defer func() { _ = files.Close() }() // It was only read.
	content, err := files.Open(path.Base(file))
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("there is no file /%s", file)
	}
	if err != nil {
		return "", err
	}

	defer func() { _ = content.Close() }() // It was only read.
	dir := cmp.Or(a.To, ".")
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // a program is no secret
		return "", err
	}

	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}

	defer func() { _ = root.Close() }() // What was written is closed.
	written, err := root.OpenFile(path.Base(file), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return "", err
	}

	_, err = io.Copy(written, content)
	return filepath.Join(dir, path.Base(file)), errors.Join(err, written.Close())
}
