package v1alpha1

import (
	"encoding/json"
	"testing"
)

func TestLooseVersion(t *testing.T) {
	for _, c := range []struct {
		in      string
		want    LooseVersion
		wantErr bool
	}{
		{in: `"1.2.3"`, want: "1.2.3"},
		{in: `""`, want: ""},
		{in: `1.16`, want: "1.16"},
		{in: ` 2 `, want: "2"},
		{in: `null`, want: ""},
		{in: `true`, wantErr: true},
		{in: `["1.2.3"]`, wantErr: true},
		{in: `{}`, wantErr: true},
	} {
		var got struct {
			Version LooseVersion `json:"version"`
		}
		err := json.Unmarshal([]byte(`{"version":`+c.in+`}`), &got)
		if got.Version != c.want || (err != nil) != c.wantErr {
			t.Errorf("%s: got %q, error %v; want %q, error %v", c.in, got.Version, err, c.want, c.wantErr)
		}
	}

	encoded, err := json.Marshal(struct{ V LooseVersion }{"1.16"})
	if want := `{"V":"1.16"}`; err != nil || string(encoded) != want {
		t.Errorf("got JSON %s, error %v; want %s", encoded, err, want)
	}
}
