package image

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"go.podman.io/image/v5/pkg/blobinfocache/none"
	"go.podman.io/image/v5/types"
)

var errStalled = errors.New("the registry stopped sending")

// blobReader reads a blob and verifies its size and digest on the way: it never gives a
// byte more than the manifest says, and ends with io.EOF only if all of it was right.
type blobReader struct {
	layer layer
	limit int64 // bytes that are read when the manifest gives no size
	body  io.ReadCloser
	sum   hash.Hash
	read  int64
	err   error // why the blob itself could not be read; sticky

	cause  func() error
	cancel context.CancelCauseFunc
	timer  *time.Timer
	stall  time.Duration
}

// blob opens a layer or a configuration. Foreign URLs that a manifest may name are never
// followed: an image must not choose which hosts this program talks to.
func (img *Image) blob(ctx context.Context, l layer) (*blobReader, error) {
	if !l.digest.Algorithm().Available() {
		return nil, badContent("the digest algorithm of %s is not known", l.digest)
	}
	if limit := img.client.opts.Limits.BlobBytes; l.size > limit {
		return nil, badContent("the blob %s has %d bytes, at most %d are read", l.digest, l.size, limit)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	l.size = max(l.size, 0)
	b := &blobReader{
		layer: l, limit: img.client.opts.Limits.BlobBytes, sum: l.digest.Algorithm().Hash(), cancel: cancel, stall: img.client.opts.Timeouts.Stall,
		cause: func() error { return context.Cause(ctx) },
	}
	b.timer = time.AfterFunc(b.stall, func() { cancel(errStalled) })
	body, size, err := img.source.GetBlob(ctx, types.BlobInfo{Digest: l.digest, Size: l.size}, none.NoCache)
	if err != nil {
		err = b.explain(err)
		b.timer.Stop()
		cancel(nil)
		return nil, fmt.Errorf("read the blob %s: %w", l.digest, err)
	}
	b.body = body
	if l.size > 0 && size >= 0 && size != l.size {
		_ = b.Close()
		return nil, badContent("the blob %s has %d bytes in the registry, the manifest says %d", l.digest, size, l.size)
	}
	return b, nil
}

// explain names a stall: net/http gives its cause or only "context canceled", depending on
// where the request stood.
func (b *blobReader) explain(err error) error {
	if errors.Is(err, errStalled) || errors.Is(err, context.Canceled) && errors.Is(b.cause(), errStalled) {
		return fmt.Errorf("%w for %s", errStalled, b.stall)
	}
	return err
}

// Read implements io.Reader.
func (b *blobReader) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	b.timer.Reset(b.stall)
	n, err := b.body.Read(p)
	b.read += int64(n)
	_, _ = b.sum.Write(p[:n])
	size := b.layer.size
	switch {
	case size > 0 && b.read > size:
		b.err = badContent("the blob %s is longer than the %d bytes that the manifest says", b.layer.digest, size)
		return 0, b.err
	case b.read > b.limit:
		b.err = badContent("the blob %s has more than %d bytes", b.layer.digest, b.limit)
		return 0, b.err
	case err == nil:
		return n, nil
	case !errors.Is(err, io.EOF):
		b.err = fmt.Errorf("read the blob %s: connection failed after %d bytes: %w", b.layer.digest, b.read, b.explain(err))
	case size > 0 && b.read < size:
		b.err = badContent("the blob %s ends after %d of the %d bytes that the manifest says", b.layer.digest, b.read, size)
	default:
		b.err = b.verify()
	}
	return n, b.err
}

func (b *blobReader) verify() error {
	if got := hex.EncodeToString(b.sum.Sum(nil)); got != b.layer.digest.Encoded() {
		return badContent("what the registry sent as the blob %s has the digest %s:%s", b.layer.digest, b.layer.digest.Algorithm(), got)
	}
	return io.EOF
}

// drain reads what is left, so that all of the blob is verified.
func (b *blobReader) drain() error {
	_, err := io.Copy(io.Discard, b)
	return err
}

// Close releases the connection.
func (b *blobReader) Close() error {
	b.timer.Stop()
	b.cancel(nil)
	return b.body.Close()
}
