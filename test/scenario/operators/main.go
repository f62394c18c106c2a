// Command scenario-operators tests OLM Classic with every bundle of a folder, on an embedded cluster
// with a simulated node. It installs each bundle in each install mode that it supports, and then moves
// it to OLM v1 with `mainstay migrate subscription`. The obstacle of a bundle that cannot be installed
// or moved is listed as a user sees it.
//
// It runs the built programs as a user would. `make scenario-operators` builds and runs it, with any
// folder of <package>/<version>/ folders of bundles. It fails on an unexpected outcome: an operator
// that neither works nor is refused for a known reason, a migration that fails or replaces a
// Deployment, or objects that are left behind.
package main

import (
	"github.com/mainstay-dev/mainstay/test/scenario/classic"
	"github.com/mainstay-dev/mainstay/test/scenario/trial"
)

func main() {
	s := &classic.Scenario{
		Name: "scenario-operators", CheckPackage: checkPackage,
		Outcomes: []trial.Outcome{trial.Migrated, trial.Kept, trial.Refused},
	}
	s.Main()
}
