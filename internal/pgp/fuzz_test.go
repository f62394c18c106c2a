package pgp

import (
	"os"
	"testing"
)

// FuzzKeyring checks that a keyring is parsed or rejected without a panic.
func FuzzKeyring(f *testing.F) {
	data, err := os.ReadFile("../releaseimage/signature/testdata/gpg/keyring.asc")
	if err != nil {
		f.Fatal(err)
	}

	f.Add(data)
	f.Add([]byte("-----BEGIN PGP PUBLIC KEY BLOCK-----\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4096 {
			return
		}
		keyring, err := ParseKeyring("ours", data)
		if (err == nil) != (len(keyring.keys) > 0) {
			t.Errorf("got %d keys and error %v, want either", len(keyring.keys), err)
		}
	})
}
