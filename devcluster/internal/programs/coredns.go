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

// coreDNS carries the plugins that the cluster's Corefile names and no other: all of them would add four cloud SDKs.
// It exits by itself on an error.
func coreDNS([]string) int {
	coremain.Run()
	return 0
}
