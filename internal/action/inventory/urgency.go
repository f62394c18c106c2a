package inventory

// Urgency states whether a state lasts until a person does something.
type Urgency string

const (
	// UrgencyNone means that nothing has to be done.
	UrgencyNone Urgency = "None"
	// UrgencyBusy means that the state passes by itself.
	UrgencyBusy Urgency = "Busy"
	// UrgencyPerson means that the state lasts until a person does something.
	UrgencyPerson Urgency = "Person"
)

// urgencies are the urgencies of the states of extensions, Subscriptions and ClusterServiceVersions. Other states need a person.
var urgencies = map[string]Urgency{
	"Ready": UrgencyNone, "Succeeded": UrgencyNone, "Planned": UrgencyNone,
	"Installing": UrgencyBusy, "Updating": UrgencyBusy, "Removing": UrgencyBusy, "Pending": UrgencyBusy, "InstallReady": UrgencyBusy, "Replacing": UrgencyBusy,
	"Deleting": UrgencyBusy,
}

// urgencyOf returns the urgency of a state.
func urgencyOf(state string) Urgency {
	if u, ok := urgencies[state]; ok {
		return u
	}
	return UrgencyPerson
}

// Installation states how far the installation of a package is.
type Installation string

const (
	// InstallationDone means that a version is installed, also while an update of it waits or fails.
	InstallationDone Installation = "Installed"
	// InstallationBusy means that the first version is being installed, or waits for approval.
	InstallationBusy Installation = "Installing"
	// InstallationFailed means that the first version cannot be installed.
	InstallationFailed Installation = "Failed"
)

// decideInstallation sets how far the installation is. hasVersion reports whether a version is installed.
func (i *Item) decideInstallation(hasVersion bool) {
	switch {
	case hasVersion:
		i.Installation = InstallationDone
	case i.NeedsApproval == "" && urgencyOf(i.State) == UrgencyPerson:
		i.Installation = InstallationFailed
	default:
		i.Installation = InstallationBusy
	}
}
