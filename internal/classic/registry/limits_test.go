package registry_test

import (
	"net"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/http2"

	"github.com/mainstay-dev/mainstay/internal/classic/registry"
	"github.com/mainstay-dev/mainstay/internal/classic/registry/content"
	"github.com/mainstay-dev/mainstay/internal/testing/protocol"
)

// The server sends the limits of a connection to the client at its start.
func TestLimitsOfAConnection(t *testing.T) {
	connection, err := net.Dial("tcp", start(t, &registry.Server{Source: content.Folder{Dir: "testdata/catalog"}}))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()

	got := map[http2.SettingID]uint32{}
	err = protocol.ReadSettings(t, connection).ForeachSetting(func(s http2.Setting) error {
		got[s.ID] = s.Val
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	want := map[http2.SettingID]uint32{
		http2.SettingMaxConcurrentStreams: 250, http2.SettingMaxHeaderListSize: 64 << 10, http2.SettingMaxFrameSize: 16 << 10,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
