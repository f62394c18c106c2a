package indexdb

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/mainstay-dev/mainstay/internal/image"
)

const (
	// LabelDatabase is the label of an image with the path of its database file.
	LabelDatabase = "operators.operatorframework.io.index.database.v1"
	// DatabasePath is the path of the database in index images of this package.
	DatabasePath = "/database/index.db"
	// DefaultBinaryImage is the base image of index images. It has the opm that serves the
	// database.
	DefaultBinaryImage = "quay.io/operator-framework/opm:latest"

	opmPath   = "/bin/opm"
	servePort = "50051"

	// maxImageBytes bounds a database that is packed into an image. It is packed in memory.
	maxImageBytes = 1 << 30
)

func serveArguments() []string { return []string{"registry", "serve", "--database", DatabasePath} }

// DatabaseInImage returns the path of the database in an index image, from the labels of
// the image. name is for the error.
func DatabaseInImage(name string, labels map[string]string) (string, error) {
	if path := labels[LabelDatabase]; path != "" {
		return path, nil
	}
	if labels[image.LabelConfigs] != "" {
		return "", opmErrorf("`opm index` and `opm registry` only support sqlite-based catalogs, and %s is a file-based catalog: edit its files, and see `opm render` and `opm validate`", name)
	}
	return "", fmt.Errorf("index image %s missing label %s", name, LabelDatabase)
}

// ImageSpec returns the spec of an index image with the database at path. program is an opm
// binary for the image's platform. With it, the image can serve the database. It may be
// empty: the image then contains only the database. That is sufficient for opm and for
// controllers that read catalogs, but a pod needs an image that was built with the result
// of Dockerfile.
func ImageSpec(path string, program []byte) (image.Spec, error) {
	info, err := inspectDatabaseFile(path, maxImageBytes)
	if err != nil {
		return image.Spec{}, fmt.Errorf("index database %s: %w", path, err)
	}
	if info.Size() == 0 {
		return image.Spec{}, fmt.Errorf("index database %s: %w: it is empty", path, ErrNotDatabase)
	}

	content, err := os.ReadFile(path)
	if err != nil {
		return image.Spec{}, fmt.Errorf("index database %s: %w", path, err)
	}

	spec := image.Spec{
		OS:     "linux",
		Labels: map[string]string{LabelDatabase: DatabasePath},
		Layers: []image.Layer{{Files: []image.File{{Path: DatabasePath, Content: content}}}},
	}
	if len(program) > 0 {
		spec.Layers = append([]image.Layer{{Files: []image.File{{Path: opmPath, Executable: true, Content: program}}}}, spec.Layers...)
		spec.Entrypoint = []string{opmPath}
		spec.Cmd = serveArguments()
		spec.ExposedPorts = []string{servePort + "/tcp"}
	}

	return spec, nil
}

// Dockerfile returns a Dockerfile that adds a database to an image with opm. An empty
// binaryImage means DefaultBinaryImage. database is the path of the file within the build
// context.
func Dockerfile(binaryImage, database string) (string, error) {
	if binaryImage == "" {
		binaryImage = DefaultBinaryImage
	}

	for _, word := range []string{binaryImage, database} {
		if word == "" || strings.ContainsAny(word, " \t\r\n\"") {
			return "", errors.New("the binary image and the path of the database must be given, without blanks and quotes")
		}
	}
	return "FROM " + binaryImage + "\n" +
		"LABEL " + LabelDatabase + "=" + DatabasePath + "\n" +
		"ADD " + database + " " + DatabasePath + "\n" +
		"EXPOSE " + servePort + "\n" +
		`ENTRYPOINT ["` + opmPath + `"]` + "\n" +
		`CMD ["` + strings.Join(serveArguments(), `", "`) + `"]` + "\n", nil
}
