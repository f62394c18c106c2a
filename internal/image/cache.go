package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// Cache keeps unpacked images in a directory. It is safe for concurrent use. The directory
// belongs to one cache of one process and survives restarts. It may be deleted while the
// program runs: missing or incomplete entries are pulled again.
type Cache struct {
	dir string

	mu    sync.Mutex
	locks map[string]*cacheLock
}

// cacheLock serialises the work on one entry. It is a channel, so that waiting for it ends
// with the caller's context.
type cacheLock struct {
	held    chan struct{}
	waiters int
}

// CacheEntry is an image in the cache.
type CacheEntry struct {
	// Dir has the content of the image below the prefix. It stays until [Cache.Keep] is
	// called without the image. A program that calls Keep reads it with [Cache.Use], which
	// prevents the removal.
	Dir string
	// Labels are the labels of the image.
	Labels map[string]string
}

// FS returns the content as a file system.
func (e *CacheEntry) FS() fs.FS { return os.DirFS(e.Dir) }

// Names of files and directories in the cache.
const (
	contentDir    = "content"
	recordFile    = "record.json"
	tempPrefix    = ".new-"
	removedPrefix = ".gone-"
)

// cacheRecord describes the content of a complete entry.
type cacheRecord struct {
	Ref    string            `json:"ref"`
	Files  int               `json:"files"`
	Bytes  int64             `json:"bytes"`
	Labels map[string]string `json:"labels,omitempty"`
}

// NewCache returns a cache in a directory, which is created when it is first needed.
func NewCache(dir string) *Cache {
	return &Cache{dir: dir, locks: map[string]*cacheLock{}}
}

// Ensure returns the content of an image below prefix, and pulls it if it is not cached.
// The reference must have a digest (see [Client.Resolve]). Concurrent calls for one image
// pull it once. A cache hit sends no request and does not check the signature policy again:
// the policy accepted this content, from the same repository, when it was pulled.
func (c *Cache) Ensure(ctx context.Context, client *Client, canonicalRef, prefix string) (*CacheEntry, error) {
	var entry *CacheEntry
	err := c.Use(ctx, client, canonicalRef, prefix, func(found *CacheEntry) error {
		entry = found
		return nil
	})
	if err != nil {
		return nil, err
	}
	return entry, nil
}

// Use calls read with the entry that Ensure would return. It returns the error of read
// unchanged. Keep does not remove the image until read has returned. Calls for one image
// run one after another.
func (c *Cache) Use(ctx context.Context, client *Client, canonicalRef, prefix string, read func(*CacheEntry) error) error {
	name, err := cacheEntryName(canonicalRef, prefix)
	if err != nil {
		return wrapOperationError("cache", canonicalRef, err)
	}

	unlock, err := c.lockCacheEntry(ctx, name)
	if err != nil {
		return wrapOperationError("cache", canonicalRef, err)
	}
	defer unlock()

	entry, err := c.ensureEntry(ctx, client, canonicalRef, prefix, name)
	if err != nil {
		return wrapOperationError("cache", canonicalRef, err)
	}

	return read(entry)
}

// ensureEntry returns an entry, which is pulled if it is not cached. The caller holds the
// lock of the entry.
func (c *Cache) ensureEntry(ctx context.Context, client *Client, ref, prefix, name string) (*CacheEntry, error) {
	final := filepath.Join(c.dir, name)
	if entry, ok := loadCompleteEntry(final); ok {
		return entry, nil
	}
	if err := os.MkdirAll(c.dir, 0o750); err != nil {
		return nil, err
	}

	temp, err := os.MkdirTemp(c.dir, tempPrefix+name+"-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(temp) }() // Keep removes it if this fails.

	if err := pullIntoDirectory(ctx, client, ref, prefix, temp); err != nil {
		return nil, err
	}
	// An existing entry is incomplete, so that no reader depends on it.
	if err := os.RemoveAll(final); err != nil {
		return nil, err
	}
	if err := os.Rename(temp, final); err != nil {
		return nil, err
	}

	entry, ok := loadCompleteEntry(final)
	if !ok {
		return nil, errors.New("the directory was changed while the image was unpacked")
	}

	return entry, nil
}

// cacheEntryName returns the directory name of an entry. The prefix is part of it, because
// each prefix has its own content.
func cacheEntryName(ref, prefix string) (string, error) {
	name, err := repositoryName(ref)
	if err != nil {
		return "", err
	}
	return name + "-" + shortHash(prefix), nil
}

// shortHash returns a hash of 48 bits, enough to distinguish the few repositories and
// prefixes of one digest.
func shortHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:6])
}

// repositoryName returns the part of an entry's name that identifies the image: the digest,
// and the repository, because signature policies and access are decided by repository.
func repositoryName(ref string) (string, error) {
	named, err := parseReference(ref)
	if err != nil {
		return "", err
	}
	if named.digest == "" {
		return "", kindErrorf(KindInvalid, "only images named by digest are cached")
	}
	return named.digest.Encoded() + "-" + shortHash(named.repository()), nil
}

// pullIntoDirectory pulls an image and writes its content and its record into temp.
func pullIntoDirectory(ctx context.Context, client *Client, ref, prefix, temp string) error {
	img, err := client.Pull(ctx, ref)
	if err != nil {
		return err
	}
	defer func() { _ = img.Close() }() // It was only read.

	content := filepath.Join(temp, contentDir)
	if err := os.Mkdir(content, 0o750); err != nil {
		return err
	}
	if _, err := img.Extract(ctx, prefix, content); err != nil {
		return err
	}

	rec := cacheRecord{Ref: img.Canonical, Labels: img.Labels}
	if rec.Files, rec.Bytes, err = measureDirectory(content); err != nil {
		return err
	}

	data, err := json.Marshal(rec)
	if err != nil {
		return err
	}

	return os.WriteFile(filepath.Join(temp, recordFile), data, 0o600)
}

// loadCompleteEntry returns the entry in a directory if it is complete: all files exist and
// have their size. A crash can leave empty files, and a user can delete some.
func loadCompleteEntry(dir string) (*CacheEntry, bool) {
	data, err := os.ReadFile(filepath.Join(dir, recordFile))
	if err != nil {
		return nil, false
	}

	var rec cacheRecord
	if json.Unmarshal(data, &rec) != nil {
		return nil, false
	}

	content := filepath.Join(dir, contentDir)
	files, bytes, err := measureDirectory(content)
	if err != nil || files != rec.Files || bytes != rec.Bytes {
		return nil, false
	}

	return &CacheEntry{Dir: content, Labels: rec.Labels}, true
}

// measureDirectory returns the number of files and directories, and the size of all regular
// files.
func measureDirectory(dir string) (files int, bytes int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}

		files++
		if !entry.Type().IsRegular() {
			return nil
		}

		info, err := entry.Info()
		if err == nil {
			bytes += info.Size()
		}

		return err
	})

	return files, bytes, err
}

// RemoveExcept removes every image that is not among the given references, and what an earlier
// process left unfinished. It does not remove images that are being pulled, or read by Use.
// References without a digest are ignored, because the cache has no such image.
func (c *Cache) RemoveExcept(canonicalRefs ...string) error {
	keep := make([]string, 0, len(canonicalRefs))
	for _, ref := range canonicalRefs {
		if name, err := repositoryName(ref); err == nil {
			keep = append(keep, name)
		}
	}

	entries, err := os.ReadDir(c.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}

	var failed []error
	for _, entry := range entries {
		if err := c.removeUnlessKept(entry.Name(), keep); err != nil {
			failed = append(failed, err)
		}
	}

	return wrapOperationError("cache", "", errors.Join(append(failed, err)...))
}

// removeUnlessKept removes an entry of the directory unless it belongs to an image in keep.
func (c *Cache) removeUnlessKept(name string, keep []string) error {
	for _, k := range keep {
		if strings.HasPrefix(name, k) {
			return nil
		}
	}

	renamed, err := c.renameForRemoval(name)
	if err != nil || renamed == "" {
		return err
	}
	return os.RemoveAll(renamed)
}

// renameForRemoval renames an entry that is not in use, so that no call finds it half
// removed. It returns the new path, empty when the entry is in use.
func (c *Cache) renameForRemoval(name string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()

	for busy := range c.locks {
		if name == busy || strings.HasPrefix(name, tempPrefix+busy) {
			return "", nil
		}
	}

	path := filepath.Join(c.dir, name)
	if strings.HasPrefix(name, removedPrefix) {
		return path, nil // renamed by an earlier process
	}

	renamed := filepath.Join(c.dir, removedPrefix+name)
	return renamed, os.Rename(path, renamed)
}

// lockCacheEntry waits until no other call uses an entry. The returned function releases
// the lock.
func (c *Cache) lockCacheEntry(ctx context.Context, name string) (func(), error) {
	c.mu.Lock()
	l := c.locks[name]
	if l == nil {
		l = &cacheLock{held: make(chan struct{}, 1)}
		c.locks[name] = l
	}

	l.waiters++
	c.mu.Unlock()
	leave := func() {
		c.mu.Lock()
		defer c.mu.Unlock()

		if l.waiters--; l.waiters == 0 {
			delete(c.locks, name)
		}
	}

	select {
	case l.held <- struct{}{}:
		return func() {
			<-l.held
			leave()
		}, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
