package env

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/mainstay-dev/mainstay/internal/testing/audit"
)

// auditPolicy has the API server log what service accounts ask for, and nothing else.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  userGroups: ["system:serviceaccounts"]
- level: None
`

const auditLog = "audit.log"

// logRequests has the API server write an audit log into a folder.
func logRequests(environment *envtest.Environment, folder string) error {
	policy := filepath.Join(folder, "audit-policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return err
	}

	environment.ControlPlane.GetAPIServer().Configure().
		Set("audit-policy-file", policy).
		Set("audit-log-path", filepath.Join(folder, auditLog))
	return nil
}

// Requests returns what service accounts have asked of the API server of this test binary so far, and were allowed.
func Requests(t testing.TB) audit.Requests {
	t.Helper()
	Start(t)
	log, err := os.ReadFile(filepath.Join(shared.folder, auditLog))
	if err != nil {
		t.Fatal(err)
	}

	// The last line may still be being written.
	log = log[:bytes.LastIndexByte(log, '\n')+1]
	requests := audit.Requests{}
	if err := requests.Add(bytes.NewReader(log)); err != nil {
		t.Fatal(err)
	}

	return requests
}
