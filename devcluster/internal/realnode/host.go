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

// host is what a node changes on the machine, written down before the first change and deleted after the last is undone:
// whoever cleans up needs nothing else.
type host struct {
	// ID names the interface, the control groups, the packet filter rules and the borrower of kernel settings.
	ID string `json:"id"`
	// Block is the cluster's network.
	Block string `json:"block"`
}

func (h host) write(folder string) error {
	content, err := json.MarshalIndent(h, "", "  ")
	if err != nil {
		return err
	}
	return writeFiles(folder, map[string][]byte{markerFile: append(content, '\n')})
}

// readHost returns what an earlier run wrote down. Found is false when it wrote nothing or took all of it back.
func readHost(folder string) (h host, found bool, err error) {
	content, err := os.ReadFile(filepath.Join(folder, markerFile))
	if errors.Is(err, fs.ErrNotExist) {
		return host{}, false, nil
	}
	if err == nil {
		err = json.Unmarshal(content, &h)
	}
	if err != nil {
		return host{}, false, fmt.Errorf("read what a node changed on this machine: %w", err)
	}

	return h, true, nil
}

// prepare makes the changes that need no node yet.
func (h host) prepare() error {
	if err := machineLedger.borrow(h.ID); err != nil {
		return err
	}
	if err := setSetting(settingsRoot, forwarding, "1"); err != nil {
		return err
	}

	for _, rule := range rules(h.ID, h.Block) {
		if err := runProgram("iptables", rule.args("-I", h.ID)...); err != nil {
			return fmt.Errorf("let the node's packets through: %w", err)
		}
	}
	return createControlGroups(controlGroup(h.ID))
}

// undo takes every change back. It goes on after an error, and what is not there any more is no error.
func (h host) undo() error {
	var failed []error
	for _, rule := range rules(h.ID, h.Block) {
		// -C says whether it is there. A rule that a killed run inserted twice is deleted twice.
		for runProgram("iptables", rule.args("-C", h.ID)...) == nil {
			if err := runProgram("iptables", rule.args("-D", h.ID)...); err != nil {
				failed = append(failed, err)
				break
			}
		}
	}

	// The kernel deletes the pair with the node's namespace, some time after its last process; this does it at once.
	if _, err := os.Stat("/sys/class/net/" + interfaceName(h.ID)); err == nil {
		err := runProgram("ip", "link", "delete", interfaceName(h.ID))
		if err != nil && !strings.Contains(err.Error(), "Cannot find") {
			failed = append(failed, err)
		}
	}

	failed = append(failed, removeControlGroups(controlGroup(h.ID)), machineLedger.giveBack(h.ID))
	return errors.Join(failed...)
}
