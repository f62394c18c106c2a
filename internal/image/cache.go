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
// belongs to one cache of one process, survives restarts, and may be deleted while the
// program runs: what is missing or incomplete is pulled again.
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
	// Dir has what the image has below the prefix. It stays until [Cache.Keep] is called
	// without the image. In a program that calls Keep, [Cache.Use] reads it safely.
	Dir string
	// Labels of the image.
	Labels map[string]string
}

// FS returns the content as a file system.
func (e *CacheEntry) FS() fs.FS { return os.DirFS(e.Dir) }

// Names inside of an entry.
const (
	entryContent = "content"
	entryRecord  = "record.json"
	tempPrefix   = ".new-"
	gonePrefix   = ".gone-"
)

// record tells what a complete entry holds.
type record struct {
	Ref    string            `json:"ref"`
	Files  int               `json:"files"`
	Bytes  int64             `json:"bytes"`
	Labels map[string]string `json:"labels,omitempty"`
}

// NewCache makes a cache in a directory, which is created when it is first needed.
func NewCache(dir string) *Cache {
	return &Cache{dir: dir, locks: map[string]*cacheLock{}}
}

// Ensure returns the content of an image below prefix, and pulls it unless it is there. The
// reference must have a digest (see [Client.Resolve]). Concurrent calls for one image pull
// it once. A hit asks neither the network nor the signature policy: it is content that the
// policy accepted, from the same repository, when it was pulled.
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

// Use calls read with the content that Ensure returns, and returns the error of read as it
// is. Keep leaves the image alone until read has returned. Calls for one image run one after
// another.
func (c *Cache) Use(ctx context.Context, client *Client, canonicalRef, prefix string, read func(*CacheEntry) error) error {
	name, err := entryName(canonicalRef, prefix)
	if err != nil {
		return fail("cache", canonicalRef, err)
	}

	unlock, err := c.lock(ctx, name)
	if err != nil {
		return fail("cache", canonicalRef, err)
	}

	defer unlock()

	entry, err := c.ensure(ctx, client, canonicalRef, prefix, name)
	if err != nil {
		return fail("cache", canonicalRef, err)
	}

	return read(entry)
}

// ensure returns an entry, which is pulled unless it is there. The lock of the entry is held.
func (c *Cache) ensure(ctx context.Context, client *Client, ref, prefix, name string) (*CacheEntry, error) {
	final := filepath.Join(c.dir, name)
	if entry, ok := load(final); ok {
		return entry, nil
	}
	if err := os.MkdirAll(c.dir, 0o750); err != nil {
		return nil, err
	}

	temp, err := os.MkdirTemp(c.dir, tempPrefix+name+"-")
	if err != nil {
		return nil, err
	}

	defer func() { _ = os.RemoveAll(temp) }() // Keep removes what stays.
	if err := fill(ctx, client, ref, prefix, temp); err != nil {
		return nil, err
	}
	// What is there is incomplete: whoever reads it reads nothing useful.
	if err := os.RemoveAll(final); err != nil {
		return nil, err
	}
	if err := os.Rename(temp, final); err != nil {
		return nil, err
	}

	entry, ok := load(final)
	if !ok {
		return nil, errors.New("the directory was changed while the image was unpacked")
	}

	return entry, nil
}

// entryName returns the directory of an entry. The prefix is part of it, since another one
// gives other content.
func entryName(ref, prefix string) (string, error) {
	name, err := repositoryName(ref)
	if err != nil {
		return "", err
	}
	return name + "-" + shortHash(prefix), nil
}

// shortHash has 48 bits, which tell the few repositories and prefixes of one digest apart.
func shortHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:6])
}

// repositoryName returns the part of an entry's name that stands for an image: the digest,
// and the repository, because signature policies and access are decided by repository.
func repositoryName(ref string) (string, error) {
	named, err := parseReference(ref)
	if err != nil {
		return "", err
	}
	if named.digest == "" {
		return "", faultf(KindInvalid, "only images named by digest are cached")
	}
	return named.digest.Encoded() + "-" + shortHash(named.repository()), nil
}

func fill(ctx context.Context, client *Client, ref, prefix, temp string) error {
	img, err := client.Pull(ctx, ref)
	if err != nil {
		return err
	}

	defer func() { _ = img.Close() }() // It was only read.
	content := filepath.Join(temp, entryContent)
	if err := os.Mkdir(content, 0o750); err != nil {
		return err
	}
	if _, err := img.Extract(ctx, prefix, content); err != nil {
		return err
	}

	rec := record{Ref: img.Canonical, Labels: img.Labels}
	if rec.Files, rec.Bytes, err = measure(content); err != nil {
		return err
	}

	data, err := json.Marshal(rec)
	if err != nil {
		return err
	}

	return os.WriteFile(filepath.Join(temp, entryRecord), data, 0o600)
}

// load returns the entry in a directory if it is complete: all files are there, in their
// sizes. A crash can leave files empty, and a person can delete some.
func load(dir string) (*CacheEntry, bool) {
	data, err := os.ReadFile(filepath.Join(dir, entryRecord))
	if err != nil {
		return nil, false
	}

	var rec record
	if json.Unmarshal(data, &rec) != nil {
		return nil, false
	}

	content := filepath.Join(dir, entryContent)
	files, bytes, err := measure(content)
	if err != nil || files != rec.Files || bytes != rec.Bytes {
		return nil, false
	}

	return &CacheEntry{Dir: content, Labels: rec.Labels}, true
}

func measure(dir string) (files int, bytes int64, err error) {
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

// Keep removes every image that is not among the given references, with what an earlier
// process left unfinished. Images that are being pulled or read by Use are left alone. A reference that
// names no image by digest is passed over: the cache holds no such image.
func (c *Cache) Keep(canonicalRefs ...string) error {
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
		if err := c.removeUnless(entry.Name(), keep); err != nil {
			failed = append(failed, err)
		}
	}

	return fail("cache", "", errors.Join(append(failed, err)...))
}

func (c *Cache) removeUnless(name string, keep []string) error {
	for _, k := range keep {
		if strings.HasPrefix(name, k) {
			return nil
		}
	}

	gone, err := c.putAside(name)
	if err != nil || gone == "" {
		return err
	}
	return os.RemoveAll(gone)
}

// putAside renames an entry that no call works on, so that none finds it half removed.
func (c *Cache) putAside(name string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for busy := range c.locks {
		if name == busy || strings.HasPrefix(name, tempPrefix+busy) {
			return "", nil
		}
	}

	path := filepath.Join(c.dir, name)
	if strings.HasPrefix(name, gonePrefix) {
		return path, nil // left by a process that ended here
	}

	gone := filepath.Join(c.dir, gonePrefix+name)
	return gone, os.Rename(path, gone)
}

// lock waits until no other call works on an entry. The returned function releases it.
func (c *Cache) lock(ctx context.Context, name string) (func(), error) {
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
