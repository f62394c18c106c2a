package realnode

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// controlGroupRoot is the mount point of control groups on all distributions.
const controlGroupRoot = "/sys/fs/cgroup"

// controlGroupName returns the name of the control group that contains all pods of the node.
func controlGroupName(id string) string { return "devcluster-" + id }

// listControlGroupTrees returns the trees that contain control groups: one in version 2, and one for each controller in
// version 1. It omits the links that version 1 has for controllers that share a tree.
func listControlGroupTrees() ([]string, error) {
	if _, err := os.Stat(filepath.Join(controlGroupRoot, "cgroup.controllers")); err == nil {
		return []string{controlGroupRoot}, nil
	}

	entries, err := os.ReadDir(controlGroupRoot)
	if err != nil {
		return nil, fmt.Errorf("list the control group trees: %w", err)
	}

	var trees []string
	for _, entry := range entries {
		if entry.IsDir() {
			trees = append(trees, filepath.Join(controlGroupRoot, entry.Name()))
		}
	}

	return trees, nil
}

func createControlGroups(name string) error {
	trees, err := listControlGroupTrees()
	if err != nil {
		return err
	}

	for _, tree := range trees {
		//nolint:gosec // The groups next to it have the same mode.
		if err := os.Mkdir(filepath.Join(tree, name), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("create the node's control group: %w", err)
		}
		if tree != controlGroupRoot {
			continue
		}
		if err := enableControllers(tree); err != nil {
			return err
		}
	}

	return nil
}

// enableControllers enables all available controllers for the groups of a version 2 tree. systemd has usually done so.
// They are enabled one by one, so that one that cannot be enabled does not prevent the others.
func enableControllers(tree string) error {
	available, err := os.ReadFile(filepath.Join(tree, "cgroup.controllers"))
	if err != nil {
		return fmt.Errorf("read the control group controllers: %w", err)
	}

	for _, controller := range strings.Fields(string(available)) {
		_ = os.WriteFile(filepath.Join(tree, "cgroup.subtree_control"), []byte("+"+controller), 0o644) //nolint:gosec // sysfs
	}
	return nil
}

// controlGroupRemovalTimeout allows for processes that were killed and have not ended yet.
const controlGroupRemovalTimeout = 10 * time.Second

// removeControlGroups removes the group and all groups in it. It retries, because the last processes of the node may
// not have ended yet.
func removeControlGroups(name string) error {
	trees, err := listControlGroupTrees()
	if err != nil {
		return err
	}

	deadline := time.Now().Add(controlGroupRemovalTimeout)
	for {
		var failed []error
		for _, tree := range trees {
			failed = append(failed, removeControlGroupTree(filepath.Join(tree, name)))
		}

		err := errors.Join(failed...)
		if err == nil || time.Now().After(deadline) {
			return err
		}

		time.Sleep(20 * time.Millisecond)
	}
}

// removeControlGroupTree removes the deepest groups first, as the kernel requires. The files in a group need not and
// cannot be deleted.
func removeControlGroupTree(root string) error {
	var groups []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && entry.IsDir() {
			groups = append(groups, path)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("list the node's control groups: %w", err)
	}

	for _, group := range slices.Backward(groups) {
		if err := os.Remove(group); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the node's control group: %w", err)
		}
	}

	return nil
}
