package cluster

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// exampleImageReference is the image in the bundles of the examples. It is replaced by the real
// one when they are built.
const exampleImageReference = "registry.example.com/hello-operator"

// CopyExample copies versions of the sample operator's bundles to a folder and sets the image of
// the operator.
func CopyExample(examples, to, image string, versions ...string) error {
	for _, version := range versions {
		from := filepath.Join(examples, "bundles", "hello-operator", version)
		if err := copyBundleTree(from, filepath.Join(to, "hello-operator", version), image); err != nil {
			return err
		}
	}
	return nil
}

func copyBundleTree(from, to, image string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}

		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}

		target := filepath.Join(to, rel)
		if d.IsDir() {
			return os.MkdirAll(target, 0o755)
		}

		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}

		return os.WriteFile(target, []byte(strings.ReplaceAll(string(data), exampleImageReference, image)), 0o644)
	})
}
