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

// Record is what the supervisor writes about its run and `status` prints. It is true only while the lock is held; after
// that it tells how the latest run ended.
type Record struct {
	// Phase is Starting, Running, Stopping, Stopped or Failed.
	Phase string `json:"phase"`
	PID   int    `json:"pid,omitempty"`
	Node  string `json:"node"`
	// Registry is the registry's address on this machine, NodeRegistry the one by which pods of a real node reach it as
	// well, "" without such a node.
	Registry     string            `json:"registry"`
	NodeRegistry string            `json:"nodeRegistry,omitempty"`
	Kubeconfig   string            `json:"kubeconfig"`
	Components   []ComponentRecord `json:"components"`
	// Message says why the phase is Failed.
	Message string `json:"message,omitempty"`
}

// ComponentRecord is one component of a run.
type ComponentRecord struct {
	Name  string `json:"name"`
	State string `json:"state"`
	PID   int    `json:"pid,omitempty"`
	// Address is where it answers, "" for a component that has none.
	Address string `json:"address,omitempty"`
}

// WriteRecord replaces the record.
func (d Dir) WriteRecord(record Record) error {
	content, err := json.MarshalIndent(record, "", "  ")
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(string(d), recordFile), append(content, '\n'), 0o600); err != nil {
		return fmt.Errorf("write the record of the run: %w", err)
	}
	return nil
}

// ReadRecord returns the record as of now: a run whose supervisor is gone is Stopped or Failed, whatever it wrote last.
// The zero record with phase Stopped stands for a data directory on which nothing ever ran.
func (d Dir) ReadRecord() (Record, error) {
	var record Record
	if err := readJSON(filepath.Join(string(d), recordFile), &record); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Record{}, fmt.Errorf("read the record of the run: %w", err)
	}

	pid, running, err := d.Holder()
	if err != nil {
		return Record{}, err
	}

	return record.asOf(pid, running), nil
}

// asOf corrects a record by who holds the lock.
func (r Record) asOf(holder int, running bool) Record {
	if running {
		if r.PID != holder { // The holder has not written its record yet; this one is of the run before.
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
