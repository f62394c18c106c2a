package realnode

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// managedSettings are the kernel settings that a node changes for the whole machine: those that a kubelet requires, and
// IP forwarding, which the node's packets need.
var managedSettings = []string{
	"kernel/keys/root_maxbytes",
	"kernel/keys/root_maxkeys",
	"kernel/panic",
	"kernel/panic_on_oops",
	ipForwardSetting,
	"vm/overcommit_memory",
	"vm/panic_on_oom",
}

const (
	settingsRoot     = "/proc/sys"
	ipForwardSetting = "net/ipv4/ip_forward"
)

// settingsStore counts the clusters that use changed kernel settings, and keeps the values from before the first of
// them. When the last cluster releases the settings, it restores them. Its file is in /run, which a reboot clears
// together with the settings.
type settingsStore struct {
	file string
	root string // the folder of the settings
}

// hostSettings is the store of the machine.
var hostSettings = settingsStore{file: "/run/mainstay-devcluster.json", root: settingsRoot}

// settingsState is the content of the file.
type settingsState struct {
	// Clusters are the identities of the clusters that use the settings.
	Clusters []string `json:"clusters"`
	// Before are the values of the settings before the first cluster, by name.
	Before map[string]string `json:"before"`
}

// acquireSettings adds a cluster to the users of the settings. The first user saves the current values. A cluster that
// is already a user is not added again.
func (s settingsStore) acquireSettings(id string) error {
	return s.updateState(func(content *settingsState) error {
		if len(content.Clusters) == 0 {
			var err error
			if content.Before, err = s.readSettings(); err != nil {
				return err
			}
		}
		if !slices.Contains(content.Clusters, id) {
			content.Clusters = append(content.Clusters, id)
		}
		return nil
	})
}

// releaseSettings removes a cluster from the users of the settings, and restores the settings if it was the last.
func (s settingsStore) releaseSettings(id string) error {
	return s.updateState(func(content *settingsState) error {
		i := slices.Index(content.Clusters, id)
		if i < 0 {
			return nil
		}

		content.Clusters = slices.Delete(content.Clusters, i, i+1)
		if len(content.Clusters) > 0 {
			return nil
		}

		var failed []error
		for name, value := range content.Before {
			failed = append(failed, writeSetting(s.root, name, value))
		}

		return errors.Join(failed...)
	})
}

// updateState changes the file under a lock. It locks the folder, because the file itself is created and deleted. It
// deletes the file if no cluster is left.
func (s settingsStore) updateState(edit func(*settingsState) error) error {
	folder, err := os.Open(filepath.Dir(s.file))
	if err != nil {
		return fmt.Errorf("lock the record of kernel settings: %w", err)
	}
	defer folder.Close()
	if err := syscall.Flock(int(folder.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock the record of kernel settings: %w", err)
	}

	var content settingsState
	old, err := os.ReadFile(s.file)
	if err == nil {
		err = json.Unmarshal(old, &content)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the record of kernel settings %s: %w", s.file, err)
	}
	if err := edit(&content); err != nil {
		return err
	}

	if len(content.Clusters) == 0 {
		err = os.Remove(s.file)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}

	updated, err := json.MarshalIndent(content, "", "  ")
	if err != nil {
		return err
	}

	return os.WriteFile(s.file, append(updated, '\n'), 0o600)
}

// readSettings returns the current values of all managed settings. It omits those that the kernel does not have.
func (s settingsStore) readSettings() (map[string]string, error) {
	values := map[string]string{}
	for _, name := range managedSettings {
		value, err := os.ReadFile(filepath.Join(s.root, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read a kernel setting: %w", err)
		}
		values[name] = strings.TrimSpace(string(value))
	}

	return values, nil
}

// writeSetting sets a kernel setting if its value differs.
func writeSetting(root, name, value string) error {
	path := filepath.Join(root, name)
	current, err := os.ReadFile(path)
	if err == nil && strings.TrimSpace(string(current)) != value {
		err = os.WriteFile(path, []byte(value), 0o644) //nolint:gosec // A kernel setting has its own mode.
	}
	if err != nil {
		return fmt.Errorf("set the kernel setting %s to %s: %w", name, value, err)
	}

	return nil
}
