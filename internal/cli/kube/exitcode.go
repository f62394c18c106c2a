package kube

import (
	"errors"

	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// exitCodeCustomResources is the exit code of a command that deleted nothing because custom
// resources would have been lost.
const exitCodeCustomResources = 3

// WithExitCode adds the exit code 3 to an error about custom resources that would have been lost. It returns
// other errors unchanged.
func WithExitCode(err error) error {
	if errors.Is(err, action.ErrCustomResources) {
		return &terminal.ExitError{Code: exitCodeCustomResources, Err: err}
	}
	return err
}
