package realnode

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// searchPath is where a node looks for programs. A root shell by su or cron often lacks the second half.
const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// needed are the programs that a node runs and devcluster does not carry.
var needed = []string{"containerd", "containerd-shim-runc-v2", "runc", "ip", "iptables", "mount"}

// cniFolders are where distributions put the network plugins: Debian's package, and everybody else.
var cniFolders = []string{"/usr/lib/cni", "/opt/cni/bin"}

// cniPlugins are those that the node's network uses.
var cniPlugins = []string{"ptp", "host-local", "portmap", "loopback"}

// preflight says everything that is missing for a real node at once.
func preflight() error {
	if os.Geteuid() != 0 {
		return errors.New("--node containerd needs root: it makes namespaces, mounts and network interfaces; run it with sudo, " +
			"or use --node simulated")
	}

	var missing []string
	for _, program := range needed {
		if _, err := findProgram(program); err != nil {
			missing = append(missing, program)
		}
	}

	if cniFolder() == "" {
		missing = append(missing, fmt.Sprintf("the CNI plugins %s (in %s)",
			strings.Join(cniPlugins, ", "), strings.Join(cniFolders, " or ")))
	}
	if len(missing) > 0 {
		return fmt.Errorf("--node containerd needs programs that are not there: %s; on Debian: "+
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

// cniFolder is the folder that has all plugins, "" when there is none.
func cniFolder() string {
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

// runProgram runs a program to its end. Its output is part of the error.
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
