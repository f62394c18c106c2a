package diagnosis

import (
	"cmp"
	"fmt"
	"strings"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

// Subject is the extension that advice is about, and what its spec asks for.
type Subject struct {
	Name, Package, Namespace string
	// ServiceAccount that its objects are written as; empty for that of operator-controller.
	ServiceAccount string
}

// SubjectOf returns the subject that an extension is.
func SubjectOf(extension *olmv1.ClusterExtension) Subject {
	s := Subject{Name: extension.Name, Namespace: extension.Spec.Namespace}
	if account := extension.Spec.ServiceAccount; account != nil {
		s.ServiceAccount = account.Name
	}
	if catalog := extension.Spec.Source.Catalog; catalog != nil {
		s.Package = catalog.PackageName
	}
	return s
}

// rules decide what is advised, by what the message says: the first that applies. Every command
// advises by them.
var rules = []struct {
	applies func(reason, message string) bool
	advice  func(s Subject) string
}{
	{says("pre-authorization failed"), Subject.grant},
	{says("cannot be managed by operator-controller", "revision object collisions"), func(Subject) string {
		return "remove the object that the message names if nobody needs it, or whatever else owns it: two owners of one object cannot be"
	}},
	{says("missing ServiceAccount"), Subject.createAccount},
	{isMissingNamespace, func(s Subject) string { return "create it: kubectl create namespace " + s.Namespace }},
	{says("multiple catalogs with the same priority"), func(Subject) string {
		return "choose a catalog with --catalog-selector, or give one a higher priority"
	}},
	{says("no bundles found"), func(Subject) string {
		return "check package, version and channels with 'mainstay catalog list' and 'mainstay catalog show'; to step outside the catalog's upgrade edges use --self-certified"
	}},
	{func(_, message string) bool { return IsRefused(message) }, func(s Subject) string {
		return fmt.Sprintf("the update would change a CRD in a way that can lose data: choose another version, or accept that with --crd-upgrade-safety None, as in 'mainstay extension upgrade %s --crd-upgrade-safety None'", s.Name)
	}},
	{says("spec.install.dependencies.policy"), func(Subject) string {
		return "install what it needs first, or have it installed too: --dependencies Install, which is spec.install.dependencies.policy"
	}},
	{says("the removal waits"), func(s Subject) string {
		return fmt.Sprintf("uninstall the extensions that need it first, or together with it: mainstay extension uninstall %s OTHER", s.Name)
	}},
	{hasReason(olmv1.ReasonInvalidConfiguration), func(Subject) string {
		return "correct spec.config of the extension as the message says"
	}},
	{hasReason(olmv1.ReasonProgressDeadlineExceeded), func(s Subject) string {
		return s.seeStatus() + " for the object that is not ready, and look at its pods and events"
	}},
	{hasReason(olmv1.ReasonBlocked), func(s Subject) string { return "change what the message names; " + s.seeStatus() }},
}

// Advice returns what to do about an extension that reports a reason and a message, as a
// sentence without a full stop.
func Advice(s Subject, reason, message string) string {
	return cmp.Or(advise(s, reason, message), s.seeStatus())
}

// PlanAdvice returns what to do about something that stands against a plan, as a sentence
// without a full stop. The extension may not exist, so that it has no status to look at.
func PlanAdvice(s Subject, problem string) string {
	return cmp.Or(advise(s, "", problem), fmt.Sprintf("change what the plan names: 'mainstay extension plan %s' shows all of it", s.Name))
}

// advise returns the advice of the first rule that applies; empty when none does.
func advise(s Subject, reason, message string) string {
	for _, rule := range rules {
		if rule.applies(reason, message) {
			return rule.advice(s)
		}
	}
	return ""
}

func (s Subject) seeStatus() string { return "see 'mainstay extension status " + s.Name + "'" }

// grant returns how the account gets what it lacks.
func (s Subject) grant() string {
	if s.ServiceAccount == "" {
		return "give the account of operator-controller the listed permissions, or name a service account that has them"
	}
	return fmt.Sprintf("give ServiceAccount %s/%s what it lacks: %s writes all that it needs", s.Namespace, s.ServiceAccount, s.generate())
}

// createAccount returns how to create the account.
func (s Subject) createAccount() string {
	if s.ServiceAccount == "" {
		return "create the service account that the message names"
	}
	return fmt.Sprintf("create it: kubectl create serviceaccount %s -n %s; %s writes it with the rights that it needs", s.ServiceAccount, s.Namespace, s.generate())
}

// generate is the command that writes the account with its rights.
func (s Subject) generate() string {
	return fmt.Sprintf("'mainstay rbac generate %s --name %s --namespace %s --service-account %s'", s.Package, s.Name, s.Namespace, s.ServiceAccount)
}

// says returns a rule that applies to messages with one of the texts.
func says(texts ...string) func(reason, message string) bool {
	return func(_, message string) bool {
		for _, text := range texts {
			if strings.Contains(message, text) {
				return true
			}
		}
		return false
	}
}

// hasReason returns a rule that applies to a reason.
func hasReason(wanted string) func(reason, message string) bool {
	return func(reason, _ string) bool { return reason == wanted }
}

func isMissingNamespace(_, message string) bool {
	return strings.HasPrefix(message, "namespace ") && strings.Contains(message, "does not exist")
}

// IsRefused reports whether the message says that what is wanted is refused as unsafe for
// stored objects. That is looked at again from time to time, as the cluster may change, but
// mostly nothing comes of it until a person wants something else.
func IsRefused(message string) bool {
	return strings.Contains(message, "upgrade safety validation") || strings.Contains(message, "validating upgrade for CRD")
}
