package signature

import (
	"os"
	"strings"
	"testing"
)

// An accepted statement is about the digest, names an image, and has the right type.
func FuzzStatement(f *testing.F) {
	f.Add([]byte(statementJSON(typeAtomic, digest.String(), "r", "")))
	f.Add([]byte(statementJSON(typeAtomic, digest.String(), "r", `,"x":1`)))
	f.Add([]byte(statementJSON(typeCosign, digest.String(), "r", "")))
	f.Add([]byte(statementJSON(typeAtomic, other.String(), "", "")))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > MaxSignatureBytes {
			return
		}
		for kind, check := range map[string]func([]byte, Digest) error{typeAtomic: checkAtomicStatement, typeCosign: checkCosignStatement} {
			if check(data, digest) != nil {
				continue
			}
			if check(data, other) == nil {
				t.Errorf("got %q accepted for two images, want one", data)
			}
			// Letters can be escaped as \u0061, which the search for the plain text does not find.
			if !strings.Contains(string(data), `\`) && (!strings.Contains(string(data), kind) || !strings.Contains(string(data), digest.Hex)) {
				t.Errorf("got %q accepted, want it rejected", data)
			}
		}
	})
}

// Unsigned data from a store is rejected and causes no panic.
func FuzzMessage(f *testing.F) {
	data, err := os.ReadFile("testdata/gpg/keyring.asc")
	if err != nil {
		f.Fatal(err)
	}

	message, err := os.ReadFile("testdata/gpg/signature")
	if err != nil {
		f.Fatal(err)
	}

	ours := newTestSigner(f, "ours", now.AddDate(-1, 0, 0), 0)
	f.Add(message)
	f.Add(data)
	f.Add(ours.sign(f, other))
	f.Add([]byte("{}"))
	trusted := newTestSigner(f, "trusted", now.AddDate(-1, 0, 0), 0)
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4096 {
			return
		}
		if content, err := trusted.keyring.OpenMessage(data, now); err == nil {
			t.Errorf("got unsigned content %q accepted, want an error", content)
		}
	})
}
