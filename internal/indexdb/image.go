package indexdb

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/mainstay-dev/mainstay/internal/image"
)

const (
	// LabelDatabase, on an image, names the database file in it.
	LabelDatabase = "operators.operatorframework.io.index.database.v1"
	// DatabasePath is where the index images of this package have their database.
	DatabasePath = "/database/index.db"
	// DefaultBinaryImage is the image that an index image is built on: it has the opm that
	// serves the database.
	DefaultBinaryImage = "quay.io/operator-framework/opm:latest"

	opmPath = "/bin/opm"
	port    = "50051"

	// maxImageBytes bounds a database that is packed into an image, which happens in memory.
	maxImageBytes = 1 << 30
)

func serveArguments() []string { return []string{"registry", "serve", "--database", DatabasePath} }

// DatabaseInImage tells where in an index image its database is, from the labels of the
// image; name is for the error.
func DatabaseInImage(name string, labels map[string]string) (string, error) {
	if path := labels[LabelDatabase]; path != "" {
		return path, nil
	}
	if labels[image.LabelConfigs] != "" {
		return "", say("`opm index` and `opm registry` only support sqlite-based catalogs, and %s is a file-based catalog: edit its files, and see `opm render` and `opm validate`", name)
	}
	return "", fmt.Errorf("index image %s missing label %s", name, LabelDatabase)
}

// ImageSpec describes an index image with the database at path. program, if it is not
// empty, is an opm for the image's platform, which makes the image one that serves the
// database. Without it the image holds the database alone: enough for opm and for
// controllers that read catalogs, while a pod needs an image that was built with the
// text of Dockerfile.
func ImageSpec(path string, program []byte) (image.Spec, error) {
	info, err := inspect(path, maxImageBytes)
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
		spec.ExposedPorts = []string{port + "/tcp"}
	}

	return spec, nil
}

// Dockerfile is the text of a Dockerfile that puts a database onto the image of an opm.
// binaryImage may be empty, for DefaultBinaryImage. database is the path of the file
// within the folder that the image is built from.
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
		"EXPOSE " + port + "\n" +
		`ENTRYPOINT ["` + opmPath + `"]` + "\n" +
		`CMD ["` + strings.Join(serveArguments(), `", "`) + `"]` + "\n", nil
}
