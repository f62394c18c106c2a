package fbc

import (
	"encoding/json"
	"testing"

	"github.com/mainstay-dev/mainstay/internal/fbc/jsontext"
)

var csvMetadataTexts = []string{
	`{}`, `null`, `[]`, `""`, `1`, `true`,
	`{"annotations":{"a":"b","c":null}}`, `{"annotations":{"a":1}}`, `{"annotations":[]}`, `{"annotations":null}`,
	`{"displayName":"A","installModes":[{"type":"AllNamespaces","supported":true},{"type":"OwnNamespace","supported":false}]}`,
	`{"installModes":[{"type":"AllNamespaces","supported":"true"}]}`, `{"installModes":{}}`, `{"installModes":[null]}`, `{"installModes":[[]]}`,
	`{"apiServiceDefinitions":{"owned":[{"containerPort":443,"name":"a","description":"b","resources":[{"name":"x"}]}]}}`,
	`{"apiServiceDefinitions":{"owned":[{"containerPort":4.5}]}}`, `{"apiServiceDefinitions":{"owned":[{"containerPort":1e2}]}}`,
	`{"apiServiceDefinitions":{"owned":[{"containerPort":99999999999}]}}`, `{"apiServiceDefinitions":{"owned":[{"containerPort":"443"}]}}`, `{"apiServiceDefinitions":{"owned":[{"containerPort":-0}]}}`,
	`{"crdDescriptions":{"owned":[{"name":"a","specDescriptors":[{"path":"p","x-descriptors":["u"],"value":{"any":[1]}}]}],"required":null}}`,
	`{"crdDescriptions":{"owned":[{"containerPort":"no field of a CRD"}]}}`, `{"crdDescriptions":{"owned":[{"specDescriptors":[{"x-descriptors":"u"}]}]}}`,
	`{"DISPLAYNAME":"A"}`, `{"DISPLAYNAME":1}`, `{"di\u0073playName":1}`, `{"di\u0073playName":"A"}`, `{"\u212aeywords":1}`, `{"\u212aeywords":["a"]}`, `{"keyword\u017f":1}`,
	`{"keywords":["a",null,"b"]}`, `{"keywords":["a",1]}`, `{"nativeAPIs":[{"group":"g","kind":"k","version":"v"}]}`, `{"nativeAPIs":[{"group":1}]}`,
	`{"provider":{"name":"a","url":"b","other":[{}]}}`, `{"provider":[]}`, `{"minKubeVersion":1.2}`, `{"links":[{"url":1}]}`, `{"maintainers":[{"email":"x"}],"labels":{"a":"b"}}`,
	`{"description":"a","description":1}`, `{"description":"a\"b\\"}`,
}

// FuzzShape compares with encoding/json: a value has a shape if it can be unmarshaled into the
// type.
func FuzzShape(f *testing.F) {
	for _, seed := range csvMetadataTexts {
		f.Add([]byte(seed))
	}

	f.Fuzz(func(t *testing.T, text []byte) {
		value, n, err := jsontext.Compact(nil, text, 100)
		if err != nil || n != len(text) {
			return
		}

		c := jsontext.Cursor{Text: value}
		fits := csvMetadataShape().scanMatchingValue(&c)
		if want := json.Unmarshal(value, &csvMetadata{}); fits != (want == nil) {
			t.Errorf("%s: got fits %v, want %v as from encoding/json", value, fits, want)
		}
		if fits && len(c.Value()) > 0 {
			t.Errorf("%s: got a cursor before the end, want it at the end", value)
		}
	})
}

// FuzzProperty compares reading a property of a bundle with encoding/json.
func FuzzProperty(f *testing.F) {
	for _, seed := range []string{
		`{"packageName":"p","version":"1.0.0","release":"1"}`, `{"packageName":1}`, `{"PackageName":"p"}`, `{"packageName":null}`, `[]`, `"x"`, `{"group":"g","version":"v","kind":"k"}`,
		`{"group":"g","GROUP":"h","kind":"k","version":"v"}`, `{"data":"aGk="}`, `{"data":"a\u0047k="}`, `{"data":"%"}`, `{"data":null}`, `{"data":"","x":1}`, `{"Data":"e30="}`, `{"data":1}`, `{}`,
	} {
		f.Add([]byte(seed))
	}

	f.Fuzz(func(t *testing.T, text []byte) {
		value, n, err := jsontext.Compact(nil, text, 100)
		if err != nil || n != len(text) {
			return
		}

		var stated, want PackageProperty
		gotErr, wantErr := readStringFields(packagePropertyShape(), value, &stated, &stated.PackageName, &stated.Version, &stated.Release), json.Unmarshal(value, &want)
		if (gotErr == nil) != (wantErr == nil) || wantErr == nil && stated != want {
			t.Errorf("%s: got %+v (%v), want %+v (%v)", value, stated, gotErr, want, wantErr)
		}

		var object bundleObject
		data, gotErr := appendObjectData(nil, value)
		if wantErr := json.Unmarshal(value, &object); (gotErr == nil) != (wantErr == nil) || wantErr == nil && string(data) != string(object.Data) {
			t.Errorf("%s: got %q (%v), want %q (%v)", value, data, gotErr, object.Data, wantErr)
		}

		// Reading any value does not panic.
		for _, typ := range []string{PropertyPackage, PropertyGVK, PropertyGVKRequired, PropertyPackageRequired, PropertyBundleObject, PropertyCSVMetadata, "other"} {
			s := Summary{bundle: &bundleSummary{}}
			s.readBundleProperty(0, Property{Type: typ, Value: value})
		}
	})
}
