package image

import (
	"context"
	"runtime"
	"time"

	"github.com/mainstay-dev/mainstay/internal/image/registry"
)

// Client talks to registries. It is safe for concurrent use and holds no connection or file
// between operations. For each registry it remembers requested pauses, the login method,
// and tokens that have not expired.
type Client struct {
	registries connector
	transfers  transferSlots
}

// NewClient returns a client. It reads no files: a file that cannot be read is an error of
// the operation that needs it.
func NewClient(opts Options) *Client {
	opts.Limits = opts.Limits.withDefaults()
	opts.Timeouts.Open = positiveOrDefault(opts.Timeouts.Open, 2*time.Minute)
	opts.Timeouts.Transfer = positiveOrDefault(opts.Timeouts.Transfer, 30*time.Minute)
	opts.Timeouts.Stall = positiveOrDefault(opts.Timeouts.Stall, time.Minute)
	opts.Timeouts.Backoff = positiveOrDefault(opts.Timeouts.Backoff, 250*time.Millisecond)
	if opts.UserAgent == "" {
		opts.UserAgent = "mainstay"
	}
	if opts.Architecture == "" {
		opts.Architecture = runtime.GOARCH
	}

	shared := registry.NewShared(positiveOrDefault(opts.RequestsPerSecond, 100), opts.Timeouts.Backoff)
	return &Client{
		registries: connector{opts: opts, shared: shared},
		transfers:  newTransferSlots(opts.MaxTransfers, opts.Timeouts.Transfer),
	}
}

// ForArchitecture returns a copy of the client that selects another architecture.
func (c *Client) ForArchitecture(architecture string) *Client {
	derived := *c
	derived.registries.opts.Architecture = architecture
	return &derived
}

// readImage opens an image and calls read with it, within the time for reading manifests.
// The caller closes the image. After an error, which is one of the operation, it is closed.
func (c *Client) readImage(ctx context.Context, operation, ref string, read func(context.Context, *Image) error) (*Image, error) {
	ctx, cancel := context.WithTimeout(ctx, c.registries.opts.Timeouts.Open)
	defer cancel()

	img, err := newImage(c, ref)
	if err == nil {
		if err = read(ctx, img); err == nil {
			return img, nil
		}
		_ = img.Close()
	}

	return nil, c.registries.operationError(operation, ref, err)
}

// readOnce calls read as readImage does, and closes the image.
func (c *Client) readOnce(ctx context.Context, operation, ref string, read func(context.Context, *Image) error) error {
	img, err := c.readImage(ctx, operation, ref, read)
	if err != nil {
		return err
	}
	_ = img.Close() // It was only read.
	return nil
}

// runTransfer calls transfer within the time for transferring layers. Its error is one of
// the operation.
func (c *Client) runTransfer(ctx context.Context, operation, ref string, transfer func(context.Context) (string, error)) (string, error) {
	ctx, cancel := c.transfers.withTimeout(ctx)
	defer cancel()
	result, err := transfer(ctx)
	return result, c.registries.operationError(operation, ref, err)
}

// transferSlots bound how many images are unpacked at the same time, and for how long.
type transferSlots struct {
	// slots has an element for each image that is being unpacked. It is nil for no limit.
	slots   chan struct{}
	timeout time.Duration
}

func newTransferSlots(maxTransfers int, timeout time.Duration) transferSlots {
	t := transferSlots{timeout: timeout}
	if maxTransfers > 0 {
		t.slots = make(chan struct{}, maxTransfers)
	}
	return t
}

// withTimeout returns the context of an operation that transfers layers.
func (t transferSlots) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, t.timeout)
}

// acquire waits for a free slot, and returns the context of the transfer. The caller calls
// end, which frees the slot.
func (t transferSlots) acquire(ctx context.Context) (transfer context.Context, end func(), err error) {
	if t.slots != nil {
		select {
		case t.slots <- struct{}{}:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}

	transfer, cancel := t.withTimeout(ctx)
	return transfer, func() {
		cancel()
		if t.slots != nil {
			<-t.slots
		}
	}, nil
}
