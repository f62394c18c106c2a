package run

import (
	"path/filepath"
	"strings"
	"testing"

	nodeserver "github.com/mainstay-dev/mainstay/internal/node/server"
)

// machine-config-server does not start without a serving certificate, and names the missing flag.
func TestNodeServerNeedsACertificate(t *testing.T) {
	absent := filepath.Join(t.TempDir(), "tls.crt")
	for want, o := range map[string]nodeServerOptions{
		"--tls-cert: a serving certificate is required, unless HTTPS is disabled with --address 0": {served: nodeserver.Options{Address: ":22623"}},
		"--tls-cert: open " + absent: {tlsCert: absent, tlsKey: absent, served: nodeserver.Options{Address: ":22623"}},
	} {
		err := o.validate()
		if err == nil {
			err = o.setupNodeServer(t.Context(), &options{}, nil)
		}
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
