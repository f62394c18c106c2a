package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Commands of a simulated machine cannot access files outside of its folder.
func TestSimulated(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = root.Close() })
	host := Simulated(root)
	one, err := host.BootID()
	if err != nil {
		t.Fatal(err)
	}

	for _, line := range []string{"systemctl enable a.service", "systemctl reboot"} {
		words := strings.Fields(line)
		if err := host.Run(t.Context(), words[0], words[1:]...); err != nil {
			t.Fatal(err)
		}
	}

	two, err := host.BootID()
	if err != nil || one == two {
		t.Errorf("got boot ID %q after a reboot (error %v), want another than %q", two, err, one)
	}

	data, err := os.ReadFile(filepath.Join(root.Name(), commandLog))
	if err != nil || string(data) != "systemctl enable a.service\nsystemctl reboot\n" {
		t.Errorf("got commands %q (error %v), want systemctl enable a.service and systemctl reboot", data, err)
	}
}

func TestMachine(t *testing.T) {
	folder := t.TempDir()
	root, err := os.OpenRoot(folder)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = root.Close() })
	machine := Machine(root)
	if _, err := machine.BootID(); err == nil {
		t.Error("got a boot ID of a folder without a kernel, want an error")
	}

	// The folder has no programs, and those outside are not found.
	err = machine.Run(t.Context(), "true", "-x")
	if err == nil || !strings.Contains(err.Error(), "running true -x: the machine has no command true") {
		t.Errorf("got error %v, want one with \"running true -x: the machine has no command true\"", err)
	}
}

// A command of the machine runs with the folder as its root.
func TestMachineRuns(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may change the root of a command")
	}

	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Skipf("this program cannot be copied: %v", err)
	}

	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = root.Close() })
	for _, folder := range []string{"usr", "usr/bin", "proc", "proc/sys", "proc/sys/kernel", "proc/sys/kernel/random"} {
		if err := root.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}

	if err := errors.Join(root.WriteFile("usr/bin/self", self, 0o755), root.WriteFile("proc/sys/kernel/random/boot_id", []byte("one\n"), 0o644)); err != nil {
		t.Fatal(err)
	}

	machine := Machine(root)
	if id, err := machine.BootID(); err != nil || id != "one" {
		t.Errorf("got boot ID %q (error %v), want one", id, err)
	}
	if err := machine.Run(t.Context(), "self", "-test.run=^$"); err != nil {
		t.Error(err)
	}

	err = machine.Run(t.Context(), "self", "-unknown")
	if err == nil || !strings.Contains(err.Error(), "exit status 2") || !strings.Contains(err.Error(), "-test.v") {
		t.Errorf("got error %v, want exit status 2 with the output", err)
	}
}
