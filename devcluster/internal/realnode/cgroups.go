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

// controlGroupRoot is where every distribution mounts control groups.
const controlGroupRoot = "/sys/fs/cgroup"

// controlGroup is the group that all pods of the node are in.
func controlGroup(id string) string { return "devcluster-" + id }

// hierarchies are the trees that hold control groups: one in version 2, and one for each controller in version 1. Names of
// several controllers that share a tree are links to it.
func hierarchies() ([]string, error) {
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
	trees, err := hierarchies()
	if err != nil {
		return err
	}

	for _, tree := range trees {
		//nolint:gosec // As the groups beside it.
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

// enableControllers lets the groups of a version 2 tree use every controller that it has. systemd has done so as a rule;
// what it has not is enabled one by one, because one that cannot be is no reason to lose the others.
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

// removeTimeout is for processes that were killed and are not gone yet.
const removeTimeout = 10 * time.Second

// removeControlGroups removes the group with all groups inside of it, which the node's last processes may just be leaving.
func removeControlGroups(name string) error {
	trees, err := hierarchies()
	if err != nil {
		return err
	}

	deadline := time.Now().Add(removeTimeout)
	for {
		var failed []error
		for _, tree := range trees {
			failed = append(failed, removeTree(filepath.Join(tree, name)))
		}

		err := errors.Join(failed...)
		if err == nil || time.Now().After(deadline) {
			return err
		}

		time.Sleep(20 * time.Millisecond)
	}
}

// removeTree removes the deepest groups first, as the kernel asks for. The files in a group are not files that one deletes.
func removeTree(root string) error {
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
