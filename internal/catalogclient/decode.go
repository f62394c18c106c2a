package catalogclient

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// acceptEncoding is what decoded reads.
const acceptEncoding = "zstd, gzip"

// maxWindow bounds the memory of a decompressor, in bytes. It is what every server may use
// that sends zstd over HTTP (RFC 9659).
const maxWindow = 8 << 20

// decoded returns the body of an answer, decompressed and bounded. The caller closes it.
func (c *Client) decoded(resp *http.Response) (io.ReadCloser, error) {
	wire := cutReader{resp.Body}
	var plain io.Reader = wire
	end := func() {}
	switch encoding := resp.Header.Get("Content-Encoding"); encoding {
	case "", "identity":
	case "gzip":
		z, err := gzip.NewReader(wire)
		if err != nil {
			return nil, fmt.Errorf("decompressing the answer: %w", err)
		}
		plain = z
	case "zstd":
		z, err := zstd.NewReader(wire, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, fmt.Errorf("decompressing the answer: %w", err)
		}
		plain, end = z, z.Close
	default:
		return nil, fmt.Errorf("the answer is encoded in %.50q, which was not asked for", encoding)
	}

	return &decodedBody{Reader: &boundedReader{r: plain, left: c.opts.MaxBytes, limit: c.opts.MaxBytes}, end: end, wire: resp.Body}, nil
}

type decodedBody struct {
	io.Reader
	end  func()
	wire io.Closer
}

func (b *decodedBody) Close() error {
	b.end()
	return b.wire.Close()
}

// cutOffError says that an answer ended before its end.
type cutOffError struct{ err error }

func (e *cutOffError) Error() string { return e.err.Error() }
func (e *cutOffError) Unwrap() error { return e.err }

// cutReader tells errors of the connection from those of the decompressor.
type cutReader struct{ r io.Reader }

func (c cutReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = &cutOffError{err}
	}
	return n, err
}

// tooLargeError says that an answer is longer than what is read.
type tooLargeError struct{ limit int64 }

func (e *tooLargeError) Error() string { return fmt.Sprintf("it is larger than %d bytes", e.limit) }

// boundedReader limits what is read of an answer.
type boundedReader struct {
	r           io.Reader
	left, limit int64
}

func (b *boundedReader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, &tooLargeError{limit: b.limit}
	}
	return n, err
}
