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
//	         spans are parts of it. Instead of a blob of a Stored source, the
//	         file has its position in the source, in 4 bytes
//	index    see encoder
//	trailer  magic; the length of the data; the sum of the source; the sum of data and
//	         index; and the sum of what comes before it in the trailer
//
// Lengths and checksums take 8 bytes, little endian. A reader starts with the trailer, at a
// fixed distance from the end. A file of another version of the format has another magic number
// and is rebuilt.
//
// Everything is in one file, so that one rename replaces it atomically. If two processes build
// at the same time, the last rename wins and both serve what they built.
const (
	fileMagic   = "MAINREG1"
	trailerSize = len(fileMagic) + 4*8
	// maxIndexBytes is the largest encoded index. The decoded index takes about 3 times as much
	// memory, up to 20 times if it was crafted for that. The largest public catalog, with
	// 30,000 bundles, has an index of 2 MiB.
	maxIndexBytes = 32 << 20
	// maxDataBytes is the largest size of the data: forty times the largest public catalog, and
	// what 1 GiB of YAML can become.
	maxDataBytes = 4 << 30
)

// trailer is the end of a content file.
type trailer struct {
	dataLength uint64
	// sourceSum and fileSum are the checksums of the source and of the file before the trailer.
	sourceSum, fileSum uint64
}

// encodeTrailer returns the encoded trailer with its own checksum.
func (t trailer) encodeTrailer() []byte {
	out := append(make([]byte, 0, trailerSize), fileMagic...)
	for _, n := range [...]uint64{t.dataLength, t.sourceSum, t.fileSum} {
		out = binary.LittleEndian.AppendUint64(out, n)
	}
	return binary.LittleEndian.AppendUint64(out, xxhash.Sum64(out))
}

// errUnknownFormat is returned for a file that is not a content file of this version.
var errUnknownFormat = errors.New("is not a cache of this version")

// decodeTrailer decodes the trailer of a file that has size bytes, and checks that the lengths
// in it fit.
func decodeTrailer(b []byte, size int64) (trailer, error) {
	if len(b) != trailerSize || string(b[:len(fileMagic)]) != fileMagic {
		return trailer{}, errUnknownFormat
	}
	if xxhash.Sum64(b[:trailerSize-8]) != binary.LittleEndian.Uint64(b[trailerSize-8:]) {
		return trailer{}, errors.New("is damaged at its end")
	}

	b = b[len(fileMagic):]
	t := trailer{dataLength: binary.LittleEndian.Uint64(b), sourceSum: binary.LittleEndian.Uint64(b[8:]), fileSum: binary.LittleEndian.Uint64(b[16:])}
	rest := uint64(size) - uint64(trailerSize) //nolint:gosec // The trailer was read, so that the file is at least as long.
	if t.dataLength > rest || rest-t.dataLength > maxIndexBytes {
		return trailer{}, errors.New("has another length than it says")
	}

	return t, nil
}

// displayDigest returns the digest that is shown to users: a checksum of the source's and the
// file's.
func (t trailer) displayDigest() string {
	both := binary.LittleEndian.AppendUint64(nil, t.sourceSum)
	return fmt.Sprintf("%016x", xxhash.Sum64(binary.LittleEndian.AppendUint64(both, t.fileSum)))
}

// readTrailer reads the trailer of a file. It also returns the size of the file.
func readTrailer(file *os.File) (trailer, int64, error) {
	info, err := file.Stat()
	if err != nil {
		return trailer{}, 0, err
	}
	if !info.Mode().IsRegular() || info.Size() < int64(trailerSize) {
		return trailer{}, 0, errUnknownFormat
	}

	end := make([]byte, trailerSize)
	if _, err := file.ReadAt(end, info.Size()-int64(trailerSize)); err != nil {
		return trailer{}, 0, err
	}

	t, err := decodeTrailer(end, info.Size())
	return t, info.Size(), err
}

// readIndex reads the index of a file that has size bytes.
func readIndex(file *os.File, t trailer, size int64) (*index, error) {
	text := make([]byte, size-int64(trailerSize)-int64(t.dataLength)) //nolint:gosec // It is at most the size.
	if _, err := file.ReadAt(text, int64(t.dataLength)); err != nil { //nolint:gosec // The same.
		return nil, err
	}
	return decodeIndex(text, t.dataLength)
}

const (
	// fileName is the name of a content file in its folder.
	fileName = "catalog"
	// temporaryPattern is the pattern of the names of incomplete files.
	temporaryPattern = ".new-*"
	// abandonedFileTimeout is the age from which an incomplete file belongs to a process that
	// has ended. A file that is being written is changed several times a second.
	abandonedFileTimeout = time.Hour
	// Everyone may read the cache, as they may read the catalog: an image is often built and
	// run by different users. The group may write it, so that a random user ID that a cluster
	// assigns can rebuild it: such a user is in the group that owns the image's files.
	folderMode = 0o775
	fileMode   = 0o664
)

// contentWriter writes a content file.
type contentWriter struct {
	file *os.File
	// omitsBlobs is set if the source keeps the blobs.
	omitsBlobs bool
	buffer     *bufio.Writer
	sums       pieceHasher
	offset     uint64
}

// newContentWriter creates a temporary content file in a folder. It first removes abandoned files.
func newContentWriter(dir string) (*contentWriter, error) {
	removeAbandonedFiles(dir)
	file, err := os.CreateTemp(dir, temporaryPattern)
	if err != nil {
		return nil, err
	}

	w := &contentWriter{file: file}
	w.buffer = bufio.NewWriterSize(io.MultiWriter(file, &w.sums), readBytes)
	return w, nil
}

// removeAbandonedFiles removes incomplete files of processes that have ended. It ignores
// errors: nothing depends on the removal.
func removeAbandonedFiles(dir string) {
	names, _ := filepath.Glob(filepath.Join(dir, temporaryPattern)) // The pattern is valid.
	for _, name := range names {
		if info, err := os.Lstat(name); err == nil && time.Since(info.ModTime()) > abandonedFileTimeout {
			_ = os.Remove(name)
		}
	}
}

// appendData writes data and returns its span.
func (w *contentWriter) appendData(data []byte) (span, error) {
	s := span{offset: w.offset, length: uint32(len(data))} //nolint:gosec // Blobs are bounded, and summaries are parts of them.
	if w.offset += uint64(len(data)); w.offset > maxDataBytes {
		return span{}, fmt.Errorf("the catalog is larger than %d bytes", uint64(maxDataBytes))
	}
	_, err := w.buffer.Write(data)
	return s, err
}

// appendBlob writes a blob, unless the source keeps it, and returns its span.
func (w *contentWriter) appendBlob(d digestedBlob) (span, error) {
	if w.omitsBlobs {
		return w.appendData(binary.LittleEndian.AppendUint32(nil, d.number))
	}
	return w.appendData(d.meta.Blob)
}

// commitFile writes index and trailer and renames the file to its final name. The file stays open.
// sourceSum is the checksum of the source.
//
// The file is not synced to disk: a file that a crash truncated fails its checksum and is
// rebuilt.
func (w *contentWriter) commitFile(ix *index, sourceSum uint64) error {
	text := ix.encode()
	if len(text) > maxIndexBytes {
		return fmt.Errorf("the index of the catalog is larger than %d bytes", maxIndexBytes)
	}
	if _, err := w.buffer.Write(text); err != nil {
		return err
	}
	if err := w.buffer.Flush(); err != nil {
		return err
	}

	t := trailer{dataLength: w.offset, sourceSum: sourceSum, fileSum: w.sums.checksum()}
	if _, err := w.file.Write(t.encodeTrailer()); err != nil {
		return err
	}
	if err := w.file.Chmod(fileMode); err != nil {
		return err
	}

	return os.Rename(w.file.Name(), filepath.Join(filepath.Dir(w.file.Name()), fileName)) //nolint:gosec // It was made by this program.
}

// abandonFile closes and removes a file that was not committed.
func (w *contentWriter) abandonFile() {
	_ = w.file.Close()
	_ = os.Remove(w.file.Name()) //nolint:gosec // It was made by this program.
}
