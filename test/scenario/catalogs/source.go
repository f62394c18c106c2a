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

// catalog is one that is built and served.
type catalog struct {
	name, ref, base string
	serving         time.Duration
	deleted         bool

	mu sync.Mutex
	// versions are the blobs, sorted, of the versions that may be served at the moment; the
	// last is the newest.
	versions [][]string
}

func (c *catalog) current() []string {
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

func (c *catalog) onlyCurrent() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.versions = c.versions[len(c.versions)-1:]
}

// isOne reports whether blobs are one of the versions.
func (c *catalog) isOne(blobs []string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.versions, func(v []string) bool { return slices.Equal(v, blobs) })
}

// blobsBelow reads the blobs of a folder with another parser than Mainstay's own.
func blobsBelow(dir string) ([]string, error) {
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
		blobs, err := blobsOf(file)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}

		all = append(all, blobs...)
		return nil
	})

	slices.Sort(all)
	return all, err
}

// blobsOf reads a stream of JSON or YAML documents, sorted, each with its keys in order.
func blobsOf(r io.Reader) ([]string, error) {
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

		blob, err := inOrder(raw)
		if err != nil {
			return nil, err
		}

		blobs = append(blobs, blob)
	}
}

// inOrder writes a blob with its keys in order, so that two of the same content are equal.
func inOrder(raw []byte) (string, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return "", err
	}

	text, err := json.Marshal(value)
	return string(text), err
}
