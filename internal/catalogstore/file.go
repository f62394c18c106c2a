package catalogstore

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// contentFile is an open content file. Catalogs with the same content share it.
type contentFile struct {
	handle *os.File
	path   string
	// stat is the state of the file when it was opened.
	stat  os.FileInfo
	index *index
	// contentSum is the checksum of the blobs, in hexadecimal.
	contentSum string
	// onDamage is called once with the cause if the file is found to be damaged.
	onDamage func(error)
	// compressedForms are the compressed forms of all blobs.
	compressedForms map[Encoding]*compressedForm

	mu sync.Mutex
	// references counts the users of the file: catalogs that serve it, Contents, and background work.
	references int
	// retired is set if the file was replaced, or if its content is not used any more. stop is closed
	// then.
	retired bool
	stop    chan struct{}
	// verified is set after the checksums of all blobs were verified.
	verified bool
	// damage is the cause if the file is damaged.
	damage error
}

// newContentFile returns the contentFile of an open file, whose index has the given content checksum.
func newContentFile(opened *os.File, path string, ix *index, content string) (*contentFile, error) {
	stat, err := opened.Stat()
	if err != nil {
		return nil, err
	}

	f := &contentFile{handle: opened, path: path, stat: stat, index: ix, contentSum: content, stop: make(chan struct{})}
	f.compressedForms = make(map[Encoding]*compressedForm, len(Encodings))
	for _, encoding := range Encodings {
		f.compressedForms[encoding] = &compressedForm{}
	}

	return f, nil
}

// openContentFile opens a content file, whose name is the checksum of its blobs. The index is verified
// immediately. Blobs are verified when they are read, until verifyAllBlobs has verified all of them.
func openContentFile(path, content string) (*contentFile, error) {
	opened, err := os.Open(path)
	if err != nil {
		return nil, err
	}

	f, err := loadContentFile(opened, path, content)
	if err != nil {
		_ = opened.Close() // The file was only read.
		return nil, err
	}

	return f, nil
}

func loadContentFile(opened *os.File, path, content string) (*contentFile, error) {
	stat, err := opened.Stat()
	if err != nil {
		return nil, err
	}
	if !stat.Mode().IsRegular() {
		return nil, errFormat
	}

	ix, err := readIndex(opened, stat.Size())
	if err != nil {
		return nil, err
	}
	if ix.contentSum() != content {
		return nil, errors.New("has other content than its name says")
	}

	return newContentFile(opened, path, ix, content)
}

// isSameFile reports whether two states of a file have the same identity, size and modification time.
func isSameFile(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// checkUsable returns an error if the open file is damaged or was changed in place. It does not check
// whether the file still exists at its path.
func (f *contentFile) checkUsable() error {
	f.mu.Lock()
	damage := f.damage
	f.mu.Unlock()
	if damage != nil {
		return damage
	}

	now, err := f.handle.Stat()
	if err != nil {
		return err
	}
	if !isSameFile(now, f.stat) {
		return errors.New("its file was changed")
	}

	return nil
}

// checkIntact returns an error if the file is not usable or no longer exists at its path.
func (f *contentFile) checkIntact() error {
	if err := f.checkUsable(); err != nil {
		return err
	}

	now, err := os.Stat(f.path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return errors.New("its file does not exist")
	case err != nil:
		return err
	case !os.SameFile(now, f.stat):
		return errors.New("its file was replaced")
	}

	return nil
}

// addReference keeps the file open until releaseReference. The file must be open.
func (f *contentFile) addReference() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.references++
}

func (f *contentFile) releaseReference() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.references--
	f.closeIfUnused()
}

// retireFile closes the file as soon as it has no references.
func (f *contentFile) retireFile() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.retired {
		return
	}

	f.retired = true
	close(f.stop)
	f.closeIfUnused()
}

func (f *contentFile) closeIfUnused() {
	if !f.retired || f.references > 0 {
		return
	}
	_ = f.handle.Close() // It was synced after it was written, and only read since.
	for _, c := range f.compressedForms {
		c.close()
	}
}

func (f *contentFile) isVerified() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.verified
}

// reportDamage records that the file is damaged, calls onDamage for the first damage, and returns err.
func (f *contentFile) reportDamage(err error) error {
	f.mu.Lock()
	first := f.damage == nil
	if first {
		f.damage = err
	}

	f.mu.Unlock()
	if first && f.onDamage != nil {
		f.onDamage(err)
	}

	return err
}

// verifyAllBlobs reads all blobs and verifies their checksums. It stops if the file is retired. The
// caller holds a reference.
func (f *contentFile) verifyAllBlobs() {
	in := bufio.NewReaderSize(io.NewSectionReader(f.handle, 0, f.index.bytes), readBufferSize)
	var line []byte
	for i := range f.index.records {
		select {
		case <-f.stop:
			return
		default:
		}

		r := &f.index.records[i]
		line = resizeBuffer(line, int(r.length))
		if _, err := io.ReadFull(in, line); err != nil {
			_ = f.reportDamage(fmt.Errorf("reading blob %d: %w", i, err)) // The damage is recorded for readers.
			return
		}
		if err := r.verifyLine(i, line); err != nil {
			_ = f.reportDamage(err)
			return
		}
	}

	f.mu.Lock()
	f.verified = true
	f.mu.Unlock()
}

// verifyLine verifies the line of a record by its checksum. The argument number is for the error.
func (r *record) verifyLine(number int, line []byte) error {
	blob := line[:len(line)-1]
	if line[len(line)-1] != '\n' || computeChecksum(blob) != r.sum {
		return fmt.Errorf("the checksum of blob %d does not match", number)
	}
	return nil
}

// readLine reads and verifies the line of a record. It reuses the buffer if it is large enough.
func (f *contentFile) readLine(number int, buffer []byte) ([]byte, error) {
	r := &f.index.records[number]
	line := resizeBuffer(buffer, int(r.length))
	if _, err := f.handle.ReadAt(line, r.offset); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("reading stored content: %w", err)
	}

	if err := r.verifyLine(number, line); err != nil {
		return nil, fmt.Errorf("reading stored content: %w", f.reportDamage(err))
	}

	return line, nil
}

// resizeBuffer returns a buffer with the given length, reusing buffer if it is large enough.
func resizeBuffer(buffer []byte, length int) []byte {
	if cap(buffer) < length {
		return make([]byte, length, max(length, 2*cap(buffer)))
	}
	return buffer[:length]
}
