package catalogstore

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// file is an open content file. Catalogs with the same content share it.
type file struct {
	os   *os.File
	path string
	// stat is how the file was when it was opened.
	stat  os.FileInfo
	index *index
	// content is the sum of the blobs, in hexadecimal.
	content string
	// onDamage is told once that the file was found damaged, and why.
	onDamage func(error)
	// kept are the compressed forms of all blobs.
	kept map[Encoding]*compressed

	mu sync.Mutex
	// readers counts the catalogs that serve the file, the Contents, and the work that
	// goes on behind them.
	readers int
	// retired says that another file has its place, or that nobody wants its content any
	// more. stop is closed then.
	retired bool
	stop    chan struct{}
	// verified says that every blob was found to be what its sum says.
	verified bool
	// damage is why the file cannot be relied on.
	damage error
}

// makeFile returns an open file whose index has the sum content.
func makeFile(opened *os.File, path string, ix *index, content string) (*file, error) {
	stat, err := opened.Stat()
	if err != nil {
		return nil, err
	}

	f := &file{os: opened, path: path, stat: stat, index: ix, content: content, stop: make(chan struct{})}
	f.kept = make(map[Encoding]*compressed, len(Encodings))
	for _, encoding := range Encodings {
		f.kept[encoding] = &compressed{}
	}

	return f, nil
}

// openFile opens a content file, whose name is the sum of its blobs. Its index is checked
// at once, and its blobs when they are read, until verify has looked at all.
func openFile(path, content string) (*file, error) {
	opened, err := os.Open(path)
	if err != nil {
		return nil, err
	}

	f, err := loadFile(opened, path, content)
	if err != nil {
		_ = opened.Close() // It was only read.
		return nil, err
	}

	return f, nil
}

func loadFile(opened *os.File, path, content string) (*file, error) {
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
	if ix.sum() != content {
		return nil, errors.New("has other content than its name says")
	}

	return makeFile(opened, path, ix, content)
}

// same reports whether two looks at a file saw the same content, as far as can be seen
// without reading it.
func same(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// usable reports whether what is open can be given to readers: it was not changed in place,
// nor found damaged. Whether its place on the disk still has it does not matter.
func (f *file) usable() error {
	f.mu.Lock()
	damage := f.damage
	f.mu.Unlock()
	if damage != nil {
		return damage
	}

	now, err := f.os.Stat()
	if err != nil {
		return err
	}
	if !same(now, f.stat) {
		return errors.New("its file was changed")
	}

	return nil
}

// intact reports whether the file is in its place and usable.
func (f *file) intact() error {
	if err := f.usable(); err != nil {
		return err
	}

	now, err := os.Stat(f.path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return errors.New("its file is gone")
	case err != nil:
		return err
	case !os.SameFile(now, f.stat):
		return errors.New("its file was replaced")
	}

	return nil
}

// hold keeps the file open until letGo. The caller knows that it is open.
func (f *file) hold() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.readers++
}

func (f *file) letGo() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.readers--
	f.closeUnused()
}

// retire closes the file once nobody reads it.
func (f *file) retire() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.retired {
		return
	}

	f.retired = true
	close(f.stop)
	f.closeUnused()
}

func (f *file) closeUnused() {
	if !f.retired || f.readers > 0 {
		return
	}
	_ = f.os.Close() // It was synced when it was written, and then only read.
	for _, c := range f.kept {
		c.close()
	}
}

func (f *file) isVerified() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.verified
}

// broken notes that the file is damaged.
func (f *file) broken(err error) error {
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

// verify reads all blobs and compares them with their sums, unless the file is retired
// meanwhile. The file is held.
func (f *file) verify() {
	in := bufio.NewReaderSize(io.NewSectionReader(f.os, 0, f.index.bytes), chunkBytes)
	var line []byte
	for i := range f.index.records {
		select {
		case <-f.stop:
			return
		default:
		}

		r := &f.index.records[i]
		line = grown(line, int(r.length))
		if _, err := io.ReadFull(in, line); err != nil {
			_ = f.broken(fmt.Errorf("reading blob %d: %w", i, err)) // Who reads on is told.
			return
		}
		if err := r.check(i, line); err != nil {
			_ = f.broken(err)
			return
		}
	}

	f.mu.Lock()
	f.verified = true
	f.mu.Unlock()
}

// check compares a line with what the index says of it.
func (r *record) check(number int, line []byte) error {
	blob := line[:len(line)-1]
	if line[len(line)-1] != '\n' || sumOf(blob) != r.sum {
		return fmt.Errorf("the checksum of blob %d does not match", number)
	}
	return nil
}

// readLine reads the line of a record and checks it. The buffer is used again when it is
// large enough.
func (f *file) readLine(number int, buffer []byte) ([]byte, error) {
	r := &f.index.records[number]
	line := grown(buffer, int(r.length))
	if _, err := f.os.ReadAt(line, r.offset); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("reading stored content: %w", err)
	}

	if err := r.check(number, line); err != nil {
		return nil, fmt.Errorf("reading stored content: %w", f.broken(err))
	}

	return line, nil
}

// grown returns a buffer of a length, the given one if it is large enough.
func grown(buffer []byte, length int) []byte {
	if cap(buffer) < length {
		return make([]byte, length, max(length, 2*cap(buffer)))
	}
	return buffer[:length]
}
