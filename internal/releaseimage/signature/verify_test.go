package signature

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/pgp"
)

func TestVerify(t *testing.T) {
	ann := newTestSigner(t, "ann", now.AddDate(-1, 0, 0), 0)
	bob := newTestSigner(t, "bob", now.AddDate(-1, 0, 0), 0)
	eve := newTestSigner(t, "eve", now.AddDate(-1, 0, 0), 0)
	old := newTestSigner(t, "old", now.AddDate(-2, 0, 0), 24*time.Hour)
	day := uint32(86400)
	valid := statementJSON(typeAtomic, digest.String(), "r", "")
	broken := ann.sign(t, digest)
	broken[len(broken)/2] ^= 1
	tests := map[string]struct {
		signatures [][]byte
		people     []testSigner
		missing    []string
		cause      string // part of one of the causes
	}{
		"signed":                         {signatures: [][]byte{ann.sign(t, digest)}, people: []testSigner{ann}},
		"the first is bad":               {signatures: [][]byte{broken, ann.sign(t, digest)}, people: []testSigner{ann}},
		"signed with both keys":          {signatures: [][]byte{ann.sign(t, digest), bob.sign(t, digest)}, people: []testSigner{ann, bob}},
		"signed with one of two":         {signatures: [][]byte{ann.sign(t, digest)}, people: []testSigner{ann, bob}, missing: []string{"bob"}, cause: "which is not in the keyring"},
		"nothing":                        {people: []testSigner{ann}, missing: []string{"ann"}, cause: "no signature was found in signatures at hand"},
		"a foreign key":                  {signatures: [][]byte{eve.sign(t, digest)}, people: []testSigner{ann}, missing: []string{"ann"}, cause: "which is not in the keyring"},
		"changed in transit":             {signatures: [][]byte{broken}, people: []testSigner{ann}, missing: []string{"ann"}, cause: "a signature is not valid for ann"},
		"another digest":                 {signatures: [][]byte{ann.signText(t, statementJSON(typeAtomic, other.String(), "r", ""), nil)}, people: []testSigner{ann}, missing: []string{"ann"}, cause: "about another image"},
		"another type":                   {signatures: [][]byte{ann.signText(t, statementJSON("atomic", digest.String(), "r", ""), nil)}, people: []testSigner{ann}, missing: []string{"ann"}, cause: `is of type "atomic"`},
		"no identity":                    {signatures: [][]byte{ann.signText(t, statementJSON(typeAtomic, digest.String(), "", ""), nil)}, people: []testSigner{ann}, missing: []string{"ann"}, cause: "docker-reference is empty"},
		"an unknown field":               {signatures: [][]byte{ann.signText(t, statementJSON(typeAtomic, digest.String(), "r", `,"only":"tests"`), nil)}, people: []testSigner{ann}, missing: []string{"ann"}, cause: `unknown field "only"`},
		"a field in other letters":       {signatures: [][]byte{ann.signText(t, strings.Replace(valid, "critical", "Critical", 1), nil)}, people: []testSigner{ann}, missing: []string{"ann"}, cause: `unknown field "Critical"`},
		"a field twice":                  {signatures: [][]byte{ann.signText(t, strings.Replace(valid, `"optional"`, `"critical":{},"optional"`, 1), nil)}, people: []testSigner{ann}, missing: []string{"ann"}, cause: "duplicate field"},
		"no JSON":                        {signatures: [][]byte{ann.signText(t, "yes", nil)}, people: []testSigner{ann}, missing: []string{"ann"}, cause: "cannot be read"},
		"expired":                        {signatures: [][]byte{ann.signText(t, valid, &packet.Config{SigLifetimeSecs: day, Time: func() time.Time { return now.Add(-48 * time.Hour) }})}, people: []testSigner{ann}, missing: []string{"ann"}, cause: "signature expired on 2030-05-31T12:00:00Z"},
		"not expired yet":                {signatures: [][]byte{ann.signText(t, valid, &packet.Config{SigLifetimeSecs: day})}, people: []testSigner{ann}},
		"created in the future":          {signatures: [][]byte{ann.signText(t, valid, &packet.Config{Time: func() time.Time { return now.Add(time.Hour) }})}, people: []testSigner{ann}, missing: []string{"ann"}, cause: "signature made on 2030-06-01T13:00:00Z"},
		"an expired key":                 {signatures: [][]byte{old.signText(t, valid, &packet.Config{Time: func() time.Time { return now.AddDate(-2, 0, 0) }})}, people: []testSigner{old}, missing: []string{"old"}, cause: "key expired"},
		"not OpenPGP":                    {signatures: [][]byte{[]byte("hello"), nil}, people: []testSigner{ann}, missing: []string{"ann"}, cause: "not a signed OpenPGP message"},
		"unsigned":                       {signatures: [][]byte{newUnsignedMessage(t, valid)}, people: []testSigner{ann}, missing: []string{"ann"}, cause: "not a signed OpenPGP message"},
		"a message of too many bytes":    {signatures: [][]byte{ann.signText(t, valid+strings.Repeat(" ", MaxSignatureBytes), nil)}, people: []testSigner{ann}, missing: []string{"ann"}, cause: "holds more than the 51200 bytes"},
		"a key of the person, not of us": {signatures: [][]byte{ann.sign(t, digest)}, people: []testSigner{newTestSigner(t, "ann", now.AddDate(-1, 0, 0), 0)}, missing: []string{"ann"}, cause: "not in the keyring"},
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := newVerifier(Memory{digest.String(): test.signatures}, test.people...).Verify(t.Context(), digest.String())
			if test.missing == nil {
				if err != nil {
					t.Fatal(Detail(err))
				}
				return
			}

			var failed *Error
			if !errors.As(err, &failed) {
				t.Fatalf("got %v, want an *Error", err)
			}
			if diff := cmp.Diff(test.missing, failed.Missing); diff != "" {
				t.Errorf("missing (-want +got):\n%s", diff)
			}
			if want := "unable to verify " + digest.String() + " against keyrings: " + strings.Join(test.missing, ", "); err.Error() != want {
				t.Errorf("got %q, want %q", err, want)
			}
			if detail := failed.Detail(); !strings.Contains(detail, test.cause) || !strings.Contains(detail, "\n  2030-06-01T12:00:00Z: ") {
				t.Errorf("got detail\n%s\nwant %q", detail, test.cause)
			}
		})
	}
}

// newUnsignedMessage returns a message without a signature.
func newUnsignedMessage(t *testing.T, content string) []byte {
	t.Helper()
	var message bytes.Buffer
	writer, err := packet.SerializeLiteral(nopCloser{&message}, false, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := writer.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}

	return message.Bytes()
}

type nopCloser struct{ *bytes.Buffer }

func (nopCloser) Close() error { return nil }

func TestVerifyDigests(t *testing.T) {
	ann := newTestSigner(t, "ann", now.AddDate(-1, 0, 0), 0)
	for given, want := range map[string]string{
		"":                                      "release images that are not accessed via digest cannot be verified",
		"sha256:abc":                            `the provided release image digest has an invalid format: "sha256:abc"`,
		"md5:" + digest.Hex:                     `the provided release image digest has an invalid format: "md5:` + digest.Hex + `"`,
		"sha256:../../etc":                      `the provided release image digest has an invalid format: "sha256:../../etc"`,
		strings.ToUpper("sha256:" + digest.Hex): `the provided release image digest has an invalid format: "` + strings.ToUpper("sha256:"+digest.Hex) + `"`,
	} {
		if err := newVerifier(Memory{}, ann).Verify(t.Context(), given); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", given, err, want)
		}
	}

	if got := DigestOf("registry.example.com/release:1@" + digest.String()); got != digest.String() {
		t.Errorf("got digest %q, want %q", got, digest)
	}
	if got := DigestOf("registry.example.com/release:1"); got != "" {
		t.Errorf("got digest %q of a tag, want none", got)
	}
}

// A verified digest is remembered until its signatures expire.
func TestVerifyRemembers(t *testing.T) {
	ann := newTestSigner(t, "ann", now.AddDate(-1, 0, 0), 0)
	signature := ann.signText(t, statementJSON(typeAtomic, digest.String(), "r", ""), &packet.Config{SigLifetimeSecs: 7200})
	store := &countingStore{Store: Memory{digest.String(): {signature}}}
	v := newVerifier(store, ann)
	for range 2 {
		if err := v.Verify(t.Context(), digest.String()); err != nil {
			t.Fatal(Detail(err))
		}
	}

	if store.read != 1 {
		t.Errorf("got %d signatures read, want 1", store.read)
	}
	if diff := cmp.Diff(map[string][][]byte{digest.String(): {signature}}, v.Verified()); diff != "" {
		t.Errorf("verified (-want +got):\n%s", diff)
	}

	v.now = func() time.Time { return now.Add(3 * time.Hour) }
	if err := v.Verify(t.Context(), digest.String()); err == nil {
		t.Error("got no error for an expired signature that was verified before, want one")
	}
}

func TestVerifyForgets(t *testing.T) {
	ann := newTestSigner(t, "ann", now.AddDate(-1, 0, 0), 0)
	v := newVerifier(Memory{}, ann)
	for i := range maxVerifiedDigests + 5 {
		v.rememberVerified(Digest{"sha256", fmt.Sprintf("%064d", i)}, [][]byte{{1}})
	}

	verified := v.Verified()
	if _, ok := verified[fmt.Sprintf("sha256:%064d", 4)]; ok || len(verified) != maxVerifiedDigests {
		t.Errorf("got %d cached digests, including the oldest: %t; want %d without it", len(verified), ok, maxVerifiedDigests)
	}
}

func TestNoKeys(t *testing.T) {
	for name, v := range map[string]Verifier{"no keyring": newVerifier(Memory{}), "no key": NewSigstore(nil, nil), "rejecting": Reject{}, "none": All()} {
		if err := v.Verify(t.Context(), digest.String()); err == nil {
			t.Errorf("%s: got no error, want one", name)
		}
	}

	if err := All().Verify(t.Context(), digest.String()); !errors.Is(err, ErrNotPossible) || err.Error() != "verification is not possible" {
		t.Errorf("got %v", err)
	}
}

func TestAllMustVerify(t *testing.T) {
	ann, bob := newTestSigner(t, "ann", now.AddDate(-1, 0, 0), 0), newTestSigner(t, "bob", now.AddDate(-1, 0, 0), 0)
	store := Memory{digest.String(): {ann.sign(t, digest)}}
	if err := All(newVerifier(store, ann), newVerifier(store, ann)).Verify(t.Context(), digest.String()); err != nil {
		t.Error(Detail(err))
	}

	err := All(newVerifier(store, ann), newVerifier(store, bob), Reject{}).Verify(t.Context(), digest.String())
	want := "unable to verify " + digest.String() + " against keyrings: bob\nverification is not possible"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if detail := Detail(fmt.Errorf("the update: %w", err)); !strings.Contains(detail, "not in the keyring") || !strings.HasSuffix(detail, "verification is not possible") {
		t.Errorf("got detail %s, want the causes of the error", detail)
	}
}

func TestVerifyCanceled(t *testing.T) {
	ann := newTestSigner(t, "ann", now.AddDate(-1, 0, 0), 0)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	err := newVerifier(Parallel(Memory{}), ann).Verify(ctx, digest.String())
	if err == nil || !strings.Contains(Detail(err), "was canceled: enough") {
		t.Errorf("got %v", err)
	}
}

// The statement and keyring were created by gpg.
func TestVerifyWhatGPGSigned(t *testing.T) {
	data, err := os.ReadFile("testdata/gpg/keyring.asc")
	if err != nil {
		t.Fatal(err)
	}

	message, err := os.ReadFile("testdata/gpg/signature")
	if err != nil {
		t.Fatal(err)
	}

	keyring, err := pgp.ParseKeyring("gpg", data)
	if err != nil {
		t.Fatal(err)
	}

	const signed = "sha256:a4d451ec23463726f72c43d64c710968f6b602cd653b4de8adee1b556240a829"
	v := NewStatements([]pgp.Keyring{keyring}, Memory{signed: {message}})
	if err := v.Verify(t.Context(), signed); err != nil {
		t.Error(Detail(err))
	}
}

func TestKeyrings(t *testing.T) {
	ann, bob := newTestSigner(t, "ann", now.AddDate(-1, 0, 0), 0), newTestSigner(t, "bob", now.AddDate(-1, 0, 0), 0)
	both := exportArmoredKey(t, ann) + "\n" + exportArmoredKey(t, bob)
	keyring, err := pgp.ParseKeyring("both", []byte(both))
	if err != nil {
		t.Fatal(err)
	}

	for _, p := range []testSigner{ann, bob} {
		if _, err := keyring.OpenMessage(p.sign(t, digest), now); err != nil {
			t.Error(err)
		}
	}

	for name, data := range map[string]string{
		"empty": "", "text": "no key", "cut": both[:len(both)/4], "large": strings.Repeat("x", 1<<20+1),
		"a message": "-----BEGIN PGP MESSAGE-----\n\naGVsbG8=\n-----END PGP MESSAGE-----\n",
	} {
		if _, err := pgp.ParseKeyring("ours", []byte(data)); err == nil || !strings.HasPrefix(err.Error(), "the keyring ours cannot be read: ") {
			t.Errorf("%s: got error %v, want one with \"the keyring ours cannot be read:\"", name, err)
		}
	}
}

func exportArmoredKey(t testing.TB, p testSigner) string {
	t.Helper()
	var text bytes.Buffer
	writer, err := armorEncode(&text, openpgp.PublicKeyType)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(p.entity.Serialize(writer), writer.Close()); err != nil {
		t.Fatal(err)
	}

	return text.String()
}
