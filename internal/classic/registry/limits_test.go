package registry_test

import (
	"encoding/binary"
	"io"
	"net"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/classic/registry"
	"github.com/mainstay-dev/mainstay/internal/classic/registry/content"
)

// A client learns the limits of a connection at its start, in a frame of HTTP/2 that holds
// pairs of a number and a value.
func TestLimitsOfAConnection(t *testing.T) {
	connection, err := net.Dial("tcp", start(t, &registry.Server{Source: content.Folder{Dir: "testdata/catalog"}}))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	settings := []byte{0, 0, 0, 4, 0, 0, 0, 0, 0}
	if _, err := connection.Write(append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), settings...)); err != nil {
		t.Fatal(err)
	}

	head := make([]byte, 9)
	if _, err := io.ReadFull(connection, head); err != nil {
		t.Fatal(err)
	}
	if head[3] != 4 {
		t.Fatalf("the first frame is of the type %d", head[3])
	}

	pairs := make([]byte, int(head[1])<<8|int(head[2]))
	if _, err := io.ReadFull(connection, pairs); err != nil {
		t.Fatal(err)
	}

	got := map[uint16]uint32{}
	for ; len(pairs) > 0; pairs = pairs[6:] {
		got[binary.BigEndian.Uint16(pairs)] = binary.BigEndian.Uint32(pairs[2:])
	}

	const maxConcurrentStreams, maxHeaderListSize, maxFrameSize = 3, 6, 5
	want := map[uint16]uint32{maxConcurrentStreams: 250, maxHeaderListSize: 64 << 10, maxFrameSize: 16 << 10}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
