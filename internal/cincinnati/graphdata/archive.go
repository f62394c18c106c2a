package graphdata

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"

	"github.com/klauspost/compress/gzip"
)

// archive packs files as they are read. The same files give the same bytes.
type archive struct {
	packed bytes.Buffer
	zip    *gzip.Writer
	files  *tar.Writer
}

func newArchive() *archive {
	a := &archive{}
	a.zip = gzip.NewWriter(&a.packed)
	a.files = tar.NewWriter(a.zip)
	return a
}

func (a *archive) add(name string, data []byte) error {
	err := a.files.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(data))})
	if err == nil {
		_, err = a.files.Write(data)
	}
	if err != nil {
		return fmt.Errorf("packing it: %w", err)
	}
	return nil
}

func (a *archive) close() ([]byte, error) {
	if err := errors.Join(a.files.Close(), a.zip.Close()); err != nil {
		return nil, fmt.Errorf("packing the folder: %w", err)
	}
	return a.packed.Bytes(), nil
}

// Archive is the folder as a .tar.gz with those of its files that count, for whoever wants
// to have the same data elsewhere. It must not be changed. No data has none.
func (d *Data) Archive() []byte {
	if d == nil {
		return nil
	}
	return d.archive
}
