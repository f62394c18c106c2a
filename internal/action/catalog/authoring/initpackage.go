package authoring

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// maxInitFileBytes limits the size of an icon or a description. Each becomes part of one
// blob of a catalog. The encoding of an icon adds a third.
const maxInitFileBytes = 4 << 20

// InitPackage returns the first blob of a new package for a file-based catalog.
type InitPackage struct {
	// Name is the name of the package.
	Name string
	// DefaultChannel is the default channel. It may be empty.
	DefaultChannel string
	// IconFile is an image of a type that browsers support. DescriptionFile is a text in
	// Markdown. Either may be empty.
	IconFile, DescriptionFile string
}

// Run returns the package's olm.package blob.
func (a *InitPackage) Run(ctx context.Context) (*fbc.Package, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}

	pkg := &fbc.Package{Schema: fbc.SchemaPackage, Name: a.Name, DefaultChannel: a.DefaultChannel}
	if a.DescriptionFile != "" {
		f, err := os.Open(a.DescriptionFile)
		if err != nil {
			return nil, fmt.Errorf("open description file: %w", err)
		}
		defer func() { _ = f.Close() }() // it was only read
		if pkg.Description, err = readPackageDescription(f); err != nil {
			return nil, err
		}
	}

	if a.IconFile != "" {
		f, err := os.Open(a.IconFile)
		if err != nil {
			return nil, fmt.Errorf("open icon file: %w", err)
		}
		defer func() { _ = f.Close() }() // it was only read
		if pkg.Icon, err = readPackageIcon(f); err != nil {
			return nil, err
		}
	}

	return pkg, nil
}

func readPackageDescription(from io.Reader) (string, error) {
	text, err := readAllLimited(from, maxInitFileBytes)
	if err == nil && !utf8.Valid(text) {
		err = errors.New("it is not UTF-8 text")
	}
	if err != nil {
		return "", fmt.Errorf("read description: %w", err)
	}
	return string(text), nil
}

func readPackageIcon(from io.Reader) (*fbc.Icon, error) {
	data, err := readAllLimited(from, maxInitFileBytes)
	if err != nil {
		return nil, fmt.Errorf("read icon: %w", err)
	}
	if len(data) == 0 {
		return nil, errors.New("detect icon mediatype: Empty buffer")
	}

	mediaType := http.DetectContentType(data)
	if isSVGDocument(data) {
		mediaType = "image/svg+xml"
	}
	if !strings.HasPrefix(mediaType, "image/") {
		return nil, fmt.Errorf("detected invalid type %q: not an image", mediaType)
	}

	return &fbc.Icon{Data: data, MediaType: mediaType}, nil
}

// isSVGDocument reports whether a text is XML with the root element svg.
// http.DetectContentType does not inspect XML.
func isSVGDocument(data []byte) bool {
	decoder := xml.NewDecoder(bytes.NewReader(data))
	decoder.Strict = false
	decoder.CharsetReader = func(_ string, input io.Reader) (io.Reader, error) { return input, nil }
	for {
		token, err := decoder.RawToken()
		if err != nil {
			return false
		}
		switch token := token.(type) {
		case xml.StartElement:
			return token.Name.Local == "svg"
		case xml.CharData:
			if len(bytes.TrimSpace(bytes.TrimPrefix(token, []byte("\ufeff")))) > 0 {
				return false
			}
		}
	}
}
