package main

import "github.com/mainstay-dev/mainstay/test/scenario/trial"

// outcome is the result of testing a bundle.
type outcome = trial.Outcome

const (
	installed  = trial.Installed
	refused    = trial.Refused
	updated    = trial.Updated
	unexpected = trial.Unexpected
)
