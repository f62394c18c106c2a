package daemon

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"strings"
)

// Host runs commands on a machine.
type Host interface {
	// Run runs a command of the machine and waits for it. The error holds the end of its output.
	Run(ctx context.Context, name string, args ...string) error
	// BootID returns the ID of the present boot. Each boot has another.
	BootID() (string, error)
}

// maxBootIDLength limits the boot ID, in bytes.
const maxBootIDLength = 100

// bootIDFile is the file with the boot ID of Linux.
const bootIDFile = "/proc/sys/kernel/random/boot_id"

// machine runs commands on the machine that the daemon runs on.
type machine struct {
	folder string
	disk   *disk
}

// Machine returns the host whose root is a folder. It runs the commands in that folder, with the folder as their
// root.
func Machine(root *os.Root) Host {
	return &machine{folder: root.Name(), disk: &disk{root: root}}
}

// commandFolders are the folders with the commands of a machine.
var commandFolders = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

// findCommand returns the path of a command inside the machine.
func (m *machine) findCommand(name string) (string, error) {
	for _, folder := range commandFolders {
		p := path.Join(folder, name)
		if info, err := m.disk.root.Stat(relativeToRoot(p)); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return p, nil
		}
	}
	return "", fmt.Errorf("the machine has no command %s in %s", name, strings.Join(commandFolders, ", "))
}

// Run implements Host.
func (m *machine) Run(ctx context.Context, name string, args ...string) error {
	command := strings.Join(append([]string{name}, args...), " ")
	file, err := m.findCommand(name)
	if err != nil {
		return fmt.Errorf("running %s: %w", command, err)
	}

	cmd := exec.CommandContext(ctx, file, args...) //nolint:gosec // G204: the daemon names the command; its arguments were checked
	cmd.Dir, cmd.Env = "/", []string{"PATH=" + strings.Join(commandFolders, ":"), "LC_ALL=C"}
	confineToRoot(cmd, m.folder)
	var output tail
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("running %s: %w: %s", command, err, bytes.TrimSpace(output.Bytes()))
	}

	return nil
}

// BootID implements Host.
func (m *machine) BootID() (string, error) { return readBootID(m.disk) }

func readBootID(d *disk) (string, error) {
	data, err := d.readFile(bootIDFile, maxBootIDLength)
	if err != nil {
		return "", fmt.Errorf("reading which start of the machine this is: %w", err)
	}
	return string(bytes.TrimSpace(data)), nil
}

// tail is a writer that keeps the end of the output of a command, which usually says why it failed.
type tail struct{ bytes.Buffer }

// maxCommandOutput limits the output that tail keeps, in bytes.
const maxCommandOutput = 1024

// Write keeps the last bytes.
func (t *tail) Write(data []byte) (int, error) {
	n, err := t.Buffer.Write(data)
	if more := t.Len() - maxCommandOutput; more > 0 {
		t.Next(more)
	}
	return n, err
}

// commandLog is the file to which a simulated machine logs its commands.
const commandLog = "/var/log/machine-config-daemon-commands.log"

// simulated is a host without a machine.
type simulated struct{ disk *disk }

// Simulated returns a host that is only a folder. It does not run commands, but logs them to
// /var/log/machine-config-daemon-commands.log in that folder. A reboot takes no time.
func Simulated(root *os.Root) Host { return &simulated{disk: &disk{root: root}} }

// Run implements Host. It logs the command.
func (s *simulated) Run(_ context.Context, name string, args ...string) error {
	line := strings.Join(append([]string{name}, args...), " ")
	if err := s.disk.root.MkdirAll(path.Dir(relativeToRoot(commandLog)), folderMode); err != nil {
		return fmt.Errorf("writing down a command: %w", err)
	}

	file, err := s.disk.root.OpenFile(relativeToRoot(commandLog), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("writing down a command: %w", err)
	}

	_, err = fmt.Fprintln(file, line)
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("writing down a command: %w", err)
	}
	if line == strings.Join(rebootCommand, " ") {
		return s.simulateBoot()
	}

	return nil
}

func (s *simulated) simulateBoot() error {
	return s.disk.writeItem(item{path: bootIDFile, content: []byte(rand.Text() + "\n"), mode: 0o644, uid: os.Geteuid(), gid: os.Getegid()})
}

// BootID returns the ID of the last simulated boot.
func (s *simulated) BootID() (string, error) {
	id, err := readBootID(s.disk)
	if errors.Is(err, fs.ErrNotExist) {
		if err := s.simulateBoot(); err != nil {
			return "", err
		}
		id, err = readBootID(s.disk)
	}

	return id, err
}
