package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"k8s.io/apimachinery/pkg/runtime"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	"github.com/mainstay-dev/mainstay/internal/node/config"
)

// Files of the daemon.
const (
	currentFile = config.CurrentFile
	journalFile = config.JournalFile
	// forceFile has the check of the present state left out, once.
	forceFile = "/run/machine-config-daemon-force"
)

// maxRecord is how large a file of the daemon may be: two configurations.
const maxRecord = 4 * config.MaxBytes

// applied is a configuration with its name.
type applied struct {
	Name string                   `json:"name"`
	Spec mcfgv1.MachineConfigSpec `json:"spec"`
}

func (a *applied) name() string {
	if a == nil {
		return ""
	}
	return a.Name
}

func (a *applied) spec() *mcfgv1.MachineConfigSpec {
	if a == nil {
		return nil
	}
	return &a.Spec
}

// specOrEmpty is spec for those that make no difference between none and an empty one.
func (a *applied) specOrEmpty() *mcfgv1.MachineConfigSpec {
	if a == nil {
		return &mcfgv1.MachineConfigSpec{}
	}
	return &a.Spec
}

// ignition reads the Ignition configuration; none at all is an empty one.
func (a *applied) ignition() (*config.Ignition, error) {
	if a == nil {
		return config.Parse(nil)
	}
	return config.Parse(a.Spec.Config.Raw)
}

// phase is how far an update is.
type phase string

const (
	// phaseApply: the node is being changed, to config To.
	phaseApply phase = "apply"
	// phaseBack: that failed, and the node is being brought back to config From.
	phaseBack phase = "back"
	// phaseReboot: the node has been changed, and is to start again.
	phaseReboot phase = "reboot"
)

// journal tells of an update that is not complete.
type journal struct {
	Phase phase `json:"phase"`
	// From is nil when the node had no configuration.
	From *applied `json:"from,omitempty"`
	To   applied  `json:"to"`
	// Effort is what the change asks of the node. It stays what it was when the update began.
	Effort config.Effort `json:"effort"`
	// BootID names the start of the machine that is to end.
	BootID string `json:"bootID,omitempty"`
	// Reason says what failed, in phase back.
	Reason string `json:"reason,omitempty"`
}

// save writes a record of the daemon.
func (d *disk) save(file string, record any) error {
	data, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	return d.write(item{path: file, content: data, mode: 0o600})
}

// load reads a record of the daemon; false when there is none.
func (d *disk) load(file string, record any) (bool, error) {
	data, err := d.content(file, maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(data, record)
	}
	if err != nil {
		return false, fmt.Errorf("reading %s: %w", file, err)
	}

	return true, nil
}

// current returns the configuration that the node has, nil for none.
func (d *disk) current() (*applied, error) {
	var a applied
	ok, err := d.load(currentFile, &a)
	if !ok {
		return nil, err
	}
	return &a, nil
}

// journal returns the update that is not complete, nil for none.
func (d *disk) journal() (*journal, error) {
	var j journal
	ok, err := d.load(journalFile, &j)
	if !ok {
		return nil, err
	}
	return &j, nil
}

// isForced reports whether the check of the present state is to be left out.
func (d *disk) isForced() bool {
	_, err := d.root.Lstat(inside(forceFile))
	return err == nil
}

// takeForce is isForced, and has it count once.
func (d *disk) takeForce() (bool, error) {
	if !d.isForced() {
		return false, nil
	}
	return true, d.remove(forceFile)
}

// appliedOf takes a configuration as the cluster has it.
func appliedOf(c *mcfgv1.MachineConfig) *applied {
	a := &applied{Name: c.Name, Spec: *c.Spec.DeepCopy()}
	if a.Spec.Config.Raw == nil {
		a.Spec.Config = runtime.RawExtension{Raw: []byte("null")}
	}
	return a
}
