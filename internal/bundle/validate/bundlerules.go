package validate

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// OLM Classic unpacks a bundle into one object, and an API server accepts no object above 1
// MiB.
const (
	maxCompressedBytes  = 1 << 20
	warnCompressedBytes = maxCompressedBytes * 85 / 100
)

// checkBundle checks the parts of a bundle against each other.
func checkBundle(s *decodedBundle, _ Options, found *findings) {
	s.checkSize(found)
	if s.csv == nil {
		return
	}

	s.checkOwnedCRDs(found)
	s.checkServiceAccounts(found)
	s.checkReleaseName(found)
	for i, related := range s.csv.Spec.RelatedImages {
		if related.Image == "" {
			found.addAboutValue(Error, s.csv.Name, "relatedImages[%d] has an empty image field", i)
		} else if err := fbc.CheckPullSpec(related.Image); err != nil {
			found.addAboutValue(Error, s.csv.Name, "relatedImages[%d] has an invalid image pullspec %q: %v", i, related.Image, err)
		}
	}
}

// checkOwnedCRDs compares the CRDs that the CSV owns with those of the bundle. The CSV does
// not have to name all versions of an owned CRD.
func (s *decodedBundle) checkOwnedCRDs(found *findings) {
	bundled := map[schema.GroupVersionKind]bool{}
	ownedNames := map[string]bool{}
	for _, crd := range s.crds {
		for _, version := range crd.versions {
			gvk := schema.GroupVersionKind{Group: crd.internal.Spec.Group, Version: version, Kind: crd.kind}
			if bundled[gvk] {
				found.addAboutValue(Error, gvk, "duplicate CRD %q in bundle %q", gvk, s.csv.Name)
			}
			bundled[gvk] = true
		}
	}

	for _, owned := range s.csv.Spec.CustomResourceDefinitions.Owned {
		ownedNames[owned.Name] = true
		_, group, _ := strings.Cut(owned.Name, ".")
		if gvk := (schema.GroupVersionKind{Group: group, Version: owned.Version, Kind: owned.Kind}); !bundled[gvk] {
			found.addAboutValue(Error, gvk, "owned CRD %q not found in bundle %q", gvk, s.csv.Name)
		}
	}

	for _, crd := range s.crds {
		for _, version := range crd.versions {
			if gvk := (schema.GroupVersionKind{Group: crd.internal.Spec.Group, Version: version, Kind: crd.kind}); !ownedNames[crd.name] {
				found.addAboutValue(Error, gvk, "CRD %q is present in bundle %q but not defined in CSV", gvk, s.csv.Name)
			}
		}
	}
}

// checkServiceAccounts reports service accounts that OLM creates itself.
func (s *decodedBundle) checkServiceAccounts(found *findings) {
	for _, o := range s.objects {
		if o.kind != "ServiceAccount" {
			continue
		}
		for _, deployment := range s.csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
			if deployment.Spec.Template.Spec.ServiceAccountName == o.name {
				found.addAboutValue(Error, o.name, "invalid service account found in bundle. "+
					"The ServiceAccount %s of deployment %s is made from the CSV when the operator is installed: remove it from the manifests", o.name, deployment.Name)
				break
			}
		}
	}
}

// checkReleaseName checks the name of a bundle with a release.
func (s *decodedBundle) checkReleaseName(found *findings) {
	release := s.csv.Spec.Release
	if release == "" {
		return
	}
	if _, err := fbc.ParseRelease(string(release)); err != nil {
		found.addAboutValue(Error, s.csv.Name, "%v", err)
	}

	want := fmt.Sprintf("%s-v%s-%s", s.annotations[bundle.KeyPackage], s.csv.Spec.Version, release)
	if s.csv.Name != want {
		found.addAboutValue(Error, s.csv.Name, "bundle name with release versioning %q does not match expected name %q", s.csv.Name, want)
	}
}

// checkSize checks the size of all manifests, compressed as OLM Classic compresses them.
func (s *decodedBundle) checkSize(found *findings) {
	var compressed, size int
	for _, file := range s.files.Manifests {
		n, err := compressedSize(file.Data)
		if err != nil {
			found.add(Warning, "Warning: unable to check the bundle compressed size: %v", err)
			return
		}
		compressed += n
		size += len(file.Data)
	}

	switch {
	case compressed > maxCompressedBytes:
		found.add(Error, "Error: maximum bundle compressed size with gzip size exceeded: size=~%s , max=%s. Bundle uncompressed size is %s",
			formatByteSize(compressed), formatByteSize(maxCompressedBytes), formatByteSize(size))
	case compressed > warnCompressedBytes:
		found.add(Warning, "Warning: nearing maximum bundle compressed size with gzip: size=~%s , max=%s. Bundle uncompressed size is %s",
			formatByteSize(compressed), formatByteSize(maxCompressedBytes), formatByteSize(size))
	}
}

// compressedSize returns the size of a file after compression and base64 encoding.
func compressedSize(data []byte) (int, error) {
	if len(data) == 0 {
		return 0, nil
	}

	var count byteCounter
	writer := gzip.NewWriter(&count)
	if _, err := io.Copy(writer, bytes.NewReader(data)); err != nil {
		return 0, err
	}
	if err := writer.Close(); err != nil {
		return 0, err
	}

	return base64.StdEncoding.EncodedLen(int(count)), nil
}

// byteCounter counts the bytes that are written to it.
type byteCounter int

func (c *byteCounter) Write(data []byte) (int, error) {
	*c += byteCounter(len(data))
	return len(data), nil
}

// formatByteSize formats a number of bytes for people.
func formatByteSize(bytes int) string {
	if bytes < 1<<20 {
		return fmt.Sprintf("%.1f KiB", float64(bytes)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
}
