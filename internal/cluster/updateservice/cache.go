package updateservice

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/mainstay-dev/mainstay/internal/cincinnati/graphdata"
)

const (
	// cacheVersion is the version of the format and of the extracted fields. Files with another
	// version are ignored. Files of version 1 can contain faults of a registry as faults of images.
	cacheVersion = 2
	// maxCacheBytes is the maximum size of the file: 20,000 releases with 200 edges each have 60
	// MB.
	maxCacheBytes = 256 << 20
)

// cache stores the states of images in a file, so that a restarted service does not read all
// images again. The file may be deleted at any time.
type cache struct{ file string }

// cacheContent is the content of the file.
type cacheContent struct {
	Version int                    `json:"version"`
	Images  map[string]cachedImage `json:"images"`
}

type cachedImage struct {
	Release graphdata.Release `json:"release"`
	IsList  bool              `json:"isList,omitempty"`
	Fault   string            `json:"fault,omitempty"`
}

// newImageCache returns the cache of a repository in a directory; nil if dir is empty.
func newImageCache(dir, repository string) *cache {
	if dir == "" {
		return nil
	}
	sum := sha256.Sum256([]byte(repository))
	return &cache{filepath.Join(dir, "releases-"+hex.EncodeToString(sum[:8])+".json")}
}

// load reads the states. It returns an empty map if there is no file.
func (c *cache) load() (map[string]imageState, error) {
	known := map[string]imageState{}
	if c == nil {
		return known, nil
	}

	f, err := os.Open(c.file)
	if errors.Is(err, fs.ErrNotExist) {
		return known, nil
	}
	if err != nil {
		return known, err
	}
	defer func() { _ = f.Close() }() // It was only read.
	data, err := io.ReadAll(io.LimitReader(f, maxCacheBytes+1))
	if err != nil || len(data) > maxCacheBytes {
		return known, errors.Join(err, fmt.Errorf("%s cannot be read, or has more than %d bytes", c.file, maxCacheBytes))
	}

	var content cacheContent
	if err := json.Unmarshal(data, &content); err != nil {
		return known, fmt.Errorf("%s cannot be read: %w", c.file, err)
	}
	if content.Version != cacheVersion {
		return known, nil
	}

	for digest, cachedState := range content.Images {
		known[digest] = imageState{release: cachedState.Release, isList: cachedState.IsList, fault: cachedState.Fault}
	}

	return known, nil
}

// save replaces the file atomically.
func (c *cache) save(known map[string]imageState) error {
	if c == nil {
		return nil
	}

	content := cacheContent{Version: cacheVersion, Images: make(map[string]cachedImage, len(known))}
	for digest, cachedState := range known {
		content.Images[digest] = cachedImage{cachedState.release, cachedState.isList, cachedState.fault}
	}

	data, err := json.Marshal(content)
	if err != nil {
		return err
	}

	dir := filepath.Dir(c.file)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return explainFullDisk(err)
	}

	f, err := os.CreateTemp(dir, ".releases-*")
	if err != nil {
		return explainFullDisk(err)
	}

	_, err = f.Write(data)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), c.file)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // The file is incomplete.
	}

	return explainFullDisk(err)
}

// explainFullDisk adds advice to the error of a write to a full disk. It returns other errors unchanged.
func explainFullDisk(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("the volume of the cache directory is full; free space on it or make it larger: %w", err)
	}
	return err
}
