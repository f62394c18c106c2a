package config

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
)

// ignition returns an Ignition configuration with the given parts.
func ignition(rest string) string {
	if rest != "" {
		rest = "," + rest
	}
	return `{"ignition":{"version":"3.2.0"}` + rest + `}`
}

// file returns a configuration with one file.
func file(path, content string) string {
	return ignition(fmt.Sprintf(`"storage":{"files":[{"path":%q,"contents":{"source":"data:,%s"}}]}`, path, content))
}

// mc returns a MachineConfig.
func mc(name, role, raw string) *mcfgv1.MachineConfig {
	c := &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{mcfgv1.LabelRole: role}}}
	if raw != "" {
		c.Spec.Config = runtime.RawExtension{Raw: []byte(raw)}
	}
	return c
}

func compressed(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(text)) // Writing to a buffer does not fail.
	_ = w.Close()
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

func TestParse(t *testing.T) {
	cases := map[string]struct{ raw, refused string }{
		"nothing":              {"", ""},
		"null":                 {"null", ""},
		"the least":            {ignition(""), ""},
		"no JSON":              {"{", "not valid JSON"},
		"no version":           {"{}", `ignition.version is ""`},
		"version 2":            {`{"ignition":{"version":"2.2.0"}}`, `"2.2.0"`},
		"a later version":      {`{"ignition":{"version":"3.6.0"}}`, "3.0.0 to 3.5.0"},
		"a misspelt field":     {ignition(`"storage":{"fils":[]}`), `unknown field "storage.fils"`},
		"another case":         {ignition(`"Storage":{}`), `unknown field "Storage"`},
		"a field twice":        {ignition(`"storage":{},"storage":{}`), "duplicate"},
		"another type":         {ignition(`"storage":{"files":{}}`), "cannot unmarshal"},
		"a remote part":        {`{"ignition":{"version":"3.2.0","config":{"merge":[{"source":"https://example.com"}]}}}`, "are not fetched"},
		"a file":               {file("/etc/a", "x"), ""},
		"a relative path":      {file("etc/a", "x"), "not absolute"},
		"a way out":            {file("/etc/../../a", "x"), "not absolute and clean"},
		"the root":             {file("/", "x"), "not absolute"},
		"a long path":          {file("/"+strings.Repeat("a/", 2100)+"a", "x"), "4096 are allowed"},
		"a long name":          {file("/"+strings.Repeat("a", 256), "x"), "255 are allowed"},
		"the kernel's":         {file("/proc/sys/a", "x"), "lies in /proc"},
		"the daemon's":         {file("/etc/machine-config-daemon/currentconfig", "x"), "lies in /etc/machine-config-daemon/currentconfig"},
		"its journal":          {file("/etc/machine-config-daemon/update.json", "x"), "lies in /etc/machine-config-daemon/update.json"},
		"its records":          {file("/etc/machine-config-daemon/orig/a.json", "x"), "lies in /etc/machine-config-daemon/orig"},
		"its annotations":      {file("/etc/machine-config-daemon/node-annotations.json", "x"), "lies in /etc/machine-config-daemon/node-annotations.json"},
		"the daemon's folder":  {file("/etc/machine-config-daemon", "x"), "cannot be a file"},
		"in the folder":        {file("/etc/machine-config-daemon/no-reboot/containers-gpg.pub", "x"), ""},
		"a similar folder":     {file("/etc/machine-config-daemons", "x"), ""},
		"a file twice":         {ignition(`"storage":{"files":[{"path":"/a"},{"path":"/a"}]}`), "written twice"},
		"a file and its child": {ignition(`"storage":{"files":[{"path":"/a/b"},{"path":"/a"}]}`), "is a file and the folder of"},
		"a mode":               {ignition(`"storage":{"files":[{"path":"/a","mode":4095}]}`), ""},
		"a mode too high":      {ignition(`"storage":{"files":[{"path":"/a","mode":4096}]}`), "mode is 4096"},
		"a mode below zero":    {ignition(`"storage":{"files":[{"path":"/a","mode":-1}]}`), "mode is -1"},
		"append":               {ignition(`"storage":{"files":[{"path":"/a","append":[{"source":"data:,x"}]}]}`), "append is not supported"},
		"two owners":           {ignition(`"storage":{"files":[{"path":"/a","user":{"id":1,"name":"core"}}]}`), "id and name are both set"},
		"an owner's name":      {ignition(`"storage":{"files":[{"path":"/a","user":{"name":"a b"}}]}`), "not a name of a user"},
		"an owner's number":    {ignition(`"storage":{"files":[{"path":"/a","group":{"id":-1}}]}`), "id is -1"},
		"a remote file":        {ignition(`"storage":{"files":[{"path":"/a","contents":{"source":"https://secret@example.com/x"}}]}`), `scheme "https"`},
		"no comma":             {ignition(`"storage":{"files":[{"path":"/a","contents":{"source":"data:x"}}]}`), "no comma"},
		"a bad escape":         {file("/a", "%zz"), "two hexadecimal digits"},
		"a bad base64":         {ignition(`"storage":{"files":[{"path":"/a","contents":{"source":"data:;base64,****"}}]}`), "illegal base64"},
		"a compression":        {ignition(`"storage":{"files":[{"path":"/a","contents":{"source":"data:,x","compression":"zip"}}]}`), `"zip" is unknown`},
		"no gzip":              {ignition(`"storage":{"files":[{"path":"/a","contents":{"source":"data:,x","compression":"gzip"}}]}`), "unpacking gzip"},
		"a bomb":               {ignition(`"storage":{"files":[{"path":"/a","contents":{"source":"data:;base64,` + compressed(strings.Repeat("0", maxFileBytes+1)) + `","compression":"gzip"}}]}`), "more than"},
		"a checksum":           {ignition(`"storage":{"files":[{"path":"/a","contents":{"source":"data:,x","verification":{"hash":"sha256-2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"}}}]}`), ""},
		"another checksum":     {ignition(`"storage":{"files":[{"path":"/a","contents":{"source":"data:,x","verification":{"hash":"sha256-00"}}}]}`), "does not have the checksum"},
		"an unknown checksum":  {ignition(`"storage":{"files":[{"path":"/a","contents":{"source":"data:,x","verification":{"hash":"md5-00"}}}]}`), "neither sha256-"},
		"a unit":               {ignition(`"systemd":{"units":[{"name":"a.service","enabled":true,"contents":"[Unit]","dropins":[{"name":"10-a.conf","contents":"x"}]}]}`), ""},
		"an option for a unit": {ignition(`"systemd":{"units":[{"name":"-H.service","enabled":true}]}`), "systemctl would take it for an option"},
		"no unit's name":       {ignition(`"systemd":{"units":[{"name":"../a.service"}]}`), "not a name of a unit"},
		"no unit's kind":       {ignition(`"systemd":{"units":[{"name":"a.conf"}]}`), "not a name of a unit"},
		"a unit twice":         {ignition(`"systemd":{"units":[{"name":"a.service"},{"name":"a.service"}]}`), "is not unique"},
		"a drop-in's way out":  {ignition(`"systemd":{"units":[{"name":"a.service","dropins":[{"name":"../../x.conf"}]}]}`), "not a name of a drop-in"},
		"masked with content":  {ignition(`"systemd":{"units":[{"name":"a.service","mask":true,"contents":"x"}]}`), "mask and contents"},
		"a unit and its file":  {ignition(`"storage":{"files":[{"path":"/etc/systemd/system/a.service"}]},"systemd":{"units":[{"name":"a.service","contents":"x"}]}`), "written twice"},
		"keys":                 {ignition(`"passwd":{"users":[{"name":"core","sshAuthorizedKeys":["ssh-rsa A"]}]}`), ""},
		"a key of two lines":   {ignition(`"passwd":{"users":[{"name":"core","sshAuthorizedKeys":["a\nb"]}]}`), "more than one line"},
		"a user's way out":     {ignition(`"passwd":{"users":[{"name":"../core"}]}`), "not a name of a user"},
		"a user twice":         {ignition(`"passwd":{"users":[{"name":"a"},{"name":"a"}]}`), "is not unique"},
		"disks":                {ignition(`"storage":{"disks":[{"device":"/dev/vda","wipeTable":true}]}`), ""},
		"too large":            {`"` + strings.Repeat("x", MaxBytes) + `"`, "are allowed"},
		"nested without end":   {ignition(`"storage":{"disks":[{"a":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}]}`), "exceeded max depth"},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(c.raw))
			switch {
			case c.refused == "" && err != nil:
				t.Errorf("got error %v, want none", err)
			case c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)):
				t.Errorf("got error %v, want %q", err, c.refused)
			case err != nil && strings.Contains(err.Error(), "secret"):
				t.Errorf("got error %v, want one without a credential", err)
			}
		})
	}
}

func TestContent(t *testing.T) {
	cases := map[string]struct{ contents, want string }{
		"none":               {`null`, ""},
		"empty":              {`{"source":""}`, ""},
		"escaped":            {`{"source":"data:,a%20b%0A+c"}`, "a b\n+c"},
		"with a type":        {`{"source":"data:text/plain;charset=utf-8,a"}`, "a"},
		"base64":             {`{"source":"data:text/plain;charset=utf-8;base64,YQpi"}`, "a\nb"},
		"base64 without end": {`{"source":"data:;base64,YQ"}`, "a"},
		"packed":             {`{"source":"data:;base64,` + compressed("hello") + `","compression":"gzip"}`, "hello"},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			parsed, err := Parse([]byte(ignition(`"storage":{"files":[{"path":"/a","contents":` + c.contents + `}]}`)))
			if err != nil {
				t.Fatal(err)
			}
			got, err := parsed.Storage.Files[0].Content()
			if err != nil || string(got) != c.want {
				t.Errorf("content is %q (%v), want %q", got, err, c.want)
			}
		})
	}
}

// render renders MachineConfigs, and returns the contents of the files by path.
func render(t *testing.T, configs ...*mcfgv1.MachineConfig) (*Rendered, map[string]string) {
	t.Helper()
	r, err := Render("pool", Base{OSImage: "registry.example/os@sha256:00"}, configs)
	if err != nil {
		t.Fatal(err)
	}

	parsed, err := Parse(r.Spec.Config.Raw)
	if err != nil {
		t.Fatal(err)
	}

	entries, err := parsed.Entries()
	if err != nil {
		t.Fatal(err)
	}

	files := map[string]string{}
	for _, e := range entries {
		files[e.Path] = string(e.Content) + e.Link
	}

	return r, files
}

func TestRenderMerges(t *testing.T) {
	base := mc("00-worker", "worker", ignition(`"storage":{"files":[{"path":"/etc/a","mode":384,"contents":{"source":"data:,base"}},{"path":"/etc/z"}]},`+
		`"systemd":{"units":[{"name":"k.service","enabled":true,"contents":"base"}]},"passwd":{"users":[{"name":"core","sshAuthorizedKeys":["one"]}]}`))
	own := mc("00-gpu", "gpu", ignition(`"storage":{"files":[{"path":"/etc/a","contents":{"source":"data:,own"}},{"path":"/etc/b"}]},`+
		`"systemd":{"units":[{"name":"k.service","dropins":[{"name":"a.conf","contents":"more"}]},{"name":"m.service","mask":true}]},`+
		`"passwd":{"users":[{"name":"core","sshAuthorizedKeys":["one","two"]}]}`))
	base.Spec.KernelArguments, own.Spec.KernelArguments = []string{"a"}, []string{"b", "a"}
	base.Spec.Extensions, own.Spec.Extensions = []string{"usbguard"}, []string{"usbguard", "kerberos"}
	base.Spec.KernelType, own.Spec.FIPS, own.Spec.OSImageURL = "realtime", true, "registry.example/os@sha256:01"
	// A configuration of the workers with a later name does not override that of the pool.
	late := mc("99-worker", "worker", file("/etc/a", "late"))
	r, files := render(t, own, late, base)
	want := map[string]string{
		"/etc/a": "own", "/etc/b": "", "/etc/z": "", "/etc/systemd/system/k.service": "base",
		"/etc/systemd/system/k.service.d/a.conf": "more", "/etc/systemd/system/m.service": "/dev/null",
	}
	if diff := cmp.Diff(want, files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}

	parsed, _ := Parse(r.Spec.Config.Raw) // Render has parsed it.
	if f := parsed.Storage.Files[0]; f.Permissions() != 0o600 {
		t.Errorf("got mode %o of %s, want 600 of the base configuration", f.Permissions(), f.Path)
	}
	if diff := cmp.Diff([]string{"one", "two"}, parsed.Passwd.Users[0].SSHAuthorizedKeys); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}

	r.Spec.Config = runtime.RawExtension{}
	spec := mcfgv1.MachineConfigSpec{
		OSImageURL: "registry.example/os@sha256:01", KernelArguments: []string{"a", "b", "a"}, Extensions: []string{"usbguard", "kerberos"},
		FIPS: true, KernelType: "realtime",
	}
	if diff := cmp.Diff(spec, r.Spec); diff != "" || !r.OSImageOverridden {
		t.Errorf("overridden %v; spec (-want +got):\n%s", r.OSImageOverridden, diff)
	}
}

func TestNames(t *testing.T) {
	one, two := mc("a", "worker", file("/etc/a", "1")), mc("b", "worker", file("/etc/b", "2"))
	r, _ := render(t, one, two)
	if again, _ := render(t, two, one); again.Name != r.Name {
		t.Errorf("the same MachineConfigs: got name %[2]s, want %[1]s", r.Name, again.Name)
	}
	// Other MachineConfigs with the same result.
	if same, _ := render(t, mc("x", "worker", ignition(`"storage":{"files":[{"path":"/etc/b","contents":{"source":"data:,2"}},{"path":"/etc/a","contents":{"source":"data:,1"}}]}`))); same.Name != r.Name {
		t.Errorf("equal content: got name %[2]s, want %[1]s", r.Name, same.Name)
	}
	if same, _ := render(t, one, two, mc("c", "worker", ignition(`"storage":{"files":[]},"systemd":{"units":[]},"passwd":{"users":[]}`))); same.Name != r.Name {
		t.Errorf("empty lists: got name %[2]s, want %[1]s", r.Name, same.Name)
	}
	if other, _ := render(t, one, mc("b", "worker", file("/etc/b", "3"))); other.Name == r.Name {
		t.Errorf("a changed byte: got the same name %s, want another", r.Name)
	}

	stored := &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: r.Name}, Spec: r.Spec}
	// The API server returns fields in another order.
	stored.Spec.Config.Raw = bytes.Replace(stored.Spec.Config.Raw, []byte(`{"ignition":{"version":"3.5.0"},`), []byte(`{`), 1)
	stored.Spec.Config.Raw = append(bytes.TrimSuffix(stored.Spec.Config.Raw, []byte("}")), []byte(`,"ignition":{"version":"3.5.0"}}`)...)
	if err := CheckName(stored); err != nil {
		t.Error(err)
	}

	stored.Spec.KernelArguments = []string{"quiet"}
	if err := CheckName(stored); err == nil || !strings.Contains(err.Error(), "changed since it was rendered") {
		t.Errorf("a changed configuration: got error %v, want that it was changed", err)
	}

	for _, name := range []string{"a", "rendered-", "rendered--1", "rendered-pool"} {
		stored.Name = name
		if err := CheckName(stored); err == nil || !strings.Contains(err.Error(), "is not a rendered configuration") {
			t.Errorf("name %q: got error %v, want that it is not a rendered configuration", name, err)
		}
	}
}

func TestRenderRefuses(t *testing.T) {
	kernel, argument, image := mc("a", "worker", ""), mc("a", "worker", ""), mc("a", "worker", "")
	kernel.Spec.KernelType, argument.Spec.KernelArguments, image.Spec.OSImageURL = "fast", []string{"--all"}, "--help"
	unit := mc("b", "worker", ignition(`"systemd":{"units":[{"name":"a.service","contents":"x"}]}`))
	cases := map[string]struct {
		configs []*mcfgv1.MachineConfig
		want    string
	}{
		"none":                    {nil, "no MachineConfig is selected"},
		"one that cannot be read": {[]*mcfgv1.MachineConfig{mc("bad", "worker", "{")}, `MachineConfig "bad"`},
		"two that contradict":     {[]*mcfgv1.MachineConfig{mc("a", "worker", file("/etc/systemd/system/a.service", "x")), unit}, "together"},
		"an unknown kernel":       {[]*mcfgv1.MachineConfig{kernel}, `kernelType "fast"`},
		"an option":               {[]*mcfgv1.MachineConfig{argument}, `kernelArguments has "--all"`},
		"an option for an image":  {[]*mcfgv1.MachineConfig{image}, "not an image reference"},
		"too large together": {[]*mcfgv1.MachineConfig{
			mc("a", "worker", file("/a", strings.Repeat("0", MaxBytes/2))), mc("b", "worker", file("/b", strings.Repeat("0", MaxBytes/2))),
		}, "the MachineConfigs together have"},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := Render("pool", Base{}, c.configs); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want %q", err, c.want)
			}
		})
	}
}

func spec(raw string, edit ...func(*mcfgv1.MachineConfigSpec)) *mcfgv1.MachineConfigSpec {
	s := &mcfgv1.MachineConfigSpec{Config: runtime.RawExtension{Raw: []byte(raw)}}
	for _, e := range edit {
		e(s)
	}
	return s
}

func TestCompare(t *testing.T) {
	full, none := Effort{Drain: true, Reboot: true}, Effort{}
	policy := NewPolicy("crio.service", nil)
	disks := ignition(`"storage":{"disks":[{"device":"/dev/vda"}]}`)
	keyed := ignition(`"passwd":{"users":[{"name":"core","sshAuthorizedKeys":["a"]}]}`)
	cases := map[string]struct {
		from, to   *mcfgv1.MachineConfigSpec
		want       Effort
		impossible string
		isEmpty    bool
	}{
		"nothing":             {from: spec(file("/a", "x")), to: spec(file("/a", "x")), want: none, isEmpty: true},
		"a file":              {from: spec(file("/a", "x")), to: spec(file("/a", "y")), want: full},
		"a file more":         {from: spec(""), to: spec(file("/a", "y")), want: full},
		"a file less":         {from: spec(file("/a", "y")), to: spec(""), want: full},
		"a unit":              {from: spec(""), to: spec(ignition(`"systemd":{"units":[{"name":"a.service","enabled":true}]}`)), want: full},
		"keys":                {from: spec(""), to: spec(keyed), want: none},
		"keys less":           {from: spec(keyed), to: spec(""), want: none},
		"mirrors":             {from: spec(""), to: spec(file("/etc/containers/registries.conf", "y")), want: Effort{Drain: true, Commands: []string{"reload crio.service"}}},
		"policy":              {from: spec(""), to: spec(file("/etc/containers/policy.json", "y")), want: Effort{Commands: []string{"reload crio.service"}}},
		"lookaside":           {from: spec(""), to: spec(file("/etc/containers/registries.d/a.yaml", "y")), want: Effort{Commands: []string{"reload crio.service"}}},
		"below lookaside":     {from: spec(""), to: spec(file("/etc/containers/registries.d/a/b", "y")), want: Effort{Commands: []string{"reload crio.service"}}},
		"logins":              {from: spec(""), to: spec(file("/var/lib/kubelet/config.json", "y")), want: none},
		"mirrors and a file":  {from: spec(file("/etc/containers/registries.conf", "y")), to: spec(file("/a", "y")), want: full},
		"image":               {from: spec(""), to: spec("", func(s *mcfgv1.MachineConfigSpec) { s.OSImageURL = "a" }), want: full},
		"arguments":           {from: spec(""), to: spec("", func(s *mcfgv1.MachineConfigSpec) { s.KernelArguments = []string{"a"} }), want: full},
		"extensions":          {from: spec(""), to: spec("", func(s *mcfgv1.MachineConfigSpec) { s.Extensions = []string{"a"} }), want: full},
		"the default kernel":  {from: spec(""), to: spec("", func(s *mcfgv1.MachineConfigSpec) { s.KernelType = "default" }), isEmpty: true},
		"first boot":          {to: spec(disks, func(s *mcfgv1.MachineConfigSpec) { s.FIPS = true }), isEmpty: true},
		"disks":               {from: spec(""), to: spec(disks), impossible: "Ignition storage.disks section contains changes"},
		"FIPS":                {from: spec(""), to: spec("", func(s *mcfgv1.MachineConfigSpec) { s.FIPS = true }), impossible: "FIPS"},
		"another kernel":      {from: spec(""), to: spec("", func(s *mcfgv1.MachineConfigSpec) { s.KernelType = "realtime" }), impossible: "kernelType changes from default to realtime"},
		"a user's shell":      {from: spec(keyed), to: spec(ignition(`"passwd":{"users":[{"name":"core","shell":"/bin/sh","sshAuthorizedKeys":["a"]}]}`)), impossible: `user "core"`},
		"a group":             {from: spec(""), to: spec(ignition(`"passwd":{"groups":[{"name":"g"}]}`)), impossible: "passwd.groups"},
		"an empty list":       {from: spec(""), to: spec(ignition(`"storage":{"disks":[]}`)), isEmpty: true},
		"a proxy":             {from: spec(""), to: spec(`{"ignition":{"version":"3.2.0","proxy":{"httpProxy":"a"}}}`), impossible: "ignition.proxy"},
		"arguments of a boot": {from: spec(""), to: spec(ignition(`"kernelArguments":{"shouldExist":["a"]}`)), impossible: "Ignition kernelArguments"},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			change, err := Compare(c.from, c.to)
			var impossible *ImpossibleError
			switch {
			case c.impossible != "":
				if !errors.As(err, &impossible) || !strings.Contains(err.Error(), c.impossible) {
					t.Errorf("got error %v, want %q", err, c.impossible)
				}
			case err != nil:
				t.Error(err)
			case change.IsEmpty() != c.isEmpty:
				t.Errorf("empty is %v, want %v", change.IsEmpty(), c.isEmpty)
			default:
				if diff := cmp.Diff(c.want, policy.Effort(change)); diff != "" {
					t.Errorf("effort (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "null", ignition(""), file("/etc/a", "x"), `{"ignition":{"version":"3.2.0"},"storage":{"files":[{"path":"/a","contents":{"source":"data:;base64,` + compressed("hello") + `","compression":"gzip"}}]}}`,
		ignition(`"systemd":{"units":[{"name":"a.service","enabled":true,"contents":"[Unit]","dropins":[{"name":"10-a.conf","contents":"x"}]}]},"passwd":{"users":[{"name":"core","sshAuthorizedKeys":["ssh-rsa A"],"uid":1}],"groups":[{"name":"g","gid":2}]}`),
		ignition(`"storage":{"disks":[{"device":"/dev/vda","n":1.5}],"raid":[{}]},"kernelArguments":{"shouldExist":["a"]}`),
	} {
		f.Add([]byte(seed))
	}

	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 {
			t.Skip("the input exceeds the size that this test covers")
		}

		parsed, err := Parse(data)
		if err != nil {
			return
		}

		entries, err := parsed.Entries()
		if err != nil {
			t.Fatalf("reading the entries of a valid configuration: %v", err)
		}

		for _, e := range entries {
			if err := checkPath(e.Path); err != nil {
				t.Errorf("got an entry that must not be written: %v", err)
			}
		}

		canonical, err := parsed.MarshalCanonical()
		if err != nil {
			t.Fatal(err)
		}

		again, err := Parse(canonical)
		if err != nil && len(canonical) <= MaxBytes {
			t.Fatalf("parsing the canonical form: %v\n%s", err, canonical)
		}

		if err == nil {
			if twice, _ := again.MarshalCanonical(); !bytes.Equal(canonical, twice) {
				t.Errorf("canonical form of the canonical form: got\n%[2]s\nwant\n%[1]s", canonical, twice)
			}
		}
	})
}

func FuzzDataURL(f *testing.F) {
	for _, seed := range []string{"data:,x", "data:;base64,YQ==", "data:text/plain,%41", "https://a", "data:", ""} {
		f.Add(seed)
	}

	f.Fuzz(func(t *testing.T, source string) {
		data, err := decodeDataURL(source)
		if err == nil && len(data) > len(source) {
			t.Errorf("got %d decoded bytes, want at most the %d of the URL", len(data), len(source))
		}
	})
}
