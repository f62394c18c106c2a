package store

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"time"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// A content file is:
//
//	blobs     one JSON object a line
//	index     header  uvarint length, JSON
//	          strings uvarint count, then each as uvarint length and bytes
//	          records uvarint count, then recordSize bytes each, little endian
//	trailer   magic, length of the blobs, length of the index, SHA-256 of each
//
// A reader starts with the trailer, which is at a fixed distance from the end. A file
// of another version of the format has another magic, and is unpacked again.
const (
	magic       = "MAINCAT1"
	trailerSize = len(magic) + 8 + 8 + sha256.Size + sha256.Size
	// offset 8, length 4, schema 4, package 4, name 4, sum 16.
	recordSize = 40
	sumSize    = 16
)

// header is what a file says of its content.
type header struct {
	Source
	// Unpacked is when the content was written.
	Unpacked time.Time `json:"unpacked"`
	// Modified is when the content last changed, in whole seconds.
	Modified time.Time `json:"modified"`
}

// record is one blob in the index.
type record struct {
	offset int64
	// length is that of the line, with its line break.
	length uint32
	// schema, pkg and name are indexes of strings.
	schema, pkg, name uint32
	// sum is the start of the blob's SHA-256.
	sum [sumSize]byte
}

// index finds blobs in a content file.
type index struct {
	strings []string
	records []record
}

// trailer is the end of a content file.
type trailer struct {
	blobs, index       int64
	blobsSum, indexSum [sha256.Size]byte
}

func (t trailer) encode() []byte {
	out := append(make([]byte, 0, trailerSize), magic...)
	out = appendSize(appendSize(out, t.blobs), t.index)
	return append(append(out, t.blobsSum[:]...), t.indexSum[:]...)
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
	copy(t.blobsSum[:], b[16:])
	copy(t.indexSum[:], b[16+sha256.Size:])
	return t, nil
}

// appendSize appends a size or an offset, which is never negative.
func appendSize(out []byte, n int64) []byte {
	return binary.LittleEndian.AppendUint64(out, uint64(n)) //nolint:gosec // Two's complement gives a negative one back as it was.
}

// size reads what appendSize wrote. A file that another program wrote may give a negative
// one.
func size(b []byte) int64 {
	return int64(binary.LittleEndian.Uint64(b)) //nolint:gosec // Callers refuse what is negative.
}

// builder collects the index while blobs are written.
type builder struct {
	index  index
	ids    map[string]uint32
	offset int64
	// stringBytes is the length of all strings.
	stringBytes int
	limits      Limits
}

func newBuilder(limits Limits) *builder {
	return &builder{ids: map[string]uint32{}, limits: limits}
}

// add takes in the next blob of the file. Its errors are about the content.
func (b *builder) add(meta fbc.Meta) error {
	length := len(meta.Blob) + 1
	r := record{
		offset: b.offset,
		length: uint32(length), //nolint:gosec // A length that does not fit is refused below.
		schema: b.id(meta.Schema),
		pkg:    b.id(meta.Package),
		name:   b.id(meta.Name),
	}
	sum := sha256.Sum256(meta.Blob)
	copy(r.sum[:], sum[:])
	b.index.records = append(b.index.records, r)
	b.offset += int64(length)
	indexBytes := len(b.index.records)*recordSize + b.stringBytes
	switch {
	case int64(length) > math.MaxUint32:
		return &fbc.Error{Err: fmt.Errorf("%s is larger than 4 GiB", meta)}
	case b.offset > b.limits.Bytes:
		return &fbc.Error{Err: fmt.Errorf("the catalog is larger than %d bytes", b.limits.Bytes)}
	case indexBytes > b.limits.IndexBytes:
		return &fbc.Error{Err: fmt.Errorf("the index of the catalog is larger than %d bytes after %d blobs", b.limits.IndexBytes, len(b.index.records))}
	}
	return nil
}

func (b *builder) id(s string) uint32 {
	if id, ok := b.ids[s]; ok {
		return id
	}
	id := uint32(len(b.index.strings)) //nolint:gosec // The limit of the index's size is far below.
	b.ids[s] = id
	b.index.strings = append(b.index.strings, s)
	b.stringBytes += len(s)
	return id
}

// writeIndex writes header and index.
func writeIndex(w io.Writer, h header, ix index) error {
	text, err := json.Marshal(h)
	if err != nil {
		return err
	}
	out := binary.AppendUvarint(nil, uint64(len(text)))
	out = append(out, text...)
	out = binary.AppendUvarint(out, uint64(len(ix.strings)))
	for _, s := range ix.strings {
		out = append(binary.AppendUvarint(out, uint64(len(s))), s...)
	}
	out = binary.AppendUvarint(out, uint64(len(ix.records)))
	if _, err := w.Write(out); err != nil {
		return err
	}
	buffer := make([]byte, 0, recordSize)
	for _, r := range ix.records {
		buffer = appendSize(buffer[:0], r.offset)
		for _, v := range [...]uint32{r.length, r.schema, r.pkg, r.name} {
			buffer = binary.LittleEndian.AppendUint32(buffer, v)
		}
		if _, err := w.Write(append(buffer, r.sum[:]...)); err != nil {
			return err
		}
	}
	return nil
}

// readIndex reads header and index. The bytes have passed their checksum, so that an
// error here means that another program wrote the file; it is checked all the same.
func readIndex(text []byte, blobs int64) (header, index, error) {
	d := &decoder{rest: text}
	var h header
	if err := json.Unmarshal(d.bytes(), &h); err != nil {
		return header{}, index{}, fmt.Errorf("its header cannot be read: %w", err)
	}
	ix := index{strings: make([]string, 0, d.count(1))}
	// One copy holds all strings; each is a part of it.
	all := string(d.rest)
	for range cap(ix.strings) {
		start := len(all) - len(d.rest)
		n := len(d.bytes())
		end := len(all) - len(d.rest)
		if end-n < start {
			break
		}
		ix.strings = append(ix.strings, all[end-n:end])
	}
	ix.records = make([]record, 0, d.count(recordSize))
	for range cap(ix.records) {
		ix.records = append(ix.records, d.record())
	}
	if d.failed || len(d.rest) > 0 {
		return header{}, index{}, errors.New("its index cannot be read")
	}
	for _, r := range ix.records {
		highest := max(r.schema, r.pkg, r.name)
		if int64(highest) >= int64(len(ix.strings)) || r.offset < 0 || r.offset > blobs-int64(r.length) {
			return header{}, index{}, errors.New("its index names what is not there")
		}
	}
	return h, ix, nil
}

// decoder reads the index. After a failure it gives zero values.
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
	r := record{
		offset: size(b),
		length: binary.LittleEndian.Uint32(b[8:]),
		schema: binary.LittleEndian.Uint32(b[12:]),
		pkg:    binary.LittleEndian.Uint32(b[16:]),
		name:   binary.LittleEndian.Uint32(b[20:]),
	}
	copy(r.sum[:], b[24:])
	return r
}

func (d *decoder) fail() {
	d.failed = true
	d.rest = nil
}

// summer counts and hashes what passes.
type summer struct {
	w    io.Writer
	hash hash.Hash
	n    int64
}

func newSummer(w io.Writer) *summer { return &summer{w: w, hash: sha256.New()} }

func (s *summer) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	s.hash.Write(p[:n])
	s.n += int64(n)
	return n, err
}

func (s *summer) sum() (sum [sha256.Size]byte) {
	copy(sum[:], s.hash.Sum(nil))
	return sum
}
