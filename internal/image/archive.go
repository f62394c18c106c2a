package image

import (
	"archive/tar"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"time"

	"github.com/opencontainers/image-spec/specs-go"
	imgspecv1 "github.com/opencontainers/image-spec/specs-go/v1"
	"go.podman.io/image/v5/docker/reference"
)

// annotationImageName is the full name that containerd gives an image on import.
const annotationImageName = "io.containerd.image.name"

// WriteArchive writes images as one OCI archive (a tar of an OCI layout), which
// "ctr images import", "podman load" and "skopeo copy oci-archive:" read. It carries the
// reference, so that the imported image has that name. Several images, one for each
// platform, become one multi-platform image. The same images give the same bytes.
func WriteArchive(w io.Writer, ref string, images ...*Built) error {
	return fail("write", ref, writeArchive(w, ref, images))
}

func writeArchive(w io.Writer, ref string, images []*Built) error {
	named, err := parseReference(ref)
	if err != nil {
		return err
	}
	top, err := topLevel(images)
	if err != nil {
		return err
	}
	descriptor := top.descriptor()
	descriptor.Annotations = map[string]string{annotationImageName: named.String()}
	if tagged, ok := named.(reference.Tagged); ok {
		descriptor.Annotations[imgspecv1.AnnotationRefName] = tagged.Tag()
	}
	index, err := json.Marshal(imgspecv1.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: imgspecv1.MediaTypeImageIndex,
		Manifests: []imgspecv1.Descriptor{descriptor},
	})
	if err != nil {
		return err
	}
	layout, err := json.Marshal(imgspecv1.ImageLayout{Version: imgspecv1.ImageLayoutVersion})
	if err != nil {
		return err
	}
	archive := &archiveWriter{w: tar.NewWriter(w), seen: map[string]bool{}}
	archive.add(imgspecv1.ImageLayoutFile, layout)
	archive.add(imgspecv1.ImageIndexFile, index)
	archive.addBlob(top)
	for _, image := range images {
		archive.addBlob(image.manifest)
		archive.addBlob(image.config)
		for _, layer := range image.layers {
			archive.addBlob(layer)
		}
	}
	return archive.close()
}

// archiveWriter writes files into a tar archive; the first failure sticks.
type archiveWriter struct {
	w    *tar.Writer
	seen map[string]bool
	err  error
}

func (a *archiveWriter) addBlob(b blob) {
	a.add(path.Join(imgspecv1.ImageBlobsDir, b.digest.Algorithm().String(), b.digest.Encoded()), b.data)
}

func (a *archiveWriter) add(name string, data []byte) {
	if a.err != nil || a.seen[name] {
		return
	}
	a.seen[name] = true
	a.err = a.w.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: name, Size: int64(len(data)), Mode: 0o644, ModTime: time.Unix(0, 0),
	})
	if a.err == nil {
		_, a.err = a.w.Write(data)
	}
	if a.err != nil {
		a.err = fmt.Errorf("write %s: %w", name, a.err)
	}
}

func (a *archiveWriter) close() error {
	if a.err != nil {
		return a.err
	}
	return a.w.Close()
}
