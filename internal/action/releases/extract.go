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

// Extract extracts files from a release.
type Extract struct {
	Source
	// Image is the release: a reference, or a version that Resolver finds.
	Image string
	// To is the output folder. It is created if necessary.
	To string
	// File is the name of a single file to return. Empty means that all files are written.
	File string
	// Included, if set, limits the output to the manifests that the cluster would contain.
	// Files that are not manifests are left out.
	Included *Included
	// InstallConfig is a file that completes Included. Empty means none.
	InstallConfig string
	// Cloud limits the output to CredentialsRequests for one cloud provider. It requires
	// CredentialsRequests. Empty means all.
	Cloud string
	// CredentialsRequests limits the output to CredentialsRequests.
	CredentialsRequests bool
}

// Extracted is the result of Extract.
type Extracted struct {
	// Digest is the digest of the release image. It is empty if the reference contains it.
	Digest  string
	Created time.Time
	// Content is the content of the single requested file.
	Content []byte
	// Files are the sorted names of the written files.
	Files []string
}

// Run extracts the files.
func (a *Extract) Run(ctx context.Context) (*Extracted, error) {
	if err := a.validateOptions(); err != nil {
		return nil, err
	}

	if a.Included != nil && a.InstallConfig != "" {
		data, err := readUserFile(a.InstallConfig)
		if err != nil {
			return nil, err
		}

		included, err := a.Included.mergeInstallConfig(data)
		if err != nil {
			return nil, &report.Error{Object: fmt.Sprintf("file %q", a.InstallConfig), Err: err}
		}

		a.Included = &included
	}

	opened, err := a.openRelease(ctx, a.Image)
	if err != nil {
		return nil, err
	}
	defer func() { _ = opened.Close() }() // it was only read
	extracted := &Extracted{Created: opened.Created}
	if !image.IsCanonical(a.Image) {
		extracted.Digest = opened.Digest()
	}

	if a.File != "" {
		extracted.Content, err = opened.ReadFile(a.File)
		if errors.Is(err, fs.ErrNotExist) {
			err = &report.Error{Object: releaseObject(a.Image), Err: fmt.Errorf("image did not contain %s", a.File)}
		}
		return extracted, err
	}

	files, err := a.collectFiles(opened)
	if err != nil {
		return nil, &report.Error{Object: releaseObject(a.Image), Err: err}
	}

	extracted.Files, err = writeFilesToFolder(cmp.Or(a.To, "."), files)
	return extracted, err
}

// Contents returns the selected manifests by file name.
func (a *Extract) Contents(ctx context.Context) (map[string][]byte, error) {
	opened, err := a.openRelease(ctx, a.Image)
	if err != nil {
		return nil, err
	}
	defer func() { _ = opened.Close() }() // it was only read
	files, err := a.encodeManifests(opened.Payload)
	if err != nil {
		return nil, &report.Error{Object: releaseObject(a.Image), Err: err}
	}

	return files, nil
}

// validateOptions refuses options that contradict each other.
func (a *Extract) validateOptions() error {
	filtered := a.Included != nil || a.CredentialsRequests
	var err error
	switch {
	case a.File != "" && filtered:
		err = errors.New("a single file is extracted unchanged: it cannot be combined with a selection of manifests")
	case a.File != "" && a.To != "":
		err = errors.New("a single file is printed: it cannot be combined with a folder")
	case a.Cloud != "" && !a.CredentialsRequests:
		err = errors.New("a cloud selects among CredentialsRequests: extract only these")
	case a.Cloud != "" && providerSpecKinds[a.Cloud] == "":
		err = fmt.Errorf("the cloud %q is not known", a.Cloud)
	default:
		return nil
	}

	return &report.Error{Object: releaseObject(a.Image), Err: err}
}

// collectFiles returns the content of the files to write, by name.
func (a *Extract) collectFiles(opened *releaseimage.Image) (map[string][]byte, error) {
	files, err := a.encodeManifests(opened.Payload)
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

// encodeManifests returns the content of the files with the selected manifests, by name.
func (a *Extract) encodeManifests(payload *release.Payload) (map[string][]byte, error) {
	chosen, err := a.selectManifests(payload)
	if err != nil {
		return nil, err
	}
	return encodeByFile(chosen)
}

// encodeByFile encodes manifests as YAML, grouped by file name.
func encodeByFile(manifests []release.Manifest) (map[string][]byte, error) {
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

// selectManifests returns the manifests to write.
func (a *Extract) selectManifests(payload *release.Payload) ([]release.Manifest, error) {
	manifests := payload.Manifests
	if a.Included != nil {
		version, err := semver.Parse(payload.Metadata.Version)
		if err != nil {
			return nil, err
		}
		manifests = a.Included.selectManifests(manifests, version.Major)
	}

	if a.CredentialsRequests {
		manifests = slices.DeleteFunc(slices.Clone(manifests), func(m release.Manifest) bool { return !isCredentialsRequest(m, a.Cloud) })
	}
	return manifests, nil
}

// providerSpecKinds are the kinds of a CredentialsRequest's providerSpec by cloud provider.
var providerSpecKinds = map[string]string{
	"alibabacloud": "AlibabaCloudProviderSpec", "aws": "AWSProviderSpec", "azure": "AzureProviderSpec", "gcp": "GCPProviderSpec",
	"ibmcloud": "IBMCloudProviderSpec", "nutanix": "NutanixProviderSpec", "openstack": "OpenStackProviderSpec",
	"ovirt": "OvirtProviderSpec", "powervs": "IBMCloudPowerVSProviderSpec", "vsphere": "VSphereProviderSpec",
}

// isCredentialsRequest reports whether an object is a CredentialsRequest for a cloud
// provider. An empty cloud means any.
func isCredentialsRequest(m release.Manifest, cloud string) bool {
	key := m.Key()
	if key.Group != "cloudcredential.openshift.io" || key.Kind != "CredentialsRequest" {
		return false
	}
	spec, _ := m.Object.Object["spec"].(map[string]any)
	provider, _ := spec["providerSpec"].(map[string]any)
	return cloud == "" || provider["kind"] == providerSpecKinds[cloud]
}

// writeFilesToFolder writes files into a folder and returns their sorted names. Links
// cannot lead outside of the folder.
func writeFilesToFolder(dir string, files map[string][]byte) ([]string, error) {
	object := fmt.Sprintf("directory %q", dir)
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // a release is no secret
		return nil, &report.Error{Object: object, Err: stripPath(err)}
	}

	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, &report.Error{Object: object, Err: stripPath(err)}
	}
	defer func() { _ = root.Close() }() // all files in it are closed
	var names []string
	for name := range files {
		names = append(names, name)
	}

	slices.Sort(names)
	for _, name := range names {
		if err := root.WriteFile(name, files[name], 0o644); err != nil {
			return nil, &report.Error{Object: fmt.Sprintf("file %q", filepath.Join(dir, name)), Err: stripPath(err)}
		}
	}

	return names, nil
}

// Summary returns a summary of the result in the format that scripts parse.
func (e *Extracted) Summary() string {
	var b bytes.Buffer
	b.WriteString("Extracted release payload ")
	if e.Digest != "" {
		b.WriteString("from digest " + e.Digest + " ")
	}
	b.WriteString("created at " + e.Created.UTC().Format(time.RFC3339))
	return strings.TrimSpace(b.String())
}
