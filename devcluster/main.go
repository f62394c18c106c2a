// Command devcluster runs a complete Kubernetes cluster from one binary: etcd, the API server, the controller manager,
// the scheduler, an OCI registry and nodes. It needs no container engine.
//
// It is a multi-call binary. When it is called devcluster, it is the command line of package cli. When it is called by
// the name of a program that it contains (etcd, kube-apiserver, kubectl, ...; see package programs), it is that
// program. A symbolic link is therefore all that envtest, or a user without kubectl, needs. The supervisor starts its
// components in the same way.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/mainstay-dev/mainstay/devcluster/internal/cli"
	"github.com/mainstay-dev/mainstay/devcluster/internal/programs"
)

func main() {
	if program, ok := programs.Lookup(filepath.Base(os.Args[0])); ok {
		os.Exit(program(os.Args))
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := cli.NewCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "devcluster: %v\n", err)
		stop()
		os.Exit(1) //nolint:gocritic // exitAfterDefer: the one deferred call was just made by hand.
	}
}
