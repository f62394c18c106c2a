package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

// Phases of a run and of a component.
const (
	Starting = "Starting"
	Running  = "Running"
	Stopping = "Stopping"
	Stopped  = "Stopped"
	Failed   = "Failed"
)

// Record is written by the supervisor and printed by `status`. It describes the current run while the lock is held.
// After that, it describes how the latest run ended.
type Record struct {
	// Phase is Starting, Running, Stopping, Stopped or Failed.
	Phase string `json:"phase"`
	PID   int    `json:"pid,omitempty"`
	Node  string `json:"node"`
	// Registry is the registry's address on this machine. NodeRegistry is the address for pods of a real node; this
	// machine can use it too. It is empty without such a node.
	Registry     string            `json:"registry"`
	NodeRegistry string            `json:"nodeRegistry,omitempty"`
	Kubeconfig   string            `json:"kubeconfig"`
	Components   []ComponentRecord `json:"components"`
	// Message is the reason why the phase is Failed.
	Message string `json:"message,omitempty"`
}

// ComponentRecord is one component of a run.
type ComponentRecord struct {
	Name  string `json:"name"`
	State string `json:"state"`
	PID   int    `json:"pid,omitempty"`
	// Address is the address that the component serves on, or "" if it has none.
	Address string `json:"address,omitempty"`
}

// WriteRecord replaces the record.
func (d Dir) WriteRecord(record Record) error {
	content, err := json.MarshalIndent(record, "", "  ")
	if err != nil {
		return err
	}
	if err := writeFileAtomically(filepath.Join(string(d), recordFile), append(content, '\n'), 0o600); err != nil {
		return fmt.Errorf("write the record of the run: %w", err)
	}
	return nil
}

// ReadRecord returns the current record. If the supervisor has ended, the phase is Stopped or Failed, regardless of what the
// supervisor wrote last. For a data directory on which no cluster ever ran, it returns the zero record with phase
// Stopped.
func (d Dir) ReadRecord() (Record, error) {
	var record Record
	if err := readJSONFile(filepath.Join(string(d), recordFile), &record); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Record{}, fmt.Errorf("read the record of the run: %w", err)
	}

	pid, running, err := LockHolder(d)
	if err != nil {
		return Record{}, err
	}

	return record.correctForHolder(pid, running), nil
}

// correctForHolder returns the record with the state that follows from the lock. holder is the process that holds the
// lock, if running is true.
func (r Record) correctForHolder(holder int, running bool) Record {
	if running {
		if r.PID != holder { // The holder has not written its record yet. This one is of the previous run.
			return Record{Phase: Starting, PID: holder}
		}
		return r
	}

	switch r.Phase {
	case Failed, Stopped:
	case "":
		r.Phase = Stopped
	default:
		r.Message = fmt.Sprintf("the supervisor (process %d) ended without stopping its components", r.PID)
		r.Phase = Failed
	}

	r.PID = 0
	for i := range r.Components {
		r.Components[i].PID = 0
		if r.Components[i].State != Failed {
			r.Components[i].State = Stopped
		}
	}

	return r
}
