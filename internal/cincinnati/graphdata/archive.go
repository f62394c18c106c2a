package graphdata

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"

	"github.com/klauspost/compress/gzip"
)

// archiveWriter writes files to a .tar.gz. The same files result in the same bytes.
type archiveWriter struct {
	packed bytes.Buffer
	zip    *gzip.Writer
	files  *tar.Writer
}

func newArchiveWriter() *archiveWriter {
	a := &archiveWriter{}
	a.zip = gzip.NewWriter(&a.packed)
	a.files = tar.NewWriter(a.zip)
	return a
}

func (a *archiveWriter) addFile(name string, data []byte) error {
	err := a.files.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(data))})
	if err == nil {
		_, err = a.files.Write(data)
	}
	if err != nil {
		return fmt.Errorf("packing it: %w", err)
	}
	return nil
}

func (a *archiveWriter) close() ([]byte, error) {
	if err := errors.Join(a.files.Close(), a.zip.Close()); err != nil {
		return nil, fmt.Errorf("packing the folder: %w", err)
	}
	return a.packed.Bytes(), nil
}

// Archive returns the relevant files of the folder as a .tar.gz, so that the same data can be
// used elsewhere. It must not be changed. It is nil for nil data.
func (d *Data) Archive() []byte {
	if d == nil {
		return nil
	}
	return d.archive
}
