package builder

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"testing"
)

// Compress returns a value of the ConfigMap of an unpacked bundle, with the encoding gzip+base64.
func Compress(t testing.TB, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	encoder := base64.NewEncoder(base64.StdEncoding, &out)
	writer := gzip.NewWriter(encoder)
	_, err := writer.Write([]byte(text))
	if err := errors.Join(err, writer.Close(), encoder.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
