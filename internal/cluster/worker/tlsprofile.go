package worker

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// tlsProfile is which TLS servers of the cluster speak. Ciphers have the names of IANA.
type tlsProfile struct {
	MinVersion string
	Ciphers    []string
}

// The profiles are those that Mozilla recommends for servers, without the ciphers that Go
// does not have.
var (
	modernCiphers = []string{"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}

	intermediateCiphers = slices.Concat(modernCiphers, []string{
		"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
		"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
		"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
	})

	oldCiphers = slices.Concat(intermediateCiphers, []string{
		"TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
		"TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
		"TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA", "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
		"TLS_RSA_WITH_AES_128_GCM_SHA256", "TLS_RSA_WITH_AES_256_GCM_SHA384", "TLS_RSA_WITH_AES_128_CBC_SHA256",
		"TLS_RSA_WITH_AES_128_CBC_SHA", "TLS_RSA_WITH_AES_256_CBC_SHA", "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
	})
)

// profileOf returns the profile that an APIServer's spec.tlsSecurityProfile names: the
// intermediate one when it names none.
func profileOf(spec map[string]any) *tlsProfile {
	switch kind, _, _ := unstructured.NestedString(spec, "type"); kind {
	case "Old":
		return &tlsProfile{MinVersion: "VersionTLS10", Ciphers: oldCiphers}
	case "Modern":
		return &tlsProfile{MinVersion: "VersionTLS13", Ciphers: modernCiphers}
	case "Custom":
		version, _, _ := unstructured.NestedString(spec, "custom", "minTLSVersion")
		names, _, _ := unstructured.NestedStringSlice(spec, "custom", "ciphers")
		var ciphers []string
		for _, name := range names {
			if iana, ok := ianaName(name); ok {
				ciphers = append(ciphers, iana)
			}
		}
		return &tlsProfile{MinVersion: cmp.Or(version, "VersionTLS12"), Ciphers: ciphers}
	default:
		return &tlsProfile{MinVersion: "VersionTLS12", Ciphers: intermediateCiphers}
	}
}

// openSSLNames are the ciphers whose OpenSSL names follow no rule.
var openSSLNames = map[string]string{
	"DES-CBC3-SHA":                  "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
	"ECDHE-RSA-DES-CBC3-SHA":        "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
	"ECDHE-ECDSA-CHACHA20-POLY1305": "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
	"ECDHE-RSA-CHACHA20-POLY1305":   "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
}

// ianaName returns the IANA name of a cipher that Go has, given that or the name that OpenSSL
// uses.
func ianaName(name string) (string, bool) {
	if special, ok := openSSLNames[name]; ok {
		return special, true
	}

	iana := name
	if !strings.HasPrefix(name, "TLS_") {
		exchange, cipher := "RSA", name
		for _, prefix := range []string{"ECDHE-ECDSA", "ECDHE-RSA"} {
			if rest, ok := strings.CutPrefix(name, prefix+"-"); ok {
				exchange, cipher = strings.ReplaceAll(prefix, "-", "_"), rest
			}
		}

		for _, size := range []string{"128", "256"} {
			cipher = strings.Replace(cipher, "AES"+size, "AES_"+size, 1)
		}

		if !strings.Contains(cipher, "GCM") {
			cipher = strings.Replace(cipher, "-SHA", "-CBC-SHA", 1)
		}

		iana = "TLS_" + exchange + "_WITH_" + strings.ReplaceAll(cipher, "-", "_")
	}

	return iana, slices.Contains(oldCiphers, iana)
}
