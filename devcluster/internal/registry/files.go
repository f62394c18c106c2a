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

// storedManifest is the content of a manifest file. Each manifest has its own file.
type storedManifest struct {
	Repository string `json:"repository"`
	// Reference is a tag or a digest.
	Reference string `json:"reference"`
	MediaType string `json:"mediaType"`
	// Manifest is base64 in the file, because a digest covers exactly these bytes.
	Manifest []byte `json:"manifest"`
}

// manifestStore is a folder of manifest files.
type manifestStore string

// filePath returns the file of a manifest. Its name is a hash: repository and reference come from clients and must not
// lead out of the folder.
func (f manifestStore) filePath(repository, reference string) string {
	hash := sha256.Sum256([]byte(repository + "\x00" + reference))
	return filepath.Join(string(f), hex.EncodeToString(hash[:])+".json")
}

func (f manifestStore) write(manifest storedManifest) error {
	content, err := json.Marshal(manifest)
	if err != nil {
		return err
	}

	path := f.filePath(manifest.Repository, manifest.Reference)
	temporary := path + ".new" // There is only one writer at a time.
	if err := os.WriteFile(temporary, content, 0o600); err != nil {
		return fmt.Errorf("store manifest %s of %s: %w", manifest.Reference, manifest.Repository, err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("store manifest %s of %s: %w", manifest.Reference, manifest.Repository, err)
	}

	return nil
}

func (f manifestStore) delete(repository, reference string) error {
	err := os.Remove(f.filePath(repository, reference))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete manifest %s of %s: %w", reference, repository, err)
	}
	return nil
}

func (f manifestStore) readAll() ([]storedManifest, error) {
	paths, err := filepath.Glob(filepath.Join(string(f), "*.json"))
	if err != nil {
		return nil, err
	}

	manifests := make([]storedManifest, 0, len(paths))
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read a stored manifest: %w", err)
		}

		var manifest storedManifest
		if err := json.Unmarshal(content, &manifest); err != nil {
			return nil, fmt.Errorf("read stored manifest %s: %w", path, err)
		}

		manifests = append(manifests, manifest)
	}

	return manifests, nil
}
