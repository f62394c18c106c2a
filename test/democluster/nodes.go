package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// root is the folder that stands for the root of a node.
func (d *demo) root(node string) string { return filepath.Join(d.dir, "nodes", node) }

// nodesHave waits until the file of each node has the content of a release, and the nodes are
// back.
func (d *demo) nodesHave(version string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		err := d.eventually(ctx, func(ctx context.Context) error {
			states, err := d.nodeStates(ctx)
			if err != nil {
				return err
			}

			var wrong []error
			for _, s := range states {
				if !s.isDone() {
					wrong = append(wrong, fmt.Errorf("node %s is not done: %+v", s.name, s))
				}
				wrong = append(wrong, d.fileHas(s.name, version))
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

func (d *demo) fileHas(node, want string) error {
	data, err := os.ReadFile(filepath.Join(d.root(node), filepath.FromSlash(settingFile)))
	if err == nil && string(data) != want {
		err = fmt.Errorf("/%s of node %s says %q, want %s", settingFile, node, data, want)
	}
	return err
}
