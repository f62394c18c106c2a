package config

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/mainstay-dev/mainstay/internal/excerpt"
)

// Permissions returns the mode of the file.
func (f *File) Permissions() int {
	if f.Mode == nil {
		return defaultMode
	}
	return *f.Mode
}

// Content returns the decompressed content of the file. It verifies the checksum if the configuration has one.
func (f *File) Content() ([]byte, error) {
	if f.Contents == nil || f.Contents.Source == nil || *f.Contents.Source == "" {
		return nil, nil
	}
	if len(f.Contents.HTTPHeaders) > 0 {
		return nil, fmt.Errorf("%s: contents.httpHeaders is not supported, because nothing is fetched", f.Path)
	}

	data, err := decodeDataURL(*f.Contents.Source)
	if err == nil {
		data, err = decompressContent(data, f.Contents.Compression)
	}
	if err == nil {
		err = verifyChecksum(data, f.Contents.Verification)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: contents: %w", f.Path, err)
	}

	return data, nil
}

// decodeDataURL returns the content of a data: URL (RFC 2397).
func decodeDataURL(source string) ([]byte, error) {
	rest, ok := strings.CutPrefix(source, "data:")
	if !ok {
		scheme, _, _ := strings.Cut(source, ":")
		return nil, fmt.Errorf("the source has the scheme %q; only data: is supported, because nothing is fetched", excerpt.Start(scheme, maxQuotedBytes))
	}

	header, body, ok := strings.Cut(rest, ",")
	if !ok {
		return nil, errors.New("the data: URL has no comma before its content")
	}

	text, err := url.PathUnescape(body)
	if err != nil {
		return nil, errors.New("the data: URL has a % without two hexadecimal digits")
	}
	if !strings.HasSuffix(header, ";base64") {
		return []byte(text), nil
	}

	encoding := base64.StdEncoding
	if len(text)%4 != 0 {
		encoding = base64.RawStdEncoding
	}

	data, err := encoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("the data: URL: %w", err)
	}

	return data, nil
}

// decompressContent decompresses content, up to the maximum size of a file.
func decompressContent(data []byte, compression *string) ([]byte, error) {
	switch {
	case compression == nil || *compression == "":
	case *compression == "gzip":
		reader, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil, fmt.Errorf("unpacking gzip: %w", err)
		}
		data, err = io.ReadAll(io.LimitReader(reader, maxFileBytes+1))
		if err != nil {
			return nil, fmt.Errorf("unpacking gzip: %w", err)
		}
	default:
		return nil, fmt.Errorf("compression %q is unknown; gzip is supported", excerpt.Start(*compression, maxQuotedBytes))
	}

	if len(data) > maxFileBytes {
		return nil, fmt.Errorf("the file has more than %d bytes", maxFileBytes)
	}
	return data, nil
}

// verifyChecksum compares content with the checksum in the configuration, if there is one.
func verifyChecksum(data []byte, verification map[string]any) error {
	for name := range verification {
		if name != "hash" {
			return fmt.Errorf("verification has the unknown field %q", excerpt.Start(name, maxQuotedBytes))
		}
	}

	value, ok := verification["hash"]
	if !ok || value == nil {
		return nil
	}

	text, _ := value.(string)
	algorithm, want, _ := strings.Cut(text, "-")
	var got string
	switch algorithm {
	case "sha256":
		sum := sha256.Sum256(data)
		got = hex.EncodeToString(sum[:])
	case "sha512":
		sum := sha512.Sum512(data)
		got = hex.EncodeToString(sum[:])
	default:
		return fmt.Errorf("verification.hash %q is neither sha256- nor sha512- with a checksum", excerpt.Start(text, maxQuotedBytes))
	}

	if !strings.EqualFold(got, want) {
		return fmt.Errorf("the content does not have the checksum of verification.hash: it is %s-%s", algorithm, got)
	}

	return nil
}
