package install

import (
	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

// decision is what must be done about an extension, in this order.
type decision struct {
	// takeover is what must be done to take over an installation of another implementation. It may
	// end the pass.
	takeover takeoverDecision
	// replaced are the revisions to archive, since the installed one has replaced them.
	replaced []string
	// expired are the archived revisions to delete.
	expired []string
	// plan is what must be done about the plan.
	plan planDecision
	// late is the update to abandon. It is nil if there is none.
	late *lateUpdate
	// change is what the spec asks for. It is nil if the pass ends before.
	change *change

	// revisions are those of the extension after the decision was carried out.
	revisions revisions
}

// decidePass decides what must be done about an extension.
func decidePass(ext *olmv1.ClusterExtension, f *facts) *decision {
	takeover := decideTakeover(f.takeover, f.revisions)
	if takeover.endsPass() {
		return &decision{takeover: takeover, revisions: f.revisions}
	}

	replaced := f.revisions.listReplacedRevisions()
	d := &decision{
		takeover: takeover, replaced: replaced, expired: f.revisions.withArchived(replaced, 0).listExpiredRevisions(),
		plan: decidePlan(ext, f.plan), late: f.late, revisions: f.revisions,
	}
	if f.change != nil {
		d.change = decideChange(ext, f.change)
	}

	return d
}
