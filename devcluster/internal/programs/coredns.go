package programs

import (
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/ready"

	"github.com/coredns/coredns/coremain"
)

// runCoreDNS runs CoreDNS with only the plugins that the cluster's Corefile uses: all plugins would add four cloud
// SDKs. CoreDNS exits by itself on an error.
func runCoreDNS([]string) int {
	coremain.Run()
	return 0
}
