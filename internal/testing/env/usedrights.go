package env

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-dev/mainstay/internal/testing/audit"
)

// ShippedRights are the rights that programs are shipped with, and that the tests of a package use.
type ShippedRights struct {
	// Files are files of generated roles, relative to the root of the repository.
	Files []string
	// Account returns the user name of the program with a role. Nil means the account of ConfigWithRoles.
	Account func(role string) string
	// Unused has the rights that the tests of the package need not use, such as "olm-operator: get secrets", each
	// with the situation in which the program uses it.
	Unused map[string]string
}

// RunAndCheckRights runs the tests like Run. If all tests of the package ran and passed, it also fails if no program
// used one of the rights that are shipped and not explained, or if an explained right is not shipped.
func RunAndCheckRights(m *testing.M, r ShippedRights) int {
	code := CheckRights(runTests(m), r)
	if err := Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stopping the API server:", err)
		return max(code, 1)
	}

	return code
}

// CheckRights is the check of RunAndCheckRights, for a package that has more to stop than the API server. It returns the
// exit code of the tests, which is code unless the check fails.
func CheckRights(code int, r ShippedRights) int {
	isComplete := true
	for _, name := range []string{"test.run", "test.skip", "test.list"} {
		isComplete = isComplete && flag.Lookup(name).Value.String() == ""
	}

	if code == 0 && isComplete && shared.config != nil {
		for _, problem := range r.findProblems() {
			fmt.Fprintln(os.Stderr, "FAIL:", problem)
			code = 1
		}
	}

	return code
}

// findProblems returns the problems of the shipped and the explained rights.
func (r ShippedRights) findProblems() []string {
	var bindings []audit.Binding
	for _, path := range r.Files {
		roles, err := readRoles(path)
		if err != nil {
			return []string{err.Error()}
		}

		for _, role := range roles {
			account := "system:serviceaccount:" + metav1.NamespaceDefault + ":env-" + role.Name
			if r.Account != nil {
				account = r.Account(role.Name)
			}
			bindings = append(bindings, audit.Binding{Role: role.Name, Rules: role.Rules, Accounts: []string{account}})
		}
	}

	requests, err := readRequests()
	if err != nil {
		return []string{err.Error()}
	}

	var problems []string
	for _, right := range requests.Unused(bindings) {
		if r.Unused[right.String()] == "" {
			problems = append(problems, fmt.Sprintf("no test used the right %q: remove its marker, or name in ShippedRights.Unused when it is used", right))
		}
	}

	shipped := map[string]bool{}
	for _, right := range (audit.Requests{}).Unused(bindings) {
		shipped[right.String()] = true
	}

	for _, right := range slices.Sorted(maps.Keys(r.Unused)) {
		if !shipped[right] {
			problems = append(problems, fmt.Sprintf("ShippedRights.Unused explains %q, which no role has: remove the entry", right))
		}
	}

	return problems
}

// readRequests returns the allowed requests of service accounts so far.
func readRequests() (audit.Requests, error) {
	log, err := os.ReadFile(shared.auditLog)
	if err != nil {
		return nil, err
	}

	// The last line may be incomplete.
	log = log[shared.auditLogStart : bytes.LastIndexByte(log, '\n')+1]
	requests := audit.Requests{}
	return requests, requests.Add(bytes.NewReader(log))
}
