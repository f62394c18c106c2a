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
