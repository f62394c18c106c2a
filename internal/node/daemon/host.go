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

// Host is the machine, beside its files.
type Host interface {
	// Run runs a command of the machine and waits for its end.
	Run(ctx context.Context, name string, args ...string) error
	// BootID names the present start of the machine: each has another.
	BootID() (string, error)
}

// maxBootID is how long the name of a start may be.
const maxBootID = 100

// bootIDFile is where Linux names its start.
const bootIDFile = "/proc/sys/kernel/random/boot_id"

// machine is the machine that this runs on.
type machine struct {
	folder string
	disk   *disk
}

// Machine is the machine whose root is a folder. Its commands are those that lie in the folder,
// and run with it as their root.
func Machine(root *os.Root) Host {
	return &machine{folder: root.Name(), disk: &disk{root: root}}
}

// commandFolders are where commands of a machine lie.
var commandFolders = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

// find returns the path of a command inside the machine.
func (m *machine) find(name string) (string, error) {
	for _, folder := range commandFolders {
		p := path.Join(folder, name)
		if info, err := m.disk.root.Stat(inside(p)); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return p, nil
		}
	}
	return "", fmt.Errorf("the machine has no command %s in %s", name, strings.Join(commandFolders, ", "))
}

// Run runs a command of the machine.
func (m *machine) Run(ctx context.Context, name string, args ...string) error {
	command := strings.Join(append([]string{name}, args...), " ")
	file, err := m.find(name)
	if err != nil {
		return fmt.Errorf("running %s: %w", command, err)
	}

	cmd := exec.CommandContext(ctx, file, args...) //nolint:gosec // G204: the daemon names the command; its arguments were checked
	cmd.Dir, cmd.Env = "/", []string{"PATH=" + strings.Join(commandFolders, ":"), "LC_ALL=C"}
	confine(cmd, m.folder)
	var output tail
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("running %s: %w: %s", command, err, bytes.TrimSpace(output.Bytes()))
	}

	return nil
}

// BootID reads what Linux says.
func (m *machine) BootID() (string, error) { return m.disk.bootID() }

func (d *disk) bootID() (string, error) {
	data, err := d.content(bootIDFile, maxBootID)
	if err != nil {
		return "", fmt.Errorf("reading which start of the machine this is: %w", err)
	}
	return string(bytes.TrimSpace(data)), nil
}

// tail keeps the end of what a command writes, which says why it failed.
type tail struct{ bytes.Buffer }

// maxOutput is how much of it is kept.
const maxOutput = 1024

// Write keeps the last bytes.
func (t *tail) Write(data []byte) (int, error) {
	n, err := t.Buffer.Write(data)
	if more := t.Len() - maxOutput; more > 0 {
		t.Next(more)
	}
	return n, err
}

// commandLog is where a simulated machine writes down what it was asked to run.
const commandLog = "/var/log/machine-config-daemon-commands.log"

// simulated is a machine that is only a folder.
type simulated struct{ disk *disk }

// Simulated is a machine that is only a folder: commands are written down in it, in
// /var/log/machine-config-daemon-commands.log, and not run. A reboot is over at once.
func Simulated(root *os.Root) Host { return &simulated{disk: &disk{root: root}} }

// Run writes the command down.
func (s *simulated) Run(_ context.Context, name string, args ...string) error {
	line := strings.Join(append([]string{name}, args...), " ")
	if err := s.disk.root.MkdirAll(path.Dir(inside(commandLog)), folderMode); err != nil {
		return fmt.Errorf("writing down a command: %w", err)
	}

	file, err := s.disk.root.OpenFile(inside(commandLog), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("writing down a command: %w", err)
	}

	_, err = fmt.Fprintln(file, line)
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("writing down a command: %w", err)
	}
	if line == strings.Join(reboot, " ") {
		return s.boot()
	}

	return nil
}

func (s *simulated) boot() error {
	return s.disk.write(item{path: bootIDFile, content: []byte(rand.Text() + "\n"), mode: 0o644, uid: os.Geteuid(), gid: os.Getegid()})
}

// BootID returns the name of the last simulated start.
func (s *simulated) BootID() (string, error) {
	id, err := s.disk.bootID()
	if errors.Is(err, fs.ErrNotExist) {
		if err := s.boot(); err != nil {
			return "", err
		}
		id, err = s.disk.bootID()
	}

	return id, err
}
