package registry

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// kept is a manifest as it stands on disk, one file each.
type kept struct {
	Repository string `json:"repository"`
	// Reference is a tag or a digest.
	Reference string `json:"reference"`
	MediaType string `json:"mediaType"`
	// Manifest is base64 in the file: a digest is of exactly these bytes.
	Manifest []byte `json:"manifest"`
}

// manifestFiles is a folder of manifests.
type manifestFiles string

// path is named by a hash: repository and reference come from clients, and must not lead out of the folder.
func (f manifestFiles) path(repository, reference string) string {
	hash := sha256.Sum256([]byte(repository + "\x00" + reference))
	return filepath.Join(string(f), hex.EncodeToString(hash[:])+".json")
}

func (f manifestFiles) write(manifest kept) error {
	content, err := json.Marshal(manifest)
	if err != nil {
		return err
	}

	path := f.path(manifest.Repository, manifest.Reference)
	temporary := path + ".new" // Writes are one at a time.
	if err := os.WriteFile(temporary, content, 0o600); err != nil {
		return fmt.Errorf("keep manifest %s of %s: %w", manifest.Reference, manifest.Repository, err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("keep manifest %s of %s: %w", manifest.Reference, manifest.Repository, err)
	}

	return nil
}

func (f manifestFiles) delete(repository, reference string) error {
	err := os.Remove(f.path(repository, reference))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete manifest %s of %s: %w", reference, repository, err)
	}
	return nil
}

func (f manifestFiles) readAll() ([]kept, error) {
	paths, err := filepath.Glob(filepath.Join(string(f), "*.json"))
	if err != nil {
		return nil, err
	}

	manifests := make([]kept, 0, len(paths))
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read a kept manifest: %w", err)
		}

		var manifest kept
		if err := json.Unmarshal(content, &manifest); err != nil {
			return nil, fmt.Errorf("read kept manifest %s: %w", path, err)
		}

		manifests = append(manifests, manifest)
	}

	return manifests, nil
}
