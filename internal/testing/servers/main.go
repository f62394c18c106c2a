// Command servers runs a command, such as go test, and lends API servers to the test programs that it starts:
//
//	go run ./internal/testing/servers go test ./...
//
// Without it each test program starts an API server of its own.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: servers COMMAND [ARG …]")
		os.Exit(2)
	}

	log.SetLogger(logr.Discard())
	err := run(os.Args[1:])
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		os.Exit(max(exit.ExitCode(), 1))
	case err != nil:
		fmt.Fprintln(os.Stderr, "servers:", err)
		os.Exit(1)
	}
}

// run runs a command, and lends API servers until it ends.
func run(command []string) error {
	root, err := checkout.Root()
	if err != nil {
		return err
	}

	socket := env.SocketPath(root)
	if connection, err := net.Dial("unix", socket); err == nil {
		connection.Close()
		return fmt.Errorf("another process lends API servers at %s: wait for its end", socket)
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) { // A killed process has left it.
		return err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}

	served := make(chan error, 1)
	go func() { served <- (&env.Servers{Root: root}).Serve(listener) }()

	// A signal ends the command. The API servers must outlive it, to be stopped.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	child := exec.CommandContext(ctx, command[0], command[1:]...)
	child.Cancel = func() error { return child.Process.Signal(os.Interrupt) }
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	child.Env = append(os.Environ(), env.SharedVariable+"=1")
	err = child.Run()

	listener.Close()
	return errors.Join(err, <-served)
}
