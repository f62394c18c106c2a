package fbc_test

import (
	"bytes"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// yieldMetas yields blobs.
func yieldMetas(metas []fbc.Meta) iter.Seq2[fbc.Meta, error] {
	return func(yield func(fbc.Meta, error) bool) {
		for _, meta := range metas {
			if !yield(meta, nil) {
				return
			}
		}
	}
}

// FuzzValidate searches for catalogs that break the validation, and for catalogs whose result
// depends on the order of the blobs or the way of reading them.
func FuzzValidate(f *testing.F) {
	for _, blobs := range [][]string{
		withValidCatalog(deprecationsBlob(deprecationJSON("olm.package", "", "m"), deprecationJSON("olm.bundle", "foo.v1.0.0", ""))),
		{foo, stableChannel("foo.v1.0.0", "foo.v1.1.0"), channelBlob("beta", entryJSON("foo.v1.1.0", `"skips":["foo.v1.0.0"]`, `"skipRange":"<1.1.0"`)), bundleOfVersion("1.0.0"), bundleOfVersion("1.1.0")},
		{foo, foo, stableChannel("a"), stableChannel("a"), bundleOfVersion("1"), bundleOfVersion("1"), deprecationsBlob(), deprecationsBlob()},
		catalogOfOneBundle(stated1 + `,{"type":"olm.csv.metadata","value":{"keywords":["a"]}},{"type":"olm.bundle.object","value":{"data":"a2luZDogQ2x1c3RlclNlcnZpY2VWZXJzaW9u"}}`),
		{`{"schema":"olm.bundle"}`, `{"schema":"olm.channel"}`, `{"schema":"olm.package"}`, `{"schema":"olm.deprecations"}`},
	} {
		f.Add([]byte(strings.Join(blobs, "\n")), 1)
	}

	f.Fuzz(func(t *testing.T, text []byte, turn int) {
		metas := []fbc.Meta{}
		for meta, err := range fbc.Read(bytes.NewReader(text), "catalog", fuzzLimits) {
			if err != nil {
				return
			}
			metas = append(metas, meta)
		}

		err := fbc.Validate(yieldMetas(metas))
		checkTree(t, err)
		// The fuzzer requires a single goroutine.
		again := fbc.Validate(fbc.Read(bytes.NewReader(text), "catalog", fuzzLimits))
		if errorText(err) != errorText(again) {
			t.Errorf("got\n%v\nwhen validated again, want\n%v", again, err)
		}
		if len(metas) == 0 {
			return
		}

		at := (turn%len(metas) + len(metas)) % len(metas)
		turned := slices.Concat(metas[at:], metas[:at])
		if other := fbc.Validate(yieldMetas(turned)); (other == nil) != (err == nil) {
			t.Errorf("in order:\n%v\nin another:\n%v", err, other)
		}

		slices.Reverse(turned)
		if other := fbc.Validate(yieldMetas(turned)); (other == nil) != (err == nil) {
			t.Errorf("in order:\n%v\nin another:\n%v", err, other)
		}
	})
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// checkTree checks that an error is a tree with messages.
func checkTree(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}

	var tree *fbc.TreeError
	if !errors.As(err, &tree) {
		t.Fatalf("got error %v (%T), want a tree", err, err)
	}

	leaves := 0
	for fault := range tree.Leaves() {
		leaves++
		if fault.Message == "" {
			t.Errorf("a fault has no message in:\n%v", err)
		}
	}

	if leaves == 0 {
		t.Errorf("got no faults in:\n%v", err)
	}
}
