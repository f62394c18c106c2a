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

// borrowedSettings are the kernel settings that a node changes for the whole machine: those that a kubelet insists on, and
// forwarding, which the node's packets need.
var borrowedSettings = []string{
	"kernel/keys/root_maxbytes",
	"kernel/keys/root_maxkeys",
	"kernel/panic",
	"kernel/panic_on_oops",
	forwarding,
	"vm/overcommit_memory",
	"vm/panic_on_oom",
}

const (
	settingsRoot = "/proc/sys"
	forwarding   = "net/ipv4/ip_forward"
)

// ledger says which clusters have borrowed the settings, and what the settings were before the first did. The last one
// that gives them back restores them. It stands in /run, which a reboot clears together with the settings.
type ledger struct {
	file string
	root string // of the settings
}

var machineLedger = ledger{file: "/run/mainstay-devcluster.json", root: settingsRoot}

type ledgerContent struct {
	// Clusters are the identities of those that use the settings now.
	Clusters []string `json:"clusters"`
	// Before are the settings by name.
	Before map[string]string `json:"before"`
}

// borrow enters a cluster. To borrow twice is to borrow once.
func (l ledger) borrow(id string) error {
	return l.change(func(content *ledgerContent) error {
		if len(content.Clusters) == 0 {
			var err error
			if content.Before, err = l.settings(); err != nil {
				return err
			}
		}
		if !slices.Contains(content.Clusters, id) {
			content.Clusters = append(content.Clusters, id)
		}
		return nil
	})
}

// giveBack takes a cluster out, and restores the settings when it was the last.
func (l ledger) giveBack(id string) error {
	return l.change(func(content *ledgerContent) error {
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
			failed = append(failed, setSetting(l.root, name, value))
		}

		return errors.Join(failed...)
	})
}

// change edits the ledger while nobody else does. The folder is what is locked: the file comes and goes.
func (l ledger) change(edit func(*ledgerContent) error) error {
	folder, err := os.Open(filepath.Dir(l.file))
	if err != nil {
		return fmt.Errorf("lock the ledger of kernel settings: %w", err)
	}
	defer folder.Close()
	if err := syscall.Flock(int(folder.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock the ledger of kernel settings: %w", err)
	}

	var content ledgerContent
	old, err := os.ReadFile(l.file)
	if err == nil {
		err = json.Unmarshal(old, &content)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the ledger of kernel settings %s: %w", l.file, err)
	}
	if err := edit(&content); err != nil {
		return err
	}

	if len(content.Clusters) == 0 {
		err = os.Remove(l.file)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}

	updated, err := json.MarshalIndent(content, "", "  ")
	if err != nil {
		return err
	}

	return os.WriteFile(l.file, append(updated, '\n'), 0o600)
}

// settings reads all of them as they are. A kernel that lacks one has nothing to give back.
func (l ledger) settings() (map[string]string, error) {
	values := map[string]string{}
	for _, name := range borrowedSettings {
		value, err := os.ReadFile(filepath.Join(l.root, name))
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

// setSetting changes a kernel setting where it differs.
func setSetting(root, name, value string) error {
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
