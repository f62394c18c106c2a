package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// catalog is a catalog of the scenario.
type catalog struct {
	name, ref, baseURL string
	serving            time.Duration
	deleted            bool

	mu sync.Mutex
	// versions are the sorted blobs of the versions that may currently be served, newest last.
	versions [][]string
}

func (c *catalog) currentBlobs() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.versions[len(c.versions)-1]
}

func (c *catalog) addVersion(blobs []string) {
	slices.Sort(blobs)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.versions = append(c.versions, blobs)
}

func (c *catalog) dropOldVersions() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.versions = c.versions[len(c.versions)-1:]
}

// isServedVersion reports whether blobs are those of one of the versions.
func (c *catalog) isServedVersion(blobs []string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.versions, func(v []string) bool { return slices.Equal(v, blobs) })
}

// readFolderBlobs reads the blobs of a folder with a parser that is not Mainstay's own.
func readFolderBlobs(dir string) ([]string, error) {
	var all []string
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}

		file, err := os.Open(name)
		if err != nil {
			return err
		}
		defer file.Close()
		blobs, err := readStreamBlobs(file)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}

		all = append(all, blobs...)
		return nil
	})

	slices.Sort(all)
	return all, err
}

// readStreamBlobs returns the sorted documents of a stream of JSON or YAML, each with sorted
// keys.
func readStreamBlobs(r io.Reader) ([]string, error) {
	decoder := utilyaml.NewYAMLOrJSONDecoder(r, 4096)
	var blobs []string
	for {
		var raw json.RawMessage
		if err := decoder.Decode(&raw); errors.Is(err, io.EOF) {
			slices.Sort(blobs)
			return blobs, nil
		} else if err != nil {
			return nil, err
		}

		if len(bytes.TrimSpace(raw)) == 0 || string(raw) == "null" {
			continue
		}

		blob, err := sortKeys(raw)
		if err != nil {
			return nil, err
		}

		blobs = append(blobs, blob)
	}
}

// sortKeys returns a blob with sorted keys, so that blobs with the same content are equal.
func sortKeys(raw []byte) (string, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return "", err
	}

	text, err := json.Marshal(value)
	return string(text), err
}
