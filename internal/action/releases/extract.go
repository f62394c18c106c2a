package releases

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/blang/semver/v4"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/release"
	"github.com/mainstay-dev/mainstay/internal/releaseimage"
)

// Extract takes files out of a release.
type Extract struct {
	Source
	// Image is the release: a reference, or a version that the resolver knows.
	Image string
	// To is the folder to write to. It is made if it does not exist.
	To string
	// File is the one file to give. Empty: all are written.
	File string
	// Included, if set, leaves out the manifests that the cluster would not have, and the
	// files that are no manifests.
	Included *Included
	// InstallConfig is a file that says more of the cluster of Included. Empty: none.
	InstallConfig string
	// Cloud, if CredentialsRequests is set, leaves out requests for other clouds. Empty: none
	// is left out.
	Cloud string
	// CredentialsRequests leaves out everything else than CredentialsRequests.
	CredentialsRequests bool
}

// Extracted is what was taken out.
type Extracted struct {
	// Digest of the release image, empty if it was named by it.
	Digest  string
	Created time.Time
	// Content of the one file that was asked for.
	Content []byte
	// Files are the names of those that were written, sorted.
	Files []string
}

// Run takes the files out.
func (a *Extract) Run(ctx context.Context) (*Extracted, error) {
	if err := a.check(); err != nil {
		return nil, err
	}

	if a.Included != nil && a.InstallConfig != "" {
		data, err := readFile(a.InstallConfig)
		if err != nil {
			return nil, err
		}

		included, err := a.Included.with(data)
		if err != nil {
			return nil, &report.Error{Object: fmt.Sprintf("file %q", a.InstallConfig), Err: err}
		}

		a.Included = &included
	}

	opened, err := a.open(ctx, a.Image)
	if err != nil {
		return nil, err
	}

	defer func() { _ = opened.Close() }() // It was only read.
	extracted := &Extracted{Created: opened.Created}
	if !image.IsCanonical(a.Image) {
		extracted.Digest = opened.Digest()
	}

	if a.File != "" {
		extracted.Content, err = opened.ReadFile(a.File)
		if errors.Is(err, fs.ErrNotExist) {
			err = &report.Error{Object: objectOf(a.Image), Err: fmt.Errorf("image did not contain %s", a.File)}
		}
		return extracted, err
	}

	files, err := a.files(opened)
	if err != nil {
		return nil, &report.Error{Object: objectOf(a.Image), Err: err}
	}

	extracted.Files, err = write(cmp.Or(a.To, "."), files)
	return extracted, err
}

// Contents returns the manifests that would be written, by the names of their files.
func (a *Extract) Contents(ctx context.Context) (map[string][]byte, error) {
	opened, err := a.open(ctx, a.Image)
	if err != nil {
		return nil, err
	}

	defer func() { _ = opened.Close() }() // It was only read.
	files, err := a.manifests(opened.Payload)
	if err != nil {
		return nil, &report.Error{Object: objectOf(a.Image), Err: err}
	}

	return files, nil
}

func (a *Extract) check() error {
	filtered := a.Included != nil || a.CredentialsRequests
	var err error
	switch {
	case a.File != "" && filtered:
		err = errors.New("one file is given as it is: it cannot be asked for together with a choice of manifests")
	case a.File != "" && a.To != "":
		err = errors.New("one file is printed: it cannot be asked for together with a folder")
	case a.Cloud != "" && !a.CredentialsRequests:
		err = errors.New("a cloud chooses among CredentialsRequests: ask for them")
	case a.Cloud != "" && cloudKinds[a.Cloud] == "":
		err = fmt.Errorf("the cloud %q is not known", a.Cloud)
	default:
		return nil
	}

	return &report.Error{Object: objectOf(a.Image), Err: err}
}

// files returns the content of the files to write.
func (a *Extract) files(opened *releaseimage.Image) (map[string][]byte, error) {
	files, err := a.manifests(opened.Payload)
	if err != nil || a.Included != nil || a.CredentialsRequests {
		return files, err
	}

	names, err := opened.ReleaseFiles()
	if err != nil {
		return nil, err
	}

	for _, name := range names {
		if release.IsManifestFile(name) {
			continue
		}
		if files[name], err = opened.ReadFile(name); err != nil {
			return nil, err
		}
	}

	return files, nil
}

// manifests returns the content of the files with manifests.
func (a *Extract) manifests(payload *release.Payload) (map[string][]byte, error) {
	chosen, err := a.choose(payload)
	if err != nil {
		return nil, err
	}
	return encode(chosen)
}

// encode writes manifests as YAML, by the names of their files.
func encode(manifests []release.Manifest) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, m := range manifests {
		data, err := yaml.Marshal(m.Object.Object)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.File, err)
		}
		name := path.Base(m.File)
		files[name] = slices.Concat(files[name], []byte("---\n"), data)
	}

	return files, nil
}

// choose returns the manifests to write.
func (a *Extract) choose(payload *release.Payload) ([]release.Manifest, error) {
	manifests := payload.Manifests
	if a.Included != nil {
		version, err := semver.Parse(payload.Metadata.Version)
		if err != nil {
			return nil, err
		}
		manifests = a.Included.choose(manifests, version.Major)
	}

	if a.CredentialsRequests {
		manifests = slices.DeleteFunc(slices.Clone(manifests), func(m release.Manifest) bool { return !isRequest(m, a.Cloud) })
	}
	return manifests, nil
}

// cloudKinds are the kinds of what a CredentialsRequest asks a cloud for.
var cloudKinds = map[string]string{
	"alibabacloud": "AlibabaCloudProviderSpec", "aws": "AWSProviderSpec", "azure": "AzureProviderSpec", "gcp": "GCPProviderSpec",
	"ibmcloud": "IBMCloudProviderSpec", "nutanix": "NutanixProviderSpec", "openstack": "OpenStackProviderSpec",
	"ovirt": "OvirtProviderSpec", "powervs": "IBMCloudPowerVSProviderSpec", "vsphere": "VSphereProviderSpec",
}

// isRequest reports whether an object is a CredentialsRequest, for a cloud if one is given.
func isRequest(m release.Manifest, cloud string) bool {
	key := m.Key()
	if key.Group != "cloudcredential.openshift.io" || key.Kind != "CredentialsRequest" {
		return false
	}
	spec, _ := m.Object.Object["spec"].(map[string]any)
	provider, _ := spec["providerSpec"].(map[string]any)
	return cloud == "" || provider["kind"] == cloudKinds[cloud]
}

// write writes the files into a folder, where none of them may be a link.
func write(dir string, files map[string][]byte) ([]string, error) {
	object := fmt.Sprintf("directory %q", dir)
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // a release is no secret
		return nil, &report.Error{Object: object, Err: bare(err)}
	}

	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, &report.Error{Object: object, Err: bare(err)}
	}

	defer func() { _ = root.Close() }() // What was written is closed.
	var names []string
	for name := range files {
		names = append(names, name)
	}

	slices.Sort(names)
	for _, name := range names {
		if err := root.WriteFile(name, files[name], 0o644); err != nil {
			return nil, &report.Error{Object: fmt.Sprintf("file %q", filepath.Join(dir, name)), Err: bare(err)}
		}
	}

	return names, nil
}

// Sentence says what was done, as those who read it in scripts expect it.
func (e *Extracted) Sentence() string {
	var b bytes.Buffer
	b.WriteString("Extracted release payload ")
	if e.Digest != "" {
		b.WriteString("from digest " + e.Digest + " ")
	}
	b.WriteString("created at " + e.Created.UTC().Format(time.RFC3339))
	return strings.TrimSpace(b.String())
}
