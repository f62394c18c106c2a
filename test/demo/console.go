package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/mainstay-dev/mainstay/internal/testing/cluster"
	"github.com/mainstay-dev/mainstay/internal/testing/steps"
)

// serveConsole serves the console on the demo's cluster until the demo is interrupted.
func (d *demo) serveConsole(ctx context.Context) error {
	log := filepath.Join(d.dir, "console.log")
	cmd := exec.Command(filepath.Join("bin", "mainstay"), "console", "--no-browser")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+d.Kubeconfig)
	console, err := cluster.Launch("mainstay console", log, cmd)
	if err != nil {
		return err
	}

	var printed []byte
	err = steps.Eventually(ctx, stepTimeout, func(context.Context) error {
		printed, err = os.ReadFile(log)
		if err == nil && !strings.Contains(string(printed), "Ctrl+C") {
			err = errors.New("the console has not printed its address")
		}
		return errors.Join(err, console.CheckRunning())
	})
	if err == nil {
		fmt.Printf("\n%s\n", printed)
		<-ctx.Done()
	}
	return errors.Join(err, console.Stop())
}
