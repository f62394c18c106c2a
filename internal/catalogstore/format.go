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

// A content file is:
//
//	blobs     one JSON object a line
//	index     strings uvarint count, then each as uvarint length and bytes, sorted
//	          records uvarint count, then recordSize bytes each, little endian
//	trailer   magic, length of the blobs, length of the index, SHA-256 of the index
//
// The index has the sum of each blob, so that its own sum vouches for the whole file. A
// reader starts with the trailer, which is at a fixed distance from the end. A file of
// another version of the format has another magic, and is unpacked again.
const (
	magic       = "MAINCAT2"
	trailerSize = len(magic) + 8 + 8 + sha256.Size
	// length 4, schema 4, package 4, name 4, sum.
	recordSize = 16 + sumSize
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

// errFormat says that a file is not a content file of this version.
var errFormat = errors.New("is not a content file of this version")

func decodeTrailer(b []byte, fileSize int64) (trailer, error) {
	if len(b) != trailerSize || string(b[:len(magic)]) != magic {
		return trailer{}, errFormat
	}

	b = b[len(magic):]
	t := trailer{blobs: size(b), index: size(b[8:])}
	rest := fileSize - int64(trailerSize)
	if t.blobs < 0 || t.blobs > rest || t.index != rest-t.blobs {
		return trailer{}, errors.New("has another length than it says")
	}

	copy(t.indexSum[:], b[16:])
	return t, nil
}

// appendSize appends a size, which is never negative.
func appendSize(out []byte, n int64) []byte {
	return binary.LittleEndian.AppendUint64(out, uint64(n)) //nolint:gosec // Two's complement gives a negative one back as it was.
}

// size reads what appendSize wrote. A file that another program wrote may give a negative
// one.
func size(b []byte) int64 {
	return int64(binary.LittleEndian.Uint64(b)) //nolint:gosec // Callers refuse what is negative.
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

// errChecksum says that a file was damaged.
var errChecksum = errors.New("its checksum does not match")

// decodeIndex reads an index. The bytes have passed their checksum, so that an error here
// means that another program wrote the file; it is checked all the same.
func decodeIndex(text []byte, blobs int64) (*index, error) {
	d := &decoder{rest: text}
	ix := &index{strings: make([]string, 0, d.count(1))}
	ix.strings = d.strings(ix.strings)
	ix.records = make([]record, 0, d.count(recordSize))
	for range cap(ix.records) {
		ix.records = append(ix.records, d.record())
	}

	if d.failed || len(d.rest) > 0 || !slices.IsSorted(ix.strings) {
		return nil, errors.New("its index cannot be read")
	}

	for i := range ix.records {
		r := &ix.records[i]
		if highest := slices.Max(r.keys[:]); int64(highest) >= int64(len(ix.strings)) || r.length == 0 {
			return nil, errors.New("its index names what is not there")
		}
	}

	if ix.complete(); ix.bytes != blobs {
		return nil, errors.New("its index is of other blobs")
	}

	return ix, nil
}

// decoder reads an index. After a failure it gives zero values.
type decoder struct {
	rest   []byte
	failed bool
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) bytes() []byte {
	n := d.uvarint()
	if n > uint64(len(d.rest)) {
		d.fail()
		return nil
	}

	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

// strings fills a list with what follows. One copy holds all of them, and each is a part
// of it.
func (d *decoder) strings(list []string) []string {
	start := d.rest
	for range cap(list) {
		d.bytes()
	}

	all := string(start[:len(start)-len(d.rest)])
	again := &decoder{rest: start}
	for range cap(list) {
		n := len(again.bytes())
		end := len(start) - len(again.rest)
		if d.failed {
			return list
		}
		list = append(list, all[end-n:end])
	}

	return list
}

// count reads a number of things that take at least size bytes each.
func (d *decoder) count(size int) int {
	n := d.uvarint()
	if n > math.MaxInt32 || int(n) > len(d.rest)/size {
		d.fail()
		return 0
	}
	return int(n)
}

func (d *decoder) record() record {
	if len(d.rest) < recordSize {
		d.fail()
		return record{}
	}

	b := d.rest
	d.rest = d.rest[recordSize:]
	r := record{length: binary.LittleEndian.Uint32(b), sum: sum(b[16:recordSize])}
	for field := range r.keys {
		r.keys[field] = binary.LittleEndian.Uint32(b[4+4*field:])
	}

	return r
}

func (d *decoder) fail() {
	d.failed = true
	d.rest = nil
}

// pointer is what the store knows of a catalog beside its blobs. Its file is a line of
// JSON and a line with the SHA-256 of that.
type pointer struct {
	Source
	// Content is the sum of the blobs, in hexadecimal.
	Content string `json:"content"`
	// Unpacked is when the content was stored.
	Unpacked time.Time `json:"unpacked"`
	// Confirmed is when the source was last known to give the content.
	Confirmed time.Time `json:"confirmed"`
	// Modified is when the content last changed, in whole seconds.
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

// pointerBytes is the longest file of a pointer: two references of a thousand bytes, and
// what JSON makes of them.
const pointerBytes = 16 << 10

func decodePointer(text []byte) (pointer, error) {
	line, check, _ := bytes.Cut(text, []byte("\n"))
	if want := sha256.Sum256(line); string(check) != hex.EncodeToString(want[:])+"\n" {
		return pointer{}, errChecksum
	}

	var p pointer
	if err := json.Unmarshal(line, &p); err != nil {
		return pointer{}, err
	}
	if name, err := hex.DecodeString(p.Content); err != nil || len(name) != sumSize {
		return pointer{}, errors.New("does not name content")
	}

	return p, nil
}
