package worker

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// tlsProfile is the minimum TLS version and the ciphers of the cluster's servers. Ciphers have
// IANA names.
type tlsProfile struct {
	MinVersion string
	Ciphers    []string
}

// The ciphers of the profiles that Mozilla recommends for servers, without those that Go does
// not support.
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

// parseTLSProfile returns the profile of an APIServer's spec.tlsSecurityProfile. The default is
// the intermediate profile.
func parseTLSProfile(spec map[string]any) *tlsProfile {
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
			if iana, ok := cipherIANAName(name); ok {
				ciphers = append(ciphers, iana)
			}
		}
		return &tlsProfile{MinVersion: cmp.Or(version, "VersionTLS12"), Ciphers: ciphers}
	default:
		return &tlsProfile{MinVersion: "VersionTLS12", Ciphers: intermediateCiphers}
	}
}

// irregularOpenSSLNames maps OpenSSL names that follow no rule to IANA names.
var irregularOpenSSLNames = map[string]string{
	"DES-CBC3-SHA":                  "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
	"ECDHE-RSA-DES-CBC3-SHA":        "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
	"ECDHE-ECDSA-CHACHA20-POLY1305": "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
	"ECDHE-RSA-CHACHA20-POLY1305":   "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
}

// cipherIANAName returns the IANA name of a cipher, given its IANA or OpenSSL name. It returns
// false if Go does not support the cipher.
func cipherIANAName(name string) (string, bool) {
	if special, ok := irregularOpenSSLNames[name]; ok {
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
