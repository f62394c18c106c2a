package realnode

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// hostChanges identifies what a node changes on the machine. It is written to a file before the first change, and the
// file is deleted after the last change is reverted. It contains all that a cleanup needs.
type hostChanges struct {
	// ID is part of the name of the interface, the control groups and the packet filter rules, and identifies the user
	// of kernel settings.
	ID string `json:"id"`
	// Block is the network of the cluster.
	Block string `json:"block"`
}

func (h hostChanges) writeHostChangesFile(folder string) error {
	content, err := json.MarshalIndent(h, "", "  ")
	if err != nil {
		return err
	}
	return writeFiles(folder, map[string][]byte{hostChangesFile: append(content, '\n')})
}

// readHostChanges reads the record of an earlier run. found is false if there is none, or if its changes were reverted.
func readHostChanges(folder string) (h hostChanges, found bool, err error) {
	content, err := os.ReadFile(filepath.Join(folder, hostChangesFile))
	if errors.Is(err, fs.ErrNotExist) {
		return hostChanges{}, false, nil
	}
	if err == nil {
		err = json.Unmarshal(content, &h)
	}
	if err != nil {
		return hostChanges{}, false, fmt.Errorf("read what a node changed on this machine: %w", err)
	}

	return h, true, nil
}

// applyChanges makes the changes that must precede the start of the node.
func (h hostChanges) applyChanges() error {
	if err := hostSettings.acquireSettings(h.ID); err != nil {
		return err
	}
	if err := writeSetting(settingsRoot, ipForwardSetting, "1"); err != nil {
		return err
	}

	for _, rule := range newFirewallRules(h.ID, h.Block) {
		if err := runProgram("iptables", rule.iptablesArgs("-I", h.ID)...); err != nil {
			return fmt.Errorf("accept the node's packets: %w", err)
		}
	}
	return createControlGroups(controlGroupName(h.ID))
}

// revertChanges reverts all changes. It continues after an error. A change that no longer exists is not an error.
func (h hostChanges) revertChanges() error {
	var failed []error
	for _, rule := range newFirewallRules(h.ID, h.Block) {
		// -C checks that the rule exists. A rule that a killed run inserted twice is deleted twice.
		for runProgram("iptables", rule.iptablesArgs("-C", h.ID)...) == nil {
			if err := runProgram("iptables", rule.iptablesArgs("-D", h.ID)...); err != nil {
				failed = append(failed, err)
				break
			}
		}
	}

	// The kernel deletes the veth pair some time after the last process of the node's namespace. This deletes it at once.
	if _, err := os.Stat("/sys/class/net/" + hostInterfaceName(h.ID)); err == nil {
		err := runProgram("ip", "link", "delete", hostInterfaceName(h.ID))
		if err != nil && !strings.Contains(err.Error(), "Cannot find") {
			failed = append(failed, err)
		}
	}

	failed = append(failed, removeControlGroups(controlGroupName(h.ID)), hostSettings.releaseSettings(h.ID))
	return errors.Join(failed...)
}
