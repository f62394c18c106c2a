package state

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCorrectForHolder(t *testing.T) {
	running := func() Record {
		return Record{Phase: Running, PID: 7, Components: []ComponentRecord{{Name: "etcd", State: Running, PID: 8}}}
	}
	stopped := []ComponentRecord{{Name: "etcd", State: Stopped}}
	for _, test := range []struct {
		name    string
		record  Record
		holder  int
		running bool
		want    Record
	}{
		{"never ran", Record{}, 0, false, Record{Phase: Stopped}},
		{"runs", running(), 7, true, running()},
		{"a new run has not written yet", running(), 9, true, Record{Phase: Starting, PID: 9}},
		{"stopped", Record{Phase: Stopped, PID: 7, Components: stopped}, 0, false, Record{Phase: Stopped, Components: stopped}},
		{"failed", Record{Phase: Failed, PID: 7, Message: "etcd died"}, 0, false, Record{Phase: Failed, Message: "etcd died"}},
		{"was killed", running(), 0, false, Record{
			Phase: Failed, Components: stopped,
			Message: "the supervisor (process 7) ended without stopping its components",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, test.record.correctForHolder(test.holder, test.running)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestRecordIsReadBack(t *testing.T) {
	dir := newTestDir(t)
	if record, err := dir.ReadRecord(); err != nil || record.Phase != Stopped {
		t.Errorf("before the first run: got %+v, error %v", record, err)
	}

	want := Record{Phase: Failed, Node: "none", Message: "etcd died", Components: []ComponentRecord{}}
	if err := dir.WriteRecord(want); err != nil {
		t.Fatal(err)
	}

	got, err := dir.ReadRecord()
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("got error %v and the record (-want +got)\n%s", err, diff)
	}
}
