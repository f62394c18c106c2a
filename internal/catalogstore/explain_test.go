package catalogstore

import (
	"errors"
	"io/fs"
	"syscall"
	"testing"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

func TestDiskErrorsContainAdvice(t *testing.T) {
	full := &fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"full":    {full, "storing catalog c: the volume of the catalog cache is full; free space on it or make it larger: write x: no space left on device"},
		"other":   {&fs.PathError{Op: "write", Path: "x", Err: syscall.EIO}, "storing catalog c: write x: input/output error"},
		"content": {&fbc.Error{File: "x", Err: errors.New("is wrong")}, "x: is wrong"},
	} {
		if err := explainDiskError("storing catalog c", test.err); err.Error() != test.want || !errors.Is(err, test.err) {
			t.Errorf("%s: error is %v, want %s", name, err, test.want)
		}
	}
}
