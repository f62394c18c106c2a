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

// maxInitFile is how large an icon or a description may be, in bytes: each ends up in one
// blob of a catalog, with a third more for an icon.
const maxInitFile = 4 << 20

// InitPackage starts a package of a file-based catalog.
type InitPackage struct {
	// Name of the package.
	Name string
	// DefaultChannel of the package. It may be empty.
	DefaultChannel string
	// IconFile is a picture, of any type that browsers show, and DescriptionFile a text in
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
		if pkg.Description, err = readDescription(f); err != nil {
			return nil, err
		}
	}

	if a.IconFile != "" {
		f, err := os.Open(a.IconFile)
		if err != nil {
			return nil, fmt.Errorf("open icon file: %w", err)
		}
		defer func() { _ = f.Close() }() // it was only read
		if pkg.Icon, err = readIcon(f); err != nil {
			return nil, err
		}
	}

	return pkg, nil
}

func readDescription(from io.Reader) (string, error) {
	text, err := readAll(from, maxInitFile)
	if err == nil && !utf8.Valid(text) {
		err = errors.New("it is no UTF-8 text")
	}
	if err != nil {
		return "", fmt.Errorf("read description: %w", err)
	}
	return string(text), nil
}

func readIcon(from io.Reader) (*fbc.Icon, error) {
	data, err := readAll(from, maxInitFile)
	if err != nil {
		return nil, fmt.Errorf("read icon: %w", err)
	}
	if len(data) == 0 {
		return nil, errors.New("detect icon mediatype: Empty buffer")
	}

	mediaType := http.DetectContentType(data)
	if isSVG(data) {
		mediaType = "image/svg+xml"
	}
	if !strings.HasPrefix(mediaType, "image/") {
		return nil, fmt.Errorf("detected invalid type %q: not an image", mediaType)
	}

	return &fbc.Icon{Data: data, MediaType: mediaType}, nil
}

// isSVG reports whether a text is XML whose outermost element is svg. Browsers' rules, which
// the library follows, do not look into XML.
func isSVG(data []byte) bool {
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
