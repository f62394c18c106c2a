package hub

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
)

// Icon is an image of a package.
type Icon struct {
	// Type is the media type: one of few that browsers show as an image.
	Type string
	Data []byte
}

// maxIconBytes limits the size of an icon. Larger ones are left out. The icons of public catalogs have at most 400 kB.
const maxIconBytes = 1 << 20

// iconTypes are the accepted types of icons with the extension of their files.
var iconTypes = map[string]string{"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp", mediaTypeSVG: ".svg"}

const mediaTypeSVG = "image/svg+xml"

// NewIcon returns an icon of a declared media type. It returns false if the data are no image of an accepted type. The content
// decides, except that an image that is none of the other types must be declared as SVG and look like it.
func NewIcon(declared string, data []byte) (Icon, bool) {
	if len(data) == 0 || len(data) > maxIconBytes {
		return Icon{}, false
	}

	kind := http.DetectContentType(data)
	if _, isRaster := iconTypes[kind]; !isRaster {
		stated, _, err := mime.ParseMediaType(declared)
		if err != nil || stated != mediaTypeSVG || !bytes.Contains(data, []byte("<svg")) {
			return Icon{}, false
		}
		kind = mediaTypeSVG
	}
	return Icon{Type: kind, Data: data}, true
}

// FileName returns the name of the icon's file: the digest of its content, with the extension of its type.
func (i Icon) FileName() string {
	digest := sha256.Sum256(i.Data)
	return hex.EncodeToString(digest[:]) + iconTypes[i.Type]
}

// IsActive reports whether the icon is an SVG that could do something when it is opened as a page: one with scripts, event
// handlers, animations, other documents, links, or with content that cannot be checked.
func (i Icon) IsActive() bool {
	if i.Type != mediaTypeSVG {
		return false
	}

	decoder := xml.NewDecoder(bytes.NewReader(i.Data))
	for {
		token, err := decoder.RawToken()
		switch t := token.(type) {
		case nil:
			return !errors.Is(err, io.EOF)
		case xml.StartElement:
			if isActiveElement(t) {
				return true
			}
		case xml.ProcInst:
			if t.Target != "xml" {
				return true
			}
		case xml.Directive:
			if bytes.Contains(t, []byte("[")) { // entities
				return true
			}
		}
	}
}

const namespaceSVG = "http://www.w3.org/2000/svg"

// passiveElements are the elements that only draw.
var passiveElements = map[string]bool{
	"svg": true, "g": true, "defs": true, "symbol": true, "title": true, "desc": true, "metadata": true, "style": true, "path": true, "rect": true, "circle": true,
	"ellipse": true, "line": true, "polyline": true, "polygon": true, "text": true, "tspan": true, "use": true, "image": true, "switch": true, "linearGradient": true, "radialGradient": true,
	"stop": true, "clipPath": true, "mask": true, "pattern": true, "filter": true, "marker": true, "view": true,
}

func isActiveElement(element xml.StartElement) bool {
	isDrawing := element.Name.Space == "" || element.Name.Space == "svg"
	name := element.Name.Local
	if isDrawing && !passiveElements[name] && !strings.HasPrefix(name, "fe") {
		return true
	}
	if !isDrawing && (strings.EqualFold(name, "script") || element.Name.Space == "html" || element.Name.Space == "xhtml") {
		return true
	}

	for _, attribute := range element.Attr {
		key, value := strings.ToLower(attribute.Name.Local), strings.TrimSpace(attribute.Value)
		isNamespace := attribute.Name.Space == "xmlns" || attribute.Name.Space == "" && key == "xmlns"
		switch {
		case strings.HasPrefix(key, "on"):
			return true
		case isNamespace && strings.Contains(value, "xhtml"), attribute.Name.Space == "xmlns" && key != "svg" && value == namespaceSVG:
			return true // elements could hide behind another prefix
		case key == "href" && value != "" && !strings.HasPrefix(value, "#") && !isDataImage(value):
			return true
		}
	}
	return false
}

// isDataImage reports whether an address contains an image of a type that cannot be active.
func isDataImage(address string) bool {
	for kind := range iconTypes {
		if kind != mediaTypeSVG && strings.HasPrefix(address, "data:"+kind) {
			return true
		}
	}
	return false
}
