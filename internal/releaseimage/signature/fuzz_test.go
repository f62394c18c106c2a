package signature

import (
	"os"
	"strings"
	"testing"
)

// A statement that is believed is about the digest, names an image, and is of its type.
func FuzzStatement(f *testing.F) {
	f.Add([]byte(text(typeAtomic, digest.String(), "r", "")))
	f.Add([]byte(text(typeAtomic, digest.String(), "r", `,"x":1`)))
	f.Add([]byte(text(typeCosign, digest.String(), "r", "")))
	f.Add([]byte(text(typeAtomic, other.String(), "", "")))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > MaxSignatureBytes {
			return
		}
		for kind, check := range map[string]func([]byte, Digest) error{typeAtomic: checkAtomic, typeCosign: checkCosign} {
			if check(data, digest) != nil {
				continue
			}
			if check(data, other) == nil {
				t.Errorf("%q is believed about two images", data)
			}
			// Letters may be written as \u0061, which is not what this looks for.
			if !strings.Contains(string(data), `\`) && (!strings.Contains(string(data), kind) || !strings.Contains(string(data), digest.Hex)) {
				t.Errorf("%q is believed", data)
			}
		}
	})
}

// Nothing that comes from a store is believed, or breaks anything, unless it was signed.
func FuzzMessage(f *testing.F) {
	data, err := os.ReadFile("testdata/gpg/keyring.asc")
	if err != nil {
		f.Fatal(err)
	}

	message, err := os.ReadFile("testdata/gpg/signature")
	if err != nil {
		f.Fatal(err)
	}

	ours := newPerson(f, "ours", now.AddDate(-1, 0, 0), 0)
	f.Add(message)
	f.Add(data)
	f.Add(ours.signs(f, other))
	f.Add([]byte("{}"))
	trusted := newPerson(f, "trusted", now.AddDate(-1, 0, 0), 0)
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4096 {
			return
		}
		if content, err := trusted.keyring.open(data, now); err == nil {
			t.Errorf("%q is believed to be signed", content)
		}
	})
}

// A keyring is read or refused.
func FuzzKeyring(f *testing.F) {
	data, err := os.ReadFile("testdata/gpg/keyring.asc")
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
			t.Errorf("%d keys: %v", len(keyring.keys), err)
		}
	})
}
