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

// Hash is the hash by which labels compare what an object was made of: SHA-224 over its JSON and a
// newline, written in base 62. It has at most 38 characters.
func Hash(v any) (string, error) {
	var encoded bytes.Buffer
	if err := json.NewEncoder(&encoded).Encode(v); err != nil {
		return "", fmt.Errorf("computing a hash: %w", err)
	}
	return hash62(encoded.Bytes()), nil
}

// PlainHash is Hash without the newline, as the label LabelPermissionsHash has it.
func PlainHash(v any) (string, error) {
	encoded, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("computing a hash: %w", err)
	}
	return hash62(encoded), nil
}

// TextHash is the hash of a text, without quotes.
func TextHash(text string) string { return hash62([]byte(text)) }

func hash62(data []byte) string {
	sum := sha256.Sum224(data)
	return new(big.Int).SetBytes(sum[:]).Text(62)
}

// AlongsideKey is the annotation of a CRD that was installed with a ClusterServiceVersion.
func AlongsideKey(namespace, name string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(namespace + "/" + name)) // a hash takes everything
	return AnnotationInstalledAlongside + strconv.FormatUint(h.Sum64(), 16)
}
