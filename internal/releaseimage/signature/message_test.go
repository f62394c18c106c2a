package signature

import (
	"bytes"
	"crypto"
	"crypto/rsa"
	"crypto/sha1"
	"encoding/binary"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

// messagePart is one signature of a message.
type messagePart struct {
	by       testSigner
	hash     crypto.Hash
	made     time.Time
	lifetime uint32 // in seconds; 0 is the lifetime of the key
	spoiled  bool   // the signature is of another content
}

// newRSASigner returns a signer with an RSA key of a size.
func newRSASigner(t *testing.T, name string, bits int) testSigner {
	t.Helper()
	made := now.AddDate(-1, 0, 0)
	return newTestSignerOf(t, name, packet.Config{Algorithm: packet.PubKeyAlgoRSA, RSABits: bits, Time: func() time.Time { return made }})
}

// newSignedMessage returns a message with the signatures, in this order. Signatures that are not
// announced precede the content, as old programs write them.
func newSignedMessage(t *testing.T, content string, announced bool, parts ...messagePart) []byte {
	t.Helper()
	var head, tail bytes.Buffer
	for i, p := range parts {
		made := newSignaturePacket(t, content, p)
		if !announced {
			if err := made.Serialize(&head); err != nil {
				t.Fatal(err)
			}
			continue
		}

		if err := made.Serialize(&tail); err != nil {
			t.Fatal(err)
		}

		// They are announced in the opposite order.
		p = parts[len(parts)-1-i]
		announcement := &packet.OnePassSignature{
			Version: 3, SigType: packet.SigTypeBinary, Hash: p.hash, PubKeyAlgo: p.by.entity.PrivateKey.PubKeyAlgo,
			KeyId: p.by.entity.PrivateKey.KeyId, IsLast: i == len(parts)-1,
		}
		if err := announcement.Serialize(&head); err != nil {
			t.Fatal(err)
		}
	}

	return slices.Concat(head.Bytes(), newUnsignedMessage(t, content), tail.Bytes())
}

func newSignaturePacket(t *testing.T, content string, p messagePart) *packet.Signature {
	t.Helper()
	if p.hash == crypto.SHA1 {
		return newSHA1SignaturePacket(t, content, p)
	}

	key := p.by.entity.PrivateKey
	made := &packet.Signature{
		Version: 4, SigType: packet.SigTypeBinary, PubKeyAlgo: key.PubKeyAlgo, Hash: p.hash,
		CreationTime: p.made, IssuerKeyId: &key.KeyId, IssuerFingerprint: key.Fingerprint,
	}
	if p.lifetime > 0 {
		made.SigLifetimeSecs = &p.lifetime
	}

	hash := p.hash.New()
	if p.spoiled {
		content += " "
	}

	_, _ = hash.Write([]byte(content)) // A hash never fails.
	if err := made.Sign(hash, key, nil); err != nil {
		t.Fatal(err)
	}

	return made
}

// newSHA1SignaturePacket returns an RSA signature with SHA-1, which the library refuses to
// create. Its layout is that of RFC 4880, section 5.2.3.
func newSHA1SignaturePacket(t *testing.T, content string, p messagePart) *packet.Signature {
	t.Helper()
	key := p.by.entity.PrivateKey
	private, ok := key.PrivateKey.(*rsa.PrivateKey)
	if !ok {
		t.Fatalf("got a key of type %T, want RSA", key.PrivateKey)
	}

	hashed := []byte{4, byte(packet.SigTypeBinary), byte(packet.PubKeyAlgoRSA), 2, 0, 6, 5, 2}
	hashed = binary.BigEndian.AppendUint32(hashed, uint32(p.made.Unix()))
	trailer := binary.BigEndian.AppendUint32([]byte{4, 0xff}, uint32(len(hashed)))
	sum := sha1.Sum(slices.Concat([]byte(content), hashed, trailer))
	number, err := rsa.SignPKCS1v15(nil, private, crypto.SHA1, sum[:])
	if err != nil {
		t.Fatal(err)
	}

	number = bytes.TrimLeft(number, "\x00")

	body := slices.Concat(hashed, []byte{0, 10, 9, 16})
	body = binary.BigEndian.AppendUint64(body, key.KeyId)
	body = append(body, sum[0], sum[1])
	body = binary.BigEndian.AppendUint16(body, uint16(new(big.Int).SetBytes(number).BitLen()))
	body = append(body, number...)
	head := binary.BigEndian.AppendUint32([]byte{0xc0 | 2, 0xff}, uint32(len(body)))
	read, err := packet.Read(bytes.NewReader(append(head, body...)))
	if err != nil {
		t.Fatal(err)
	}

	made, ok := read.(*packet.Signature)
	if !ok {
		t.Fatalf("got a %T, want a signature", read)
	}

	return made
}

// One valid signature of a message is sufficient, in any order. Forgeable signatures do not
// count.
func TestMessages(t *testing.T) {
	ann := newTestSigner(t, "ann", now.AddDate(-1, 0, 0), 0)
	eve := newTestSigner(t, "eve", now.AddDate(-1, 0, 0), 0)
	weak, strong := newRSASigner(t, "weak", 1024), newRSASigner(t, "strong", 2048)
	yesterday := now.AddDate(0, 0, -1)
	by := func(p testSigner) messagePart { return messagePart{by: p, hash: crypto.SHA256, made: yesterday} }
	sha1, expired, spoiled := by(strong), by(ann), by(ann)
	sha1.hash, expired.lifetime, spoiled.spoiled = crypto.SHA1, 60, true

	tests := map[string]struct {
		keyring testSigner
		parts   []messagePart
		err     []string // parts of the error; empty if the message is accepted
	}{
		"RSA with 2048 bits":           {keyring: strong, parts: []messagePart{by(strong)}},
		"RSA with 1024 bits":           {keyring: weak, parts: []messagePart{by(weak)}, err: []string{"has 1024 bits: keys with less than 2048 bits are not accepted"}},
		"SHA-1":                        {keyring: strong, parts: []messagePart{sha1}, err: []string{"is made with SHA-1, which is broken"}},
		"SHA-1, and by the same SHA-2": {keyring: strong, parts: []messagePart{sha1, by(strong)}},
		"SHA-2, and by the same SHA-1": {keyring: strong, parts: []messagePart{by(strong), sha1}},
		"another key, and ours":        {keyring: ann, parts: []messagePart{by(eve), by(ann)}},
		"ours, and another key":        {keyring: ann, parts: []messagePart{by(ann), by(eve)}},
		"expired, and good":            {keyring: ann, parts: []messagePart{expired, by(ann)}},
		"good, and expired":            {keyring: ann, parts: []messagePart{by(ann), expired}},
		"bad, and good":                {keyring: ann, parts: []messagePart{spoiled, by(ann)}},
		"good, and bad":                {keyring: ann, parts: []messagePart{by(ann), spoiled}},
		"another key, and expired": {keyring: ann, parts: []messagePart{by(eve), expired}, err: []string{
			"none of its 2 signatures is valid: ", "which is not in the keyring; ", "signature expired on 2030-05-31T12:01:00Z",
		}},
		"bad, and another key": {keyring: ann, parts: []messagePart{spoiled, by(eve)}, err: []string{"none of its 2 signatures is valid: the signature is invalid"}},
		"too many signatures":  {keyring: ann, parts: slices.Repeat([]messagePart{by(ann)}, 17), err: []string{"more than the 16 signatures"}},
	}

	for name, test := range tests {
		for order, announced := range map[string]bool{"signatures last": true, "signatures first": false} {
			t.Run(name+", "+order, func(t *testing.T) {
				content := statementJSON(typeAtomic, digest.String(), "r", "")
				got, err := test.keyring.keyring.OpenMessage(newSignedMessage(t, content, announced, test.parts...), now)
				if test.err == nil {
					if err != nil || string(got) != content {
						t.Fatalf("got %q (%v), want the content", got, err)
					}
					return
				}

				if err == nil {
					t.Fatalf("got %q, want an error", got)
				}

				for _, want := range test.err {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("got error %q, want %q", err, want)
					}
				}
			})
		}
	}
}

// A message with two contents is rejected, because only one of them is signed.
func TestMessageWithTwoContents(t *testing.T) {
	ann := newTestSigner(t, "ann", now.AddDate(-1, 0, 0), 0)
	signed := ann.sign(t, digest)
	for name, data := range map[string][]byte{
		"before": slices.Concat(newUnsignedMessage(t, "other"), signed), "after": slices.Concat(signed, newUnsignedMessage(t, "other")),
	} {
		if got, err := ann.keyring.OpenMessage(data, now); err == nil || !strings.Contains(err.Error(), "two contents") {
			t.Errorf("%s: got %q (%v), want an error about two contents", name, got, err)
		}
	}
}

// A compressed message is decompressed up to a limit.
func TestCompressedMessage(t *testing.T) {
	ann := newTestSigner(t, "ann", now.AddDate(-1, 0, 0), 0)
	if _, err := ann.keyring.OpenMessage(compressMessage(t, ann.sign(t, digest)), now); err != nil {
		t.Errorf("a compressed message: got error %v, want none", err)
	}

	// 8 MiB of an unknown packet, compressed twice to less than MaxSignatureBytes.
	unknown := append([]byte{0xc0 | 60, 0xff, 0x00, 0x80, 0, 0}, make([]byte, 8<<20)...)
	bomb := compressMessage(t, compressMessage(t, append(unknown, ann.sign(t, digest)...)))
	if len(bomb) > MaxSignatureBytes {
		t.Fatalf("the bomb has %d bytes, want less than %d", len(bomb), MaxSignatureBytes)
	}
	if _, err := ann.keyring.OpenMessage(bomb, now); err == nil {
		t.Error("got no error for a message that decompresses to 8 MiB")
	}
}

func compressMessage(t *testing.T, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	writer, err := packet.SerializeCompressed(nopCloser{&out}, packet.CompressionZLIB, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := writer.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}

	return out.Bytes()
}

// A key that is too weak for verification cannot sign.
func TestWeakKeySignsNothing(t *testing.T) {
	weak := newRSASigner(t, "weak", 1024)
	_, err := (&Signer{weak.entity}).Sign(digest, SignOptions{Reference: "r", Time: now})
	if err == nil || !strings.Contains(err.Error(), "the key cannot sign: ") {
		t.Errorf("got %v, want an error about the key", err)
	}
}
