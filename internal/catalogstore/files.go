package catalogstore

import (
	"errors"
	"io/fs"
	"os"
	"sync"
)

// damagedFile describes a content file that is known to be damaged, so that it is not read again until
// it is replaced.
type damagedFile struct {
	stat os.FileInfo
	err  error
}

// errClosed is returned after the store was closed.
var errClosed = errors.New("the store of catalogs is closed")

// contentFiles has the content files of a volume. It opens each file once for all catalogs that have its
// content, verifies it in the background, and removes it when no catalog claims it.
type contentFiles struct {
	volume *volume
	// onDamage is called after an open file was found to be damaged.
	onDamage func()
	// backgroundWork counts the goroutines of the files. verifying is a semaphore that limits
	// verification to one file at a time.
	backgroundWork sync.WaitGroup
	verifying      chan struct{}

	// mu guards the fields below. Lock order: the mu of a slot before this one.
	mu     sync.Mutex
	closed bool
	// claims counts the catalogs of each content. files contains the open file of each content, and
	// damaged the files that cannot be used.
	claims  map[string]int
	files   map[string]*contentFile
	damaged map[string]damagedFile
}

func newContentFiles(v *volume) *contentFiles {
	return &contentFiles{
		volume: v, verifying: make(chan struct{}, 1),
		claims: map[string]int{}, files: map[string]*contentFile{}, damaged: map[string]damagedFile{},
	}
}

// retireAll closes the files as soon as they have no references, and refuses to open others.
func (c *contentFiles) retireAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, f := range c.files {
		f.retireFile()
	}
}

// addClaim adds the claim of a catalog on a content; "" is no content.
func (c *contentFiles) addClaim(content string) {
	if content == "" {
		return
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	c.claims[content]++
}

// hasClaim reports whether a catalog claims a content.
func (c *contentFiles) hasClaim(content string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.claims[content] > 0
}

// acquireFile returns the file of a content and adds a reference for the caller. It opens the file
// unless it is open already. The index is read without holding mu, so that other catalogs are not
// blocked.
func (c *contentFiles) acquireFile(content string) (*contentFile, error) {
	if open, err := c.acquireOpenFile(content); open != nil || err != nil {
		return open, err
	}

	path := c.volume.contentPath(content)
	stat, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("its file does not exist")
	}
	if err != nil {
		return nil, err
	}
	if err := c.knownDamage(content, stat); err != nil {
		return nil, err
	}

	f, err := openContentFile(path, content)

	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil:
		c.damaged[content] = damagedFile{stat: stat, err: err}
		return nil, err
	case c.closed:
		f.retireFile()
		return nil, errClosed
	}

	if open := c.files[content]; open != nil && open.checkIntact() == nil {
		f.retireFile() // Another catalog with the same content has opened it first.
		open.addReference()
		return open, nil
	}

	f.addReference()
	c.installFileLocked(f)
	c.verifyInBackgroundLocked(f)

	return f, nil
}

// acquireOpenFile returns the open file of a content with a reference for the caller, or nil if there is
// no intact open file.
func (c *contentFiles) acquireOpenFile(content string) (*contentFile, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errClosed
	}

	open := c.files[content]
	if open == nil || open.checkIntact() != nil {
		return nil, nil
	}

	open.addReference()
	return open, nil
}

// knownDamage returns the recorded damage of a file that has not changed since, or nil.
func (c *contentFiles) knownDamage(content string, stat os.FileInfo) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if bad, known := c.damaged[content]; known && isSameFile(bad.stat, stat) {
		return bad.err
	}
	return nil
}

// installFileLocked makes f the open file of its content, and retires the previous one. The caller holds
// mu.
func (c *contentFiles) installFileLocked(f *contentFile) {
	if old := c.files[f.contentSum]; old != nil {
		old.retireFile()
	}

	delete(c.damaged, f.contentSum)
	c.files[f.contentSum] = f
	f.onDamage = func(err error) {
		c.markDamaged(f.contentSum, err)
		c.onDamage()
	}
}

// verifyInBackgroundLocked starts the verification of all blobs of a file. The store verifies one file
// at a time. Readers do not wait for it. The caller holds mu.
func (c *contentFiles) verifyInBackgroundLocked(f *contentFile) {
	c.runInBackgroundLocked(f, func() {
		select {
		case c.verifying <- struct{}{}:
			defer func() { <-c.verifying }()
			f.verifyAllBlobs()
		case <-f.stop:
		}
	})
}

// runInBackground runs work in a goroutine that holds a reference to the file. The caller holds a
// reference too.
func (c *contentFiles) runInBackground(f *contentFile, work func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runInBackgroundLocked(f, work)
}

// runInBackgroundLocked is runInBackground for callers that hold mu. It does nothing if the store is
// closed.
func (c *contentFiles) runInBackgroundLocked(f *contentFile, work func()) {
	if c.closed {
		return
	}

	f.addReference()
	c.backgroundWork.Go(func() {
		defer f.releaseReference()
		work()
	})
}

// markDamaged retires the open file of a content if it is damaged, and records the damage.
func (c *contentFiles) markDamaged(content string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.files[content]
	if f == nil || f.checkUsable() == nil {
		return
	}

	delete(c.files, content)
	f.retireFile()
	if stat, statErr := os.Stat(f.path); statErr == nil && os.SameFile(stat, f.stat) {
		c.damaged[content] = damagedFile{stat: stat, err: err}
	}
}

// releaseClaim removes the claim of a catalog on a content. Content without claims is removed from disk
// with its compressed forms.
func (c *contentFiles) releaseClaim(content string) error {
	if content == "" {
		return nil
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	if c.claims[content]--; c.claims[content] > 0 {
		return nil
	}

	delete(c.claims, content)
	delete(c.damaged, content)
	if f := c.files[content]; f != nil {
		delete(c.files, content)
		f.retireFile()
	}

	return c.volume.removeContent(content)
}

// commitContentFile renames a complete content file to its final path, or discards it if the content is
// stored already. It returns the open file with a claim and a reference for the caller.
func (c *contentFiles) commitContentFile(out *pendingFile, ix *index) (*contentFile, error) {
	content := ix.contentSum() // Computed without holding mu, so that other catalogs are not blocked.
	c.mu.Lock()
	defer c.mu.Unlock()
	if open := c.files[content]; open != nil && open.checkIntact() == nil {
		out.closeAndDiscard()
		c.claims[content]++
		open.addReference()
		return open, nil
	}

	path := c.volume.contentPath(content)
	if err := out.renameTo(path); err != nil {
		out.closeAndDiscard()
		return nil, err
	}

	// The checksums were computed from the written bytes.
	f, err := newContentFile(out.File, path, ix, content)
	if err != nil {
		_ = out.Close() // The first error is returned.
		return nil, err
	}

	f.verified = true
	c.claims[content]++
	f.addReference()
	c.installFileLocked(f)

	return f, nil
}

// renameCompressedForm renames a compressed form of a file to its final path. It returns
// errContentReplaced if the content was removed in the meantime, because its compressed forms are removed
// with it.
func (c *contentFiles) renameCompressedForm(f *contentFile, out *pendingFile, path string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.files[f.contentSum] != f {
		return errContentReplaced
	}
	return out.renameTo(path)
}
