package content

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/cespare/xxhash/v2"
)

// A content file is
//
//	data     blobs as JSON, and summaries of bundles as protocol buffers;
//	         spans are parts of it
//	index    see encoder
//	trailer  magic; the length of the data; the sum of the source; the sum of data and
//	         index; and the sum of what comes before it in the trailer
//
// where lengths and sums take 8 bytes, little endian. A reader starts with the trailer,
// at a fixed distance from the end. A file of another version of the format has another
// magic, and is built again.
//
// All is in one file, so that one rename puts it into place: of two processes that
// build at the same time either is the last, and both have what they built.
const (
	magic       = "MAINREG1"
	trailerSize = len(magic) + 4*8
	// indexBytes is the largest index. Up to 20 times as much is taken in memory by one
	// that is made to do so, 3 times by a real one. The largest public catalog, of 30,000
	// bundles, has an index of 2 MiB.
	indexBytes = 32 << 20
	// dataBytes is the largest data: forty times the largest public catalog, and what
	// 1 GiB of YAML can become.
	dataBytes = 4 << 30
)

// trailer is the end of a content file.
type trailer struct {
	data uint64
	// source and own are the sums of the source and of the file up to the trailer.
	source, own uint64
}

func (t trailer) encode() []byte {
	out := append(make([]byte, 0, trailerSize), magic...)
	for _, n := range [...]uint64{t.data, t.source, t.own} {
		out = binary.LittleEndian.AppendUint64(out, n)
	}
	return binary.LittleEndian.AppendUint64(out, xxhash.Sum64(out))
}

// errFormat says that a file is not a content file of this version.
var errFormat = errors.New("is not a cache of this version")

// decodeTrailer reads the trailer of a file of a size.
func decodeTrailer(b []byte, size int64) (trailer, error) {
	if len(b) != trailerSize || string(b[:len(magic)]) != magic {
		return trailer{}, errFormat
	}
	if xxhash.Sum64(b[:trailerSize-8]) != binary.LittleEndian.Uint64(b[trailerSize-8:]) {
		return trailer{}, errors.New("is damaged at its end")
	}

	b = b[len(magic):]
	t := trailer{data: binary.LittleEndian.Uint64(b), source: binary.LittleEndian.Uint64(b[8:]), own: binary.LittleEndian.Uint64(b[16:])}
	rest := uint64(size) - uint64(trailerSize) //nolint:gosec // The trailer was read, so that the file is at least as long.
	if t.data > rest || rest-t.data > indexBytes {
		return trailer{}, errors.New("has another length than it says")
	}

	return t, nil
}

// digest puts the sums of source and file together into what people see of them.
func (t trailer) digest() string {
	both := binary.LittleEndian.AppendUint64(nil, t.source)
	return fmt.Sprintf("%016x", xxhash.Sum64(binary.LittleEndian.AppendUint64(both, t.own)))
}

// readTrailer reads the trailer of a file.
func readTrailer(file *os.File) (trailer, int64, error) {
	info, err := file.Stat()
	if err != nil {
		return trailer{}, 0, err
	}
	if !info.Mode().IsRegular() || info.Size() < int64(trailerSize) {
		return trailer{}, 0, errFormat
	}

	end := make([]byte, trailerSize)
	if _, err := file.ReadAt(end, info.Size()-int64(trailerSize)); err != nil {
		return trailer{}, 0, err
	}

	t, err := decodeTrailer(end, info.Size())
	return t, info.Size(), err
}

// readIndex reads the index of a file of a size.
func readIndex(file *os.File, t trailer, size int64) (*index, error) {
	text := make([]byte, size-int64(trailerSize)-int64(t.data)) //nolint:gosec // It is at most the size.
	if _, err := file.ReadAt(text, int64(t.data)); err != nil { //nolint:gosec // The same.
		return nil, err
	}
	return decodeIndex(text, t.data)
}

const (
	// fileName is the name of a content file in its folder.
	fileName = "catalog"
	// temporary is how a file is called until it is complete.
	temporary = ".new-*"
	// abandoned is how old an incomplete file has to be to be that of a process that has
	// ended. A file that is being written is changed several times a second.
	abandoned = time.Hour
	// Everybody may read the cache, as they may the catalog: the user of an image that
	// was built by another has to. The group may write it, so that a user that a cluster
	// made up, who is in the group that an image's files belong to, can build it again.
	folderMode = 0o775
	fileMode   = 0o664
)

// writer writes a content file.
type writer struct {
	file   *os.File
	buffer *bufio.Writer
	sums   pieceWriter
	offset uint64
}

// newWriter begins a file in a folder.
func newWriter(dir string) (*writer, error) {
	removeAbandoned(dir)
	file, err := os.CreateTemp(dir, temporary)
	if err != nil {
		return nil, err
	}

	w := &writer{file: file}
	w.buffer = bufio.NewWriterSize(io.MultiWriter(file, &w.sums), readBytes)
	return w, nil
}

// removeAbandoned removes what processes left that ended while they wrote. What cannot
// be removed stays: nothing depends on it.
func removeAbandoned(dir string) {
	names, _ := filepath.Glob(filepath.Join(dir, temporary)) // The pattern is right.
	for _, name := range names {
		if info, err := os.Lstat(name); err == nil && time.Since(info.ModTime()) > abandoned {
			_ = os.Remove(name)
		}
	}
}

// write appends data and gives the span that it takes.
func (w *writer) write(data []byte) (span, error) {
	s := span{offset: w.offset, length: uint32(len(data))} //nolint:gosec // Blobs are bounded, and summaries are parts of them.
	if w.offset += uint64(len(data)); w.offset > dataBytes {
		return span{}, fmt.Errorf("the catalog is larger than %d bytes", uint64(dataBytes))
	}
	_, err := w.buffer.Write(data)
	return s, err
}

// finish writes index and trailer and puts the file into its place, where it stays open.
// source is the sum of the source.
//
// Nothing waits for the disk: a file that a crash cut off does not pass its sum and is
// built again.
func (w *writer) finish(ix *index, source uint64) error {
	text := ix.encode()
	if len(text) > indexBytes {
		return fmt.Errorf("the index of the catalog is larger than %d bytes", indexBytes)
	}
	if _, err := w.buffer.Write(text); err != nil {
		return err
	}
	if err := w.buffer.Flush(); err != nil {
		return err
	}

	t := trailer{data: w.offset, source: source, own: w.sums.sum()}
	if _, err := w.file.Write(t.encode()); err != nil {
		return err
	}
	if err := w.file.Chmod(fileMode); err != nil {
		return err
	}

	return os.Rename(w.file.Name(), filepath.Join(filepath.Dir(w.file.Name()), fileName)) //nolint:gosec // It was made by this program.
}

// abandon removes a file that is not finished.
func (w *writer) abandon() {
	_ = w.file.Close()
	_ = os.Remove(w.file.Name()) //nolint:gosec // It was made by this program.
}
