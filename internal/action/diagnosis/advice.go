package diagnosis

import (
	"strings"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

// Advice says what to do about an extension or catalog that reports a reason and a
// message. It is empty when there is nothing better than to read the message.
func Advice(name, reason, message string) string {
	status := "see 'mainstay extension status " + name + "'"
	switch {
	case strings.Contains(message, "pre-authorization failed"):
		return "give the service account the listed permissions, or install without --service-account"
	case strings.Contains(message, "multiple catalogs with the same priority"):
		return "choose a catalog with --catalog-selector, or give one a higher priority"
	case strings.Contains(message, "no bundles found"):
		return "check package, version and channels against the catalogs of 'mainstay catalog list'; to step outside the catalog's upgrade edges use --self-certified"
	case IsRefused(message):
		return "the update would change a CRD in a way that can lose data: choose another version, or set spec.install.preflight.crdUpgradeSafety.enforcement to None"
	case strings.Contains(message, "ServiceAccount"):
		return "create the service account in the extension's namespace"
	case reason == olmv1.ReasonInvalidConfiguration:
		return "correct spec.config of the extension as the message says"
	case reason == olmv1.ReasonProgressDeadlineExceeded:
		return status + " for the object that is not ready, and look at its pods and events"
	case reason == olmv1.ReasonBlocked:
		return "change what the message names; " + status
	}
	return status
}

// IsRefused tells whether the message says that what is wanted is refused as unsafe for
// stored objects. That is looked at again from time to time, as the cluster may change, but
// mostly nothing comes of it until a person wants something else.
func IsRefused(message string) bool {
	return strings.Contains(message, "upgrade safety validation") || strings.Contains(message, "validating upgrade for CRD")
}
