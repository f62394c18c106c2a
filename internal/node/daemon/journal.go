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
	// forceFile skips the validation of the present state, once.
	forceFile = "/run/machine-config-daemon-force"
)

// maxRecord limits the size in bytes of a record of the daemon, which holds up to two configurations.
const maxRecord = 4 * config.MaxBytes

// applied is a configuration with its name.
type applied struct {
	Name string                   `json:"name"`
	Spec mcfgv1.MachineConfigSpec `json:"spec"`
}

func (a *applied) configName() string {
	if a == nil {
		return ""
	}
	return a.Name
}

func (a *applied) configSpec() *mcfgv1.MachineConfigSpec {
	if a == nil {
		return nil
	}
	return &a.Spec
}

// configSpecOrEmpty returns the spec, and an empty one when there is no configuration.
func (a *applied) configSpecOrEmpty() *mcfgv1.MachineConfigSpec {
	if a == nil {
		return &mcfgv1.MachineConfigSpec{}
	}
	return &a.Spec
}

// parseIgnition returns the Ignition configuration; an empty one when there is no configuration.
func (a *applied) parseIgnition() (*config.Ignition, error) {
	if a == nil {
		return config.Parse(nil)
	}
	return config.Parse(a.Spec.Config.Raw)
}

// resolveItems returns the files and links of the configuration, with owners of this node.
func (a *applied) resolveItems(d *disk) ([]item, error) {
	ignition, err := a.parseIgnition()
	if err != nil {
		return nil, err
	}
	return accounts{d}.resolveItems(ignition)
}

// findDrift returns the first difference between the files of the node and the configuration; empty when there is
// none.
func (a *applied) findDrift(d *disk) (string, error) {
	items, err := a.resolveItems(d)
	if err != nil {
		return "", err
	}

	for _, it := range items {
		if why := d.describeDifference(it); why != "" {
			return why, nil
		}
	}

	return "", nil
}

// phase is the phase of an update.
type phase string

const (
	// phaseApply: the configuration To is being applied.
	phaseApply phase = "apply"
	// phaseRollBack: applying To failed, and From is being restored.
	phaseRollBack phase = "back"
	// phaseReboot: To is applied, and the machine has to reboot.
	phaseReboot phase = "reboot"
)

// journal describes an update that is not complete.
type journal struct {
	Phase phase `json:"phase"`
	// From is nil when the node had no configuration.
	From *applied `json:"from,omitempty"`
	To   applied  `json:"to"`
	// Effort is what the change requires of the node, as decided when the update began.
	Effort config.Effort `json:"effort"`
	// BootID identifies the boot of the machine that the reboot ends.
	BootID string `json:"bootID,omitempty"`
	// Reason is why applying failed; set in phaseRollBack.
	Reason string `json:"reason,omitempty"`
}

// awaitReboot returns the journal of the update once it is applied and the machine has to reboot.
func (j *journal) awaitReboot(bootID string) *journal {
	next := *j
	next.Phase, next.BootID = phaseReboot, bootID
	return &next
}

// records are the files in which the daemon keeps its state, and the force file.
type records struct{ disk *disk }

// save writes a record of the daemon as JSON.
func (r records) save(file string, record any) error {
	data, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	return r.disk.writeItem(item{path: file, content: data, mode: 0o600})
}

// load reads a record of the daemon. It returns false when there is none.
func (r records) load(file string, record any) (bool, error) {
	data, err := r.disk.readFile(file, maxRecord)
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

// loadCurrentConfig returns the configuration that the node has; nil when it has none.
func (r records) loadCurrentConfig() (*applied, error) {
	var a applied
	ok, err := r.load(currentFile, &a)
	if !ok {
		return nil, err
	}
	return &a, nil
}

// loadJournal returns the journal of the update that is not complete; nil when there is none.
func (r records) loadJournal() (*journal, error) {
	var j journal
	ok, err := r.load(journalFile, &j)
	if !ok {
		return nil, err
	}
	return &j, nil
}

// isValidationSkipped reports whether the force file exists, which skips the validation of the present state.
func (r records) isValidationSkipped() bool { return r.disk.exists(forceFile) }

// consumeForceFile removes the force file, if it exists.
func (r records) consumeForceFile() error {
	if !r.isValidationSkipped() {
		return nil
	}
	return r.disk.removePath(forceFile)
}

// newApplied returns the record of a MachineConfig.
func newApplied(c *mcfgv1.MachineConfig) *applied {
	a := &applied{Name: c.Name, Spec: *c.Spec.DeepCopy()}
	if a.Spec.Config.Raw == nil {
		a.Spec.Config = runtime.RawExtension{Raw: []byte("null")}
	}
	return a
}
