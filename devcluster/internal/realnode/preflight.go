package realnode

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// searchPath is the PATH of the node's programs. The PATH of a root shell of su or cron often lacks the folders for
// root's programs.
const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// requiredPrograms are the programs that a node runs and that devcluster does not contain.
var requiredPrograms = []string{"containerd", "containerd-shim-runc-v2", "runc", "ip", "iptables", "mount"}

// cniFolders are the folders of the CNI plugins in Debian's package and in other distributions.
var cniFolders = []string{"/usr/lib/cni", "/opt/cni/bin"}

// cniPlugins are the plugins that the node's network uses.
var cniPlugins = []string{"ptp", "host-local", "portmap", "loopback"}

// checkPrerequisites returns one error with everything that a real node needs and that is missing on the machine.
func checkPrerequisites() error {
	if os.Geteuid() != 0 {
		return errors.New("--node containerd needs root, because it creates namespaces, mounts and network interfaces; run it with sudo, " +
			"or use --node simulated")
	}

	var missing []string
	for _, program := range requiredPrograms {
		if _, err := findProgram(program); err != nil {
			missing = append(missing, program)
		}
	}

	if findCNIFolder() == "" {
		missing = append(missing, fmt.Sprintf("the CNI plugins %s (in %s)",
			strings.Join(cniPlugins, ", "), strings.Join(cniFolders, " or ")))
	}
	if len(missing) > 0 {
		return fmt.Errorf("--node containerd needs programs that are not installed: %s; on Debian: "+
			"apt-get install containerd runc containernetworking-plugins iptables iproute2", strings.Join(missing, ", "))
	}

	return nil
}

func findProgram(name string) (string, error) {
	for _, folder := range filepath.SplitList(searchPath) {
		path := filepath.Join(folder, name)
		if found, err := exec.LookPath(path); err == nil {
			return found, nil
		}
	}
	return "", fmt.Errorf("%s: %w in %s", name, exec.ErrNotFound, searchPath)
}

// findCNIFolder returns the folder that contains all plugins, or "" if there is none.
func findCNIFolder() string {
candidates:
	for _, folder := range cniFolders {
		for _, plugin := range cniPlugins {
			if _, err := exec.LookPath(filepath.Join(folder, plugin)); err != nil {
				continue candidates
			}
		}
		return folder
	}

	return ""
}

// runProgram runs a program and waits until it ends. The error contains its output.
func runProgram(name string, args ...string) error {
	path, err := findProgram(name)
	if err != nil {
		return err
	}

	output, err := exec.Command(path, args...).CombinedOutput() //nolint:gosec,noctx // A matter of milliseconds.
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(output)))
	}

	return nil
}
