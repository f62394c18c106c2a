package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// nodeRoot returns the folder that replaces the root of a node.
func (d *demo) nodeRoot(node string) string { return filepath.Join(d.dir, "nodes", node) }

// waitForNodesAt returns a step that waits until each node has the configuration of a release and
// is uncordoned.
func (d *demo) waitForNodesAt(version string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		err := d.waitFor(ctx, func(ctx context.Context) error {
			states, err := d.listNodeStates(ctx)
			if err != nil {
				return err
			}

			var wrong []error
			for _, s := range states {
				if !s.isDone() {
					wrong = append(wrong, fmt.Errorf("node %s is not done: %+v", s.name, s))
				}
				wrong = append(wrong, d.checkNodeFile(s.name, version))
			}

			return errors.Join(wrong...)
		})
		if err != nil {
			return "", err
		}

		var lines strings.Builder
		for _, node := range d.kubelet.nodes {
			fmt.Fprintf(&lines, "%s: /%s says %s\n", node, settingFile, version)
		}

		return lines.String(), nil
	}
}

func (d *demo) checkNodeFile(node, want string) error {
	data, err := os.ReadFile(filepath.Join(d.nodeRoot(node), filepath.FromSlash(settingFile)))
	if err == nil && string(data) != want {
		err = fmt.Errorf("/%s of node %s says %q, want %s", settingFile, node, data, want)
	}
	return err
}
