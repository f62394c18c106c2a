package hub

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"mime"
	"net/http"
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

// newIcon returns the name of the icon and the icon. The name is empty if the data are no image of an accepted type. The
// content decides, except that an image that is none of the other types must be declared as SVG and look like it.
func newIcon(declared string, data []byte) (string, Icon) {
	if len(data) == 0 || len(data) > maxIconBytes {
		return "", Icon{}
	}

	kind := http.DetectContentType(data)
	if _, isRaster := iconTypes[kind]; !isRaster {
		stated, _, err := mime.ParseMediaType(declared)
		if err != nil || stated != mediaTypeSVG || !bytes.Contains(data, []byte("<svg")) {
			return "", Icon{}
		}
		kind = mediaTypeSVG
	}

	digest := sha256.Sum256(data)
	return hex.EncodeToString(digest[:]) + iconTypes[kind], Icon{Type: kind, Data: data}
}
