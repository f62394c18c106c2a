package image

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"time"

	"github.com/opencontainers/image-spec/specs-go"
	imgspecv1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// annotationImageName is the annotation with the full name that containerd assigns to an
// image on import.
const annotationImageName = "io.containerd.image.name"

// dockerManifest is the file in which older versions of docker look for the images of an
// archive.
const dockerManifest = "manifest.json"

// WriteArchive writes images as one OCI archive (a tar of an OCI layout), which "ctr images
// import", "podman load", "docker load" and "skopeo copy oci-archive:" can read. The
// archive contains the reference, so that the imported image has that name. Several images,
// one for each platform, become one multi-platform image, which docker can read since
// version 25. The same images always produce the same bytes.
func WriteArchive(w io.Writer, ref string, images ...*Built) error {
	archive := tar.NewWriter(w)
	err := writeImageFiles(ref, images, func(name string, size int64, content io.Reader) error {
		err := archive.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644, ModTime: time.Unix(0, 0),
		})
		if err == nil {
			_, err = io.Copy(archive, content)
		}
		return err
	})
	if err == nil {
		err = archive.Close()
	}
	return wrapOperationError("write", ref, err)
}

// WriteLayout writes images as an OCI layout, into a directory that is empty or does not
// exist. The layout contains the reference, as an archive does. After an error it removes
// what it wrote.
func WriteLayout(dir, ref string, images ...*Built) error {
	return wrapOperationError("write", ref, writeLayout(dir, ref, images))
}

func writeLayout(dir, ref string, images []*Built) error {
	entries, err := os.ReadDir(dir)
	existed := err == nil
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if len(entries) > 0 {
		return kindErrorf(KindInvalid, "the directory %s is not empty", dir)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // an image is no secret
		return err
	}

	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}

	err = errors.Join(writeImageFiles(ref, images, func(name string, _ int64, content io.Reader) error {
		return writeLayoutFile(root, name, content)
	}), root.Close())
	if err == nil {
		return nil
	}
	if !existed {
		return errors.Join(err, os.RemoveAll(dir))
	}

	for _, name := range []string{imgspecv1.ImageLayoutFile, imgspecv1.ImageIndexFile, imgspecv1.ImageBlobsDir, dockerManifest} {
		err = errors.Join(err, os.RemoveAll(path.Join(dir, name)))
	}

	return err
}

func writeLayoutFile(root *os.Root, name string, content io.Reader) error {
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}

	file, err := root.Create(name)
	if err != nil {
		return err
	}

	_, err = io.Copy(file, content)
	return errors.Join(err, file.Close())
}

// writeImageFiles calls write for each file of an OCI layout.
func writeImageFiles(ref string, images []*Built, write func(name string, size int64, content io.Reader) error) error {
	named, err := parseReference(ref)
	if err != nil {
		return err
	}

	top, err := topLevelManifest(images)
	if err != nil {
		return err
	}

	parts, err := newIndexFiles(named, top, images)
	if err != nil {
		return err
	}

	for _, image := range images {
		parts = append(parts, newBlobFile(image.manifest), newBlobFile(image.config))
		for _, layer := range image.layers {
			parts = append(parts, newBlobFile(layer))
		}
	}

	seen := map[string]bool{}
	for _, part := range parts {
		if seen[part.name] {
			continue
		}

		seen[part.name] = true
		content, err := part.blob.open()
		if err == nil {
			err = errors.Join(write(part.name, part.blob.size(), content), content.Close())
		}
		if err != nil {
			return fmt.Errorf("write %s: %w", part.name, err)
		}
	}

	return nil
}

// layoutFile is a file of an OCI layout.
type layoutFile struct {
	name string
	blob builtBlob
}

// newBlobFile returns the file of a blob in an OCI layout.
func newBlobFile(b builtBlob) layoutFile {
	return layoutFile{path.Join(imgspecv1.ImageBlobsDir, b.digest.Algorithm().String(), b.digest.Encoded()), b}
}

// newIndexFiles returns the files of an OCI layout that name its images, and the top-level
// manifest.
func newIndexFiles(named imageReference, top builtBlob, images []*Built) ([]layoutFile, error) {
	descriptor := top.descriptor()
	descriptor.Annotations = map[string]string{annotationImageName: named.String()}
	if named.digest == "" {
		descriptor.Annotations[imgspecv1.AnnotationRefName] = named.tag
	}

	contents := map[string]any{
		imgspecv1.ImageLayoutFile: imgspecv1.ImageLayout{Version: imgspecv1.ImageLayoutVersion},
		imgspecv1.ImageIndexFile: imgspecv1.Index{
			Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: imgspecv1.MediaTypeImageIndex,
			Manifests: []imgspecv1.Descriptor{descriptor},
		},
	}

	names := []string{imgspecv1.ImageLayoutFile, imgspecv1.ImageIndexFile}
	if len(images) == 1 {
		entry := map[string]any{"Config": newBlobFile(images[0].config).name, "Layers": []string{}}
		layers := []string{}
		for _, layer := range images[0].layers {
			layers = append(layers, newBlobFile(layer).name)
		}

		entry["Layers"] = layers
		if named.digest == "" {
			entry["RepoTags"] = []string{named.String()}
		}

		contents[dockerManifest] = []any{entry}
		names = append(names, dockerManifest)
	}

	var files []layoutFile
	for _, name := range names {
		data, err := json.Marshal(contents[name])
		if err != nil {
			return nil, err
		}
		files = append(files, layoutFile{name, builtBlob{data: data}})
	}

	return append(files, newBlobFile(top)), nil
}
