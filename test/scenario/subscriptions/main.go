// Command scenario-subscriptions tests OLM Classic with every package of a folder of bundles, on an
// embedded cluster with a simulated node. It subscribes to each channel at its oldest version, and
// upgrades to the head: the first half of the way each InstallPlan is approved by hand, then they are
// approved automatically. Dependencies have to be installed with the bundles that declare them. A
// version that the cluster refuses is skipped, and listed with the reason that a user sees.
//
// It runs the built programs as a user would. `make scenario-subscriptions` builds and runs it, with
// any folder of <package>/<version>/ folders of bundles. It fails on an unexpected outcome: an upgrade
// without an edge of the catalog or without approval, an operator that neither works nor is refused
// for a known reason, or objects that are left behind.
package main

import (
	"github.com/mainstay-dev/mainstay/test/scenario/classic"
	"github.com/mainstay-dev/mainstay/test/scenario/trial"
)

func main() {
	s := &classic.Scenario{
		Name: "scenario-subscriptions", CheckPackage: walkPackage,
		Outcomes: []trial.Outcome{trial.Installed, trial.Updated, trial.Refused},
	}
	s.Main()
}
