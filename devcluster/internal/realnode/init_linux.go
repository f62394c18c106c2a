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

// initNamespaces are the namespaces that the node has for itself.
const initNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC

// InitMain is the node's first process. It furnishes the namespaces that it was born in, says so by a file, and then lives
// to be everybody's last parent: when it ends, the kernel kills whatever runs in the node.
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
		fmt.Fprintf(os.Stderr, "%s: it is started by devcluster alone, as the first process of a namespace\n", InitProgram)
		return 2
	}
	if err := options.furnish(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", InitProgram, err)
		return 1
	}

	reap()
	return 0
}

type initOptions struct{ folder, nodeIP, gateway string }

func (o initOptions) furnish() error {
	if err := unix.Sethostname([]byte(NodeName)); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	if err := o.mount(); err != nil {
		return err
	}
	if err := waitForInterface("eth0"); err != nil {
		return err
	}
	if err := runAll(nodeCommands(o.nodeIP, o.gateway)); err != nil {
		return fmt.Errorf("set up the node's network: %w", err)
	}
	if err := setSetting(settingsRoot, forwarding, "1"); err != nil {
		return err
	}

	return os.WriteFile(filepath.Join(nodeRoot, readyFile), nil, 0o600)
}

// mount returns the node its own /run, /proc, /var/lib and /var/log, and a resolv.conf that asks the cluster's name server.
func (o initOptions) mount() error {
	folder, err := unix.Open(o.folder, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open the node's folder: %w", err)
	}
	defer unix.Close(folder) //nolint:errcheck // It was only looked at.
	// Where the link leads: often into /run, which is about to be another one.
	resolver, err := filepath.EvalSymlinks("/etc/resolv.conf")
	if err != nil {
		resolver = "/etc/resolv.conf"
	}

	steps := []struct {
		source, target, kind string
		flags                uintptr
		data                 string
	}{
		// Nothing that is mounted here is seen outside; but containers see what the kubelet mounts for them.
		{"", "/", "", unix.MS_REC | unix.MS_PRIVATE, ""},
		{"", "/", "", unix.MS_REC | unix.MS_SHARED, ""},
		{"tmpfs", "/run", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=755"},
		{fmt.Sprintf("/proc/self/fd/%d", folder), nodeRoot, "", unix.MS_BIND, ""},
		{"proc", "/proc", "proc", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
		{filepath.Join(nodeRoot, libFolder), "/var/lib", "", unix.MS_BIND, ""},
		{filepath.Join(nodeRoot, logFolder), "/var/log", "", unix.MS_BIND, ""},
		{inside(resolvConf), resolver, "", unix.MS_BIND, ""},
	}

	for _, step := range steps {
		if err := makeMountPoint(step.target); err != nil {
			return fmt.Errorf("make mount point %s: %w", step.target, err)
		}
		if err := unix.Mount(step.source, step.target, step.kind, step.flags, step.data); err != nil {
			return fmt.Errorf("mount %s: %w", step.target, err)
		}
	}

	return nil
}

// makeMountPoint makes what is missing inside of /run, which is new and empty. Everything else exists on every machine.
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
	return os.WriteFile(target, nil, 0o644) //nolint:gosec // The mount point of a resolv.conf, which everybody reads.
}

// interfaceTimeout is for the supervisor to make the pair and to give us our end, a matter of milliseconds.
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

// reap waits for every process that loses its parent, until it is told to end.
func reap() {
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
