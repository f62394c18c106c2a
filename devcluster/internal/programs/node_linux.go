package programs

import (
	"context"

	"k8s.io/component-base/cli"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// nodePrograms are the programs of a real node, by name. They exist only on Linux.
var nodePrograms = map[string]Program{
	"kubelet":    func([]string) int { return cli.Run(kubelet.NewKubeletCommand(context.Background())) },
	"kube-proxy": func([]string) int { return cli.Run(proxy.NewProxyCommand()) },
}
