package cluster

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// exampleImage is the image that the bundles of the examples name; whoever builds
// them puts the real one in its place.
const exampleImage = "registry.example.com/hello-operator"

// CopyExample copies some versions of the sample operator's bundles to a folder, with
// the reference of the operator's image set.
func CopyExample(examples, to, image string, versions ...string) error {
	for _, version := range versions {
		from := filepath.Join(examples, "bundles", "hello-operator", version)
		if err := copyTree(from, filepath.Join(to, "hello-operator", version), image); err != nil {
			return err
		}
	}
	return nil
}

func copyTree(from, to, image string) error {
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

		return os.WriteFile(target, []byte(strings.ReplaceAll(string(data), exampleImage, image)), 0o644)
	})
}
