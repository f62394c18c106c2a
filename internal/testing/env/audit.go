package env

import (
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/mainstay-dev/mainstay/internal/testing/audit"
)

// auditPolicy makes the API server log the requests of service accounts and nothing else.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  userGroups: ["system:serviceaccounts"]
- level: None
`

const auditLogFile = "audit.log"

// enableAuditLog makes the API server write an audit log to a folder.
func enableAuditLog(environment *envtest.Environment, folder string) error {
	policy := filepath.Join(folder, "audit-policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return err
	}

	environment.ControlPlane.GetAPIServer().Configure().
		Set("audit-policy-file", policy).
		Set("audit-log-path", filepath.Join(folder, auditLogFile))
	return nil
}

// Requests returns the allowed requests of service accounts to the API server of this test binary
// so far.
func Requests(t testing.TB) audit.Requests {
	t.Helper()
	Start(t)
	requests, err := readRequests()
	if err != nil {
		t.Fatal(err)
	}
	return requests
}
