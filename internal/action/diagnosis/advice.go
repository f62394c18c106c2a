package diagnosis

import (
	"cmp"
	"fmt"
	"strings"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

// Subject is the extension that advice is about.
type Subject struct {
	Name, Package, Namespace string
	// ServiceAccount is the service account that writes its objects. Empty means that of
	// operator-controller.
	ServiceAccount string
	// RollbackCommand is the command of the requested rollback. It is empty if the last requested change is none.
	RollbackCommand string
}

// SubjectOf returns an extension as the subject of advice.
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

// adviceRules select advice by reason and message. The first matching rule applies. All
// commands use them.
var adviceRules = []struct {
	applies func(reason, message string) bool
	advice  func(s Subject) string
}{
	{messageContainsAny("pre-authorization failed"), Subject.adviseGrant},
	{messageContainsAny("cannot be managed by operator-controller", "revision object collisions"), func(Subject) string {
		return "remove the named object if it is not needed, or its other owner: an object can have only one owner"
	}},
	{messageContainsAny("missing ServiceAccount"), Subject.adviseCreateServiceAccount},
	{isMissingNamespaceMessage, func(s Subject) string { return "create it: kubectl create namespace " + s.Namespace }},
	{messageContainsAny("multiple catalogs with the same priority"), func(Subject) string {
		return "choose a catalog with --catalog-selector, or give one a higher priority"
	}},
	{messageContainsAny("no bundles found"), func(Subject) string {
		return "check package, version and channels with 'mainstay catalog list' and 'mainstay catalog show'; to ignore the catalog's upgrade edges use --self-certified"
	}},
	{func(_, message string) bool { return IsRefused(message) }, Subject.adviseUnsafeCRD},
	{messageContainsAny("spec.install.dependencies.policy"), func(Subject) string {
		return "install its dependencies first, or let them be installed with it: --dependencies Install, which is spec.install.dependencies.policy"
	}},
	{messageContainsAny("the removal waits"), func(s Subject) string {
		return fmt.Sprintf("uninstall the extensions that need it first, or together with it: mainstay extension uninstall %s OTHER", s.Name)
	}},
	{reasonEquals(olmv1.ReasonInvalidConfiguration), func(Subject) string {
		return "correct spec.config of the extension as the message says"
	}},
	{reasonEquals(olmv1.ReasonProgressDeadlineExceeded), func(s Subject) string {
		return s.statusCommandAdvice() + " for the object that is not ready, and look at its pods and events"
	}},
	{reasonEquals(olmv1.ReasonBlocked), func(s Subject) string { return "change what the message names; " + s.statusCommandAdvice() }},
}

// Advice returns advice for an extension that reports a reason and a message. It is a
// sentence without a full stop.
func Advice(s Subject, reason, message string) string {
	return cmp.Or(findAdvice(s, reason, message), s.statusCommandAdvice())
}

// PlanAdvice returns advice for a problem of a plan. It is a sentence without a full stop.
// It does not refer to the status, because the extension may not exist.
func PlanAdvice(s Subject, problem string) string {
	return cmp.Or(findAdvice(s, "", problem), fmt.Sprintf("change what the plan names: 'mainstay extension plan %s' shows all of it", s.Name))
}

// findAdvice returns the advice of the first matching rule. It is empty if there is none.
func findAdvice(s Subject, reason, message string) string {
	for _, rule := range adviceRules {
		if rule.applies(reason, message) {
			return rule.advice(s)
		}
	}
	return ""
}

func (s Subject) statusCommandAdvice() string {
	return "see 'mainstay extension status " + s.Name + "'"
}

// adviseUnsafeCRD returns advice on a change of a CRD that is not safe for stored objects.
func (s Subject) adviseUnsafeCRD() string {
	change, alternative, command := "update", "another version", "mainstay extension upgrade "+s.Name
	if s.RollbackCommand != "" {
		change, alternative, command = "rollback", "another revision with --to-revision", s.RollbackCommand
	}
	return fmt.Sprintf("the %s would change a CRD in a way that can lose data: choose %s, or accept that with --crd-upgrade-safety None, as in '%s --crd-upgrade-safety None'", change, alternative, command)
}

// adviseGrant returns advice on granting the missing permissions to the service account.
func (s Subject) adviseGrant() string {
	if s.ServiceAccount == "" {
		return "grant the service account of operator-controller the listed permissions, or name a service account that has them"
	}
	return fmt.Sprintf("grant ServiceAccount %s/%s the missing permissions: %s writes all that it needs", s.Namespace, s.ServiceAccount, s.generateCommand())
}

// adviseCreateServiceAccount returns advice on creating the service account.
func (s Subject) adviseCreateServiceAccount() string {
	if s.ServiceAccount == "" {
		return "create the service account that the message names"
	}
	return fmt.Sprintf("create it: kubectl create serviceaccount %s -n %s; %s writes it with the permissions that it needs", s.ServiceAccount, s.Namespace, s.generateCommand())
}

// generateCommand returns the command that writes the service account with its permissions.
func (s Subject) generateCommand() string {
	return fmt.Sprintf("'mainstay rbac generate %s --name %s --namespace %s --service-account %s'", s.Package, s.Name, s.Namespace, s.ServiceAccount)
}

// messageContainsAny returns a rule that matches messages with one of the texts.
func messageContainsAny(texts ...string) func(reason, message string) bool {
	return func(_, message string) bool {
		for _, text := range texts {
			if strings.Contains(message, text) {
				return true
			}
		}
		return false
	}
}

// reasonEquals returns a rule that matches a reason.
func reasonEquals(wanted string) func(reason, message string) bool {
	return func(reason, _ string) bool { return reason == wanted }
}

func isMissingNamespaceMessage(_, message string) bool {
	return strings.HasPrefix(message, "namespace ") && strings.Contains(message, "does not exist")
}

// IsRefused reports whether a message says that the change is refused as unsafe for stored
// objects. The controller retries it, because the cluster may change, but usually a user
// has to request another change.
func IsRefused(message string) bool {
	return strings.Contains(message, "upgrade safety validation") || strings.Contains(message, "validating upgrade for CRD")
}
