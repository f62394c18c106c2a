package pgp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	pgperrors "github.com/ProtonMail/go-crypto/openpgp/errors"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

const (
	// maxMessageSignatures is the maximum number of signatures in a message.
	maxMessageSignatures = 16
	// maxDecompressedBytes is the maximum decompressed size of a message: the content, and the
	// same size for the signatures.
	maxDecompressedBytes = 2 * MaxMessageBytes
	// minKeyBits is the minimum size of RSA and DSA keys.
	minKeyBits = 2048
)

// message is a signed OpenPGP message.
type message struct {
	content    []byte
	signatures []*packet.Signature
}

// OpenMessage returns the content of a message that a key of the keyring signed. One valid
// signature is sufficient, at any position. Signatures with SHA-1 and similar hashes, and those
// by RSA and DSA keys of less than 2048 bits, are invalid.
func (k Keyring) OpenMessage(data []byte, now time.Time) ([]byte, error) {
	m, err := readMessage(data)
	if err != nil {
		return nil, err
	}

	var refused []string
	for _, s := range m.signatures {
		err := k.verifySignature(m.content, s, now)
		if err == nil {
			return m.content, nil
		}
		refused = append(refused, err.Error())
	}

	if len(refused) == 1 {
		return nil, errors.New(refused[0])
	}

	return nil, fmt.Errorf("none of its %d signatures is valid: %s", len(refused), strings.Join(refused, "; "))
}

// readMessage parses the content of a message, and the signatures before and after it. It does
// not verify the signatures.
func readMessage(data []byte) (message, error) {
	var m message
	packets := packet.NewReader(bytes.NewReader(data))
	for {
		next, err := packets.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return message{}, fmt.Errorf("it is not a signed OpenPGP message: %w", err)
		}
		if err := m.addPacket(packets, next); err != nil {
			return message{}, err
		}
	}

	if m.content == nil || len(m.signatures) == 0 {
		return message{}, errors.New("it is not a signed OpenPGP message")
	}

	return m, nil
}

// addPacket adds the content or signature of a packet to the message. The packets of a compressed
// packet become the next ones of the reader.
func (m *message) addPacket(packets *packet.Reader, next packet.Packet) error {
	var err error
	switch p := next.(type) {
	case *packet.Compressed:
		if err := packets.Push(io.LimitReader(p.Body, maxDecompressedBytes)); err != nil {
			return fmt.Errorf("it is not a signed OpenPGP message: %w", err)
		}
	case *packet.LiteralData:
		if m.content != nil {
			return errors.New("it is not a signed OpenPGP message: it has two contents")
		}
		m.content, err = readMessageContent(p.Body)
	case *packet.OnePassSignature: // It announces a signature that follows the content.
	case *packet.Signature:
		if m.signatures = append(m.signatures, p); len(m.signatures) > maxMessageSignatures {
			return fmt.Errorf("the message has more than the %d signatures that it may have", maxMessageSignatures)
		}
	default:
		return errors.New("it is not a signed OpenPGP message")
	}

	return err
}

func readMessageContent(body io.Reader) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(body, MaxMessageBytes+1))
	if err != nil {
		return nil, fmt.Errorf("the message cannot be read: %w", err)
	}
	if len(content) > MaxMessageBytes {
		return nil, fmt.Errorf("the message holds more than the %d bytes that it may have", MaxMessageBytes)
	}
	return content, nil
}

// verifySignature returns an error unless a strong key of the keyring made the signature with a
// strong hash, and both are still valid.
func (k Keyring) verifySignature(content []byte, s *packet.Signature, now time.Time) error {
	if s.IssuerKeyId == nil {
		return errors.New("the signature does not name the key that made it")
	}

	signers := k.keys.KeysByIdUsage(*s.IssuerKeyId, packet.KeyFlagSign)
	if len(signers) == 0 {
		return fmt.Errorf("it was made by the key %016X, which is not in the keyring", *s.IssuerKeyId)
	}

	config := &packet.Config{Time: func() time.Time { return now }}
	if config.RejectMessageHashAlgorithm(s.Hash) {
		return fmt.Errorf("the signature is made with %s, which is broken: sign with SHA-256 or SHA-512", s.Hash)
	}

	for _, signer := range signers {
		if err := CheckKeyStrength(signer.PublicKey); err != nil {
			return err
		}
	}

	var alone bytes.Buffer
	if err := s.Serialize(&alone); err != nil {
		return fmt.Errorf("the signature cannot be read: %w", err)
	}
	if _, _, err := openpgp.VerifyDetachedSignature(k.keys, bytes.NewReader(content), &alone, config); err != nil {
		return explainSignatureError(err, s, now)
	}

	return nil
}

// CheckKeyStrength returns an error if a key is too short to be secure.
func CheckKeyStrength(key *packet.PublicKey) error {
	switch key.PubKeyAlgo {
	case packet.PubKeyAlgoRSA, packet.PubKeyAlgoRSASignOnly, packet.PubKeyAlgoDSA:
		bits, err := key.BitLength()
		if err != nil {
			return fmt.Errorf("the key %016X has no size: %w", key.KeyId, err)
		}
		if bits < minKeyBits {
			return fmt.Errorf("the key %016X has %d bits: keys with less than %d bits are not accepted", key.KeyId, bits, minKeyBits)
		}
	}

	return nil
}

// explainSignatureError adds the time at which the signature expired or becomes valid, if that
// is the error.
func explainSignatureError(err error, s *packet.Signature, now time.Time) error {
	if !errors.Is(err, pgperrors.ErrSignatureExpired) {
		return fmt.Errorf("the signature is invalid: %w", err)
	}
	if s.CreationTime.After(now) {
		return fmt.Errorf("signature made on %s, which is in the future", s.CreationTime.UTC().Format(time.RFC3339))
	}
	if s.SigLifetimeSecs == nil || *s.SigLifetimeSecs == 0 {
		return fmt.Errorf("the self-signature of the key is invalid: %w", err)
	}

	expired := s.CreationTime.Add(time.Duration(*s.SigLifetimeSecs) * time.Second)
	return fmt.Errorf("signature expired on %s", expired.UTC().Format(time.RFC3339))
}
