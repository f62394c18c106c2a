package csvinfo

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/big"
	"strconv"
)

// Hash returns the hash that labels contain to detect changes of an object: SHA-224 of its JSON
// and a newline, in base 62. It has at most 38 characters.
func Hash(v any) (string, error) {
	var encoded bytes.Buffer
	if err := json.NewEncoder(&encoded).Encode(v); err != nil {
		return "", fmt.Errorf("computing a hash: %w", err)
	}
	return hashToBase62(encoded.Bytes()), nil
}

// PlainHash is Hash without the newline, as used by LabelPermissionsHash.
func PlainHash(v any) (string, error) {
	encoded, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("computing a hash: %w", err)
	}
	return hashToBase62(encoded), nil
}

// TextHash returns the hash of a text, without quotes.
func TextHash(text string) string { return hashToBase62([]byte(text)) }

func hashToBase62(data []byte) string {
	sum := sha256.Sum224(data)
	return new(big.Int).SetBytes(sum[:]).Text(62)
}

// AlongsideKey returns the annotation key of a CRD that was installed with a CSV.
func AlongsideKey(namespace, name string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(namespace + "/" + name)) // a hash takes everything
	return AnnotationInstalledAlongside + strconv.FormatUint(h.Sum64(), 16)
}
