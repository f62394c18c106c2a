package catalogstore

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"
)

// Format of a content file:
//
//	blobs     one JSON object per line
//	index     strings uvarint count, then each as uvarint length and bytes, sorted
//	          records uvarint count, then recordSize bytes each, little endian
//	trailer   magic, length of the blobs, length of the index, SHA-256 of the index
//
// The index contains the checksum of each blob, so that the checksum of the index covers the whole file.
// A reader starts with the trailer, which has a fixed size. Each version of the format has its own
// magic. A catalog with a file of another version is unpacked again.
const (
	magic       = "MAINCAT2"
	trailerSize = len(magic) + 8 + 8 + sha256.Size
	// length 4, schema 4, package 4, name 4, sum.
	recordSize = 16 + checksumSize
)

// trailer is the end of a content file.
type trailer struct {
	blobs, index int64
	indexSum     [sha256.Size]byte
}

func (t trailer) encode() []byte {
	out := append(make([]byte, 0, trailerSize), magic...)
	out = appendSize(appendSize(out, t.blobs), t.index)
	return append(out, t.indexSum[:]...)
}

// errFormat is returned for a file that is not a content file of this version.
var errFormat = errors.New("is not a content file of this version")

func decodeTrailer(b []byte, fileSize int64) (trailer, error) {
	if len(b) != trailerSize || string(b[:len(magic)]) != magic {
		return trailer{}, errFormat
	}

	b = b[len(magic):]
	t := trailer{blobs: decodeSize(b), index: decodeSize(b[8:])}
	rest := fileSize - int64(trailerSize)
	if t.blobs < 0 || t.blobs > rest || t.index != rest-t.blobs {
		return trailer{}, errors.New("has a length that does not match its trailer")
	}

	copy(t.indexSum[:], b[16:])
	return t, nil
}

// appendSize appends a size, which is never negative.
func appendSize(out []byte, n int64) []byte {
	return binary.LittleEndian.AppendUint64(out, uint64(n)) //nolint:gosec // decodeSize restores a negative value.
}

// decodeSize decodes the output of appendSize. The result can be negative if another program wrote the
// file.
func decodeSize(b []byte) int64 {
	return int64(binary.LittleEndian.Uint64(b)) //nolint:gosec // Callers reject negative sizes.
}

// writeTo writes the index and the trailer.
func (ix *index) writeTo(w io.Writer) error {
	out := binary.AppendUvarint(nil, uint64(len(ix.strings)))
	for _, s := range ix.strings {
		out = append(binary.AppendUvarint(out, uint64(len(s))), s...)
	}

	out = binary.AppendUvarint(out, uint64(len(ix.records)))
	out = slices.Grow(out, len(ix.records)*recordSize+trailerSize)
	for i := range ix.records {
		r := &ix.records[i]
		for _, v := range [...]uint32{r.length, r.keys[fieldSchema], r.keys[fieldPackage], r.keys[fieldName]} {
			out = binary.LittleEndian.AppendUint32(out, v)
		}
		out = append(out, r.sum[:]...)
	}

	end := trailer{blobs: ix.bytes, index: int64(len(out)), indexSum: sha256.Sum256(out)}
	_, err := w.Write(append(out, end.encode()...))
	return err
}

// readIndex reads the index of a content file.
func readIndex(file io.ReaderAt, fileSize int64) (*index, error) {
	if fileSize < int64(trailerSize) {
		return nil, errFormat
	}

	buffer := make([]byte, trailerSize)
	if _, err := file.ReadAt(buffer, fileSize-int64(trailerSize)); err != nil {
		return nil, err
	}

	t, err := decodeTrailer(buffer, fileSize)
	if err != nil {
		return nil, err
	}

	text := make([]byte, t.index)
	if _, err := file.ReadAt(text, t.blobs); err != nil {
		return nil, err
	}
	if sha256.Sum256(text) != t.indexSum {
		return nil, errChecksum
	}

	return decodeIndex(text, t.blobs)
}

// errChecksum is returned for a damaged file.
var errChecksum = errors.New("its checksum does not match")

// decodeIndex decodes an index whose checksum was verified. It still validates the input, because
// another program can have written the file.
func decodeIndex(text []byte, blobs int64) (*index, error) {
	d := &decoder{rest: text}
	ix := &index{strings: make([]string, 0, d.readCount(1))}
	ix.strings = d.readStrings(ix.strings)
	ix.records = make([]record, 0, d.readCount(recordSize))
	for range cap(ix.records) {
		ix.records = append(ix.records, d.readRecord())
	}

	if d.failed || len(d.rest) > 0 || !slices.IsSorted(ix.strings) {
		return nil, errors.New("its index is invalid")
	}

	for i := range ix.records {
		r := &ix.records[i]
		if highest := slices.Max(r.keys[:]); int64(highest) >= int64(len(ix.strings)) || r.length == 0 {
			return nil, errors.New("its index has invalid references")
		}
	}

	if ix.deriveOffsetsAndLists(); ix.bytes != blobs {
		return nil, errors.New("its index does not match its blobs")
	}

	return ix, nil
}

// decoder decodes an index. After a failure, it returns zero values.
type decoder struct {
	rest   []byte
	failed bool
}

func (d *decoder) readUvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) readBytes() []byte {
	n := d.readUvarint()
	if n > uint64(len(d.rest)) {
		d.fail()
		return nil
	}

	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

// readStrings appends strings to a list up to its capacity. All strings share one allocation.
func (d *decoder) readStrings(list []string) []string {
	start := d.rest
	for range cap(list) {
		d.readBytes()
	}

	all := string(start[:len(start)-len(d.rest)])
	again := &decoder{rest: start}
	for range cap(list) {
		n := len(again.readBytes())
		end := len(start) - len(again.rest)
		if d.failed {
			return list
		}
		list = append(list, all[end-n:end])
	}

	return list
}

// readCount reads the number of items that follow, each of which takes at least size bytes.
func (d *decoder) readCount(size int) int {
	n := d.readUvarint()
	if n > math.MaxInt32 || int(n) > len(d.rest)/size {
		d.fail()
		return 0
	}
	return int(n)
}

func (d *decoder) readRecord() record {
	if len(d.rest) < recordSize {
		d.fail()
		return record{}
	}

	b := d.rest
	d.rest = d.rest[recordSize:]
	r := record{length: binary.LittleEndian.Uint32(b), sum: checksum(b[16:recordSize])}
	for field := range r.keys {
		r.keys[field] = binary.LittleEndian.Uint32(b[4+4*field:])
	}

	return r
}

func (d *decoder) fail() {
	d.failed = true
	d.rest = nil
}

// pointer is the metadata of a stored catalog. Its file consists of a line of JSON and a line with the
// SHA-256 of the first line.
type pointer struct {
	Source
	// Content is the checksum of the blobs, in hexadecimal.
	Content string `json:"content"`
	// Unpacked is the time at which the content was stored.
	Unpacked time.Time `json:"unpacked"`
	// Confirmed is the time at which the source was last known to resolve to the content.
	Confirmed time.Time `json:"confirmed"`
	// Modified is the time at which the content last changed, in whole seconds.
	Modified time.Time `json:"modified"`
}

func (p pointer) encode() ([]byte, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	check := sha256.Sum256(text)
	return fmt.Appendf(text, "\n%x\n", check), nil
}

// maxPointerSize is the maximum size of a pointer file in bytes: two references of a thousand bytes, with
// the overhead of JSON.
const maxPointerSize = 16 << 10

func decodePointer(text []byte) (pointer, error) {
	line, check, _ := bytes.Cut(text, []byte("\n"))
	if want := sha256.Sum256(line); string(check) != hex.EncodeToString(want[:])+"\n" {
		return pointer{}, errChecksum
	}

	var p pointer
	if err := json.Unmarshal(line, &p); err != nil {
		return pointer{}, err
	}
	if name, err := hex.DecodeString(p.Content); err != nil || len(name) != checksumSize {
		return pointer{}, errors.New("does not name content")
	}

	return p, nil
}
