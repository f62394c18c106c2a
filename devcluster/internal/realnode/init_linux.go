package realnode

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
)

// initNamespaces are the clone flags of the namespaces of the node.
const initNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC

// InitMain is the first process of the node. It sets up the namespaces in which it was started and creates a file when
// they are ready. After that, it reaps orphans. When it ends, the kernel kills all processes of the node.
func InitMain(args []string) int {
	var options initOptions
	flags := pflag.NewFlagSet(InitProgram, pflag.ContinueOnError)
	flags.StringVar(&options.folder, "dir", "", "the node's folder of the data directory")
	flags.StringVar(&options.nodeIP, "node-ip", "", "the node's address with the size of its network")
	flags.StringVar(&options.gateway, "gateway", "", "the machine's address on the same network")
	if err := flags.Parse(args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", InitProgram, err)
		return 2
	}
	if os.Getpid() != 1 {
		fmt.Fprintf(os.Stderr, "%s: only devcluster can start it, as the first process of a namespace\n", InitProgram)
		return 2
	}
	if err := options.setUpNode(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", InitProgram, err)
		return 1
	}

	reapOrphans()
	return 0
}

type initOptions struct{ folder, nodeIP, gateway string }

func (o initOptions) setUpNode() error {
	if err := unix.Sethostname([]byte(NodeName)); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	if err := o.mountFileSystems(); err != nil {
		return err
	}
	if err := waitForInterface("eth0"); err != nil {
		return err
	}
	if err := runCommands(nodeLinkCommands(o.nodeIP, o.gateway)); err != nil {
		return fmt.Errorf("set up the node's network: %w", err)
	}
	if err := writeSetting(settingsRoot, ipForwardSetting, "1"); err != nil {
		return err
	}

	return os.WriteFile(filepath.Join(nodeRoot, readyFile), nil, 0o600)
}

// mountFileSystems mounts the node's own /run, /proc, /var/lib and /var/log, and a resolv.conf that selects the
// cluster's DNS server.
func (o initOptions) mountFileSystems() error {
	folder, err := unix.Open(o.folder, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open the node's folder: %w", err)
	}
	defer unix.Close(folder) //nolint:errcheck // The descriptor was only read.
	// Resolve the link before /run is replaced: it often leads into /run.
	resolver, err := filepath.EvalSymlinks("/etc/resolv.conf")
	if err != nil {
		resolver = "/etc/resolv.conf"
	}

	steps := []struct {
		source, target, kind string
		flags                uintptr
		data                 string
	}{
		// Mounts in the node are not visible outside it. Containers see what the kubelet mounts for them.
		{"", "/", "", unix.MS_REC | unix.MS_PRIVATE, ""},
		{"", "/", "", unix.MS_REC | unix.MS_SHARED, ""},
		{"tmpfs", "/run", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=755"},
		{fmt.Sprintf("/proc/self/fd/%d", folder), nodeRoot, "", unix.MS_BIND, ""},
		{"proc", "/proc", "proc", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
		{filepath.Join(nodeRoot, libFolder), "/var/lib", "", unix.MS_BIND, ""},
		{filepath.Join(nodeRoot, logFolder), "/var/log", "", unix.MS_BIND, ""},
		{configPathInNode(resolvConf), resolver, "", unix.MS_BIND, ""},
	}

	for _, step := range steps {
		if err := makeMountPoint(step.target); err != nil {
			return fmt.Errorf("create mount point %s: %w", step.target, err)
		}
		if err := unix.Mount(step.source, step.target, step.kind, step.flags, step.data); err != nil {
			return fmt.Errorf("mount %s: %w", step.target, err)
		}
	}

	return nil
}

// makeMountPoint creates a mount point that is missing in /run, which is new and empty. All other mount points exist on
// every machine.
func makeMountPoint(target string) error {
	if _, err := os.Stat(target); err == nil {
		return nil
	}
	if target == nodeRoot {
		return os.MkdirAll(target, 0o700)
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil { //nolint:gosec // As /run is on every machine.
		return err
	}
	return os.WriteFile(target, nil, 0o644) //nolint:gosec // The mount point of a resolv.conf, which all users read.
}

// interfaceTimeout bounds the wait for the supervisor to create the veth pair, which usually takes milliseconds.
const interfaceTimeout = 10 * time.Second

func waitForInterface(name string) error {
	for deadline := time.Now().Add(interfaceTimeout); ; {
		_, err := net.InterfaceByName(name)
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("no interface %s within %s: %w", name, interfaceTimeout, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// reapOrphans waits for each process that loses its parent. It returns on SIGTERM or an interrupt.
func reapOrphans() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGCHLD, syscall.SIGTERM, syscall.SIGINT)
	for received := range signals {
		if received != syscall.SIGCHLD {
			return
		}
		for {
			pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
			if pid <= 0 && !errors.Is(err, unix.EINTR) {
				break
			}
		}
	}
}
