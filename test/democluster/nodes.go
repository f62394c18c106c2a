package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// waitForNodesAt returns a step that waits until each node has the configuration of a release and
// is uncordoned.
func (d *demo) waitForNodesAt(version string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		err := d.waitFor(ctx, func(ctx context.Context) error {
			states, err := listNodeStates(ctx, d.Cluster)
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
