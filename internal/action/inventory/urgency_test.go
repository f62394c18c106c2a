package inventory

import "testing"

func TestInstallation(t *testing.T) {
	for _, test := range []struct {
		name       string
		item       Item
		hasVersion bool
		want       Installation
	}{
		{"first version", Item{State: "Installing"}, false, InstallationBusy},
		{"first version waits for approval", Item{State: "AwaitingApproval", NeedsApproval: "install-a"}, false, InstallationBusy},
		{"first version failed", Item{State: "Failed"}, false, InstallationFailed},
		{"ready", Item{State: "Ready"}, true, InstallationDone},
		{"update waits for approval", Item{State: "AwaitingApproval", NeedsApproval: "install-b"}, true, InstallationDone},
		{"update failed", Item{State: "Failed"}, true, InstallationDone},
	} {
		if test.item.decideInstallation(test.hasVersion); test.item.Installation != test.want {
			t.Errorf("%s: got %s, want %s", test.name, test.item.Installation, test.want)
		}
	}
}
