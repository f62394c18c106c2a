package validate

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestParseOptional(t *testing.T) {
	if diff := cmp.Diff([]string{"operatorhub", "bundle-objects"}, ParseOptional(" operatorhub, bundle-objects,,")); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if names := optionalExcept(); !slices.IsSorted(names) {
		t.Errorf("got the names %q, want them sorted", names)
	}
}

// optionalExcept returns the names of the optional validators, without some.
func optionalExcept(without ...string) []string {
	var names []string
	for _, v := range Optional() {
		if !slices.Contains(without, v.Name) {
			names = append(names, v.Name)
		}
	}
	return names
}

// optionalCase is a bundle that violates a rule of an optional validator.
type optionalCase struct {
	name      string
	validator string
	pairs     []string          // of the CSV
	files     map[string]string // further files
	options   Options
	want      []string
}

func runOptional(t *testing.T, cases []optionalCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			files := map[string]string{"manifests/csv.yaml": replaceTexts(t, goodCSV, c.pairs...)}
			for name, text := range c.files {
				files[name] = text
			}

			fsys := goodFS(files)
			c.options.Optional = nil
			without := findingTexts(t, fsys, c.options)
			c.options.Optional = []string{c.validator}
			got := findingTexts(t, fsys, c.options)
			compareFindings(t, c.want, got[len(without):])
		})
	}
}

func TestOperatorHub(t *testing.T) {
	const csv, warning = "Error: Value : (foo.v1.2.3) ", "Warning: Value : (foo.v1.2.3) "
	const v2, categories = "operatorhub/v2", "standardcategories"
	custom := Options{Categories: &Categories{Name: "my.json", Data: []byte(`{"categories": ["Mine", "Networking"]}`)}}
	unreadable := Options{Categories: &Categories{Name: "my.json", Err: errors.New("file does not exist")}}
	runOptional(t, []optionalCase{
		{"provider", v2, []string{"provider: {name: Foo Inc}", "provider: {url: a}"}, nil, Options{}, []string{csv + "csv.Spec.Provider.Name not specified"}},
		{"maintainers", v2, []string{"[{name: F, email: f@foo.example}]", "[{name: F}, {email: f@foo.example}, {name: G, email: g}]"}, nil, Options{}, []string{
			csv + "csv.Spec.Maintainers elements should contain both name and email", csv + "csv.Spec.Maintainers elements should contain both name and email",
			csv + "csv.Spec.Maintainers email g is invalid: mail: missing '@' or angle-addr",
		}},
		{"links", v2, []string{`[{name: home, url: "https://foo.example"}]`, "[{name: home}, {url: 'https://foo.example'}, {name: b, url: foo}]"}, nil, Options{}, []string{
			csv + "csv.Spec.Links elements should contain both name and url", csv + "csv.Spec.Links elements should contain both name and url",
			csv + `csv.Spec.Links url foo is invalid: parse "foo": invalid URI for request`,
		}},
		{"no version", v2, []string{"version: 1.2.3", "version: 0.0.0"}, nil, Options{}, []string{csv + "csv.Spec.Version must be set"}},
		{"two icons", v2, []string{"icon: [", "icon: [{base64data: YQ==, mediatype: image/bmp}, "}, nil, Options{}, []string{
			csv + "csv.Spec.Icon should only have one element", csv + "csv.Spec.Icon image/bmp does not have a valid mediatype",
		}},
		{"an empty icon", v2, []string{"base64data: YQ==, ", "base64data: '', "}, nil, Options{}, []string{csv + "csv.Spec.Icon elements should contain both data and mediatype"}},
		{"no icon", v2, []string{"icon: [{base64data: YQ==, mediatype: image/png}]", "icon: []"}, nil, Options{}, []string{warning + "csv.Spec.Icon not specified"}},
		{"minKubeVersion", v2, []string{"1.20.0", "'1'"}, nil, Options{}, []string{csv + "csv.Spec.MinKubeVersion has an invalid value: 1"}},
		{"capabilities", "standardcapabilities", []string{"Basic Install", "Great"}, nil, Options{}, []string{csv + `csv.Metadata.Annotations.Capabilities "Great" is not a valid capabilities level`}},
		{"categories", categories, []string{"Database, ", "Mine,"}, nil, Options{}, []string{csv + `csv.Metadata.Annotations["categories"] value "Mine" is not in the set of standard categories`}},
		{"custom categories", categories, []string{"Database, ", "Database,Mine,"}, nil, custom, []string{csv + `csv.Metadata.Annotations["categories"] value "Database" is not in the set of custom categories`}},
		{"unreadable categories", categories, nil, nil, unreadable, []string{csv + "could not extract custom categories from categories my.json: file does not exist"}},
		{"empty categories", categories, nil, nil, Options{Categories: &Categories{Name: "my.json", Data: []byte("{}")}},
			[]string{csv + `could not extract custom categories from categories my.json: it names none under "categories"`}},
		{"no JSON", categories, nil, nil, Options{Categories: &Categories{Name: "my.json", Data: []byte("a")}}, []string{csv + "could not extract custom categories from categories my.json: invalid character…"}},
		{"all of it", "operatorhub", []string{"Basic Install", "Great", "Database, ", "Mine,", "{name: Foo Inc}", "{url: a}"}, nil, Options{}, []string{
			warning + `the validator "operatorhub" is deprecated…`, csv + "csv.Spec.Provider.Name not specified",
			csv + `csv.Metadata.Annotations.Capabilities "Great" is not a valid capabilities level`,
			csv + `csv.Metadata.Annotations["categories"] value "Mine" is not in the set of standard categories`,
		}},
	})
}

const removedRole = "apiVersion: rbac.authorization.k8s.io/v1beta1\nkind: Role\nmetadata: {name: r}\nrules: [{apiGroups: [policy], resources: [podsecuritypolicies], verbs: [use]}]"

func TestRemovedAPIs(t *testing.T) {
	const guide = ". More info: https://kubernetes.io/docs/reference/using-api/deprecation-guide/#v1-"
	text := func(level, minor, rest string) string {
		return level + ": Value foo.v1.2.3: this bundle is using APIs which were deprecated and removed in v1." + minor + guide + minor + ". Migrate the API(s) for " + rest
	}
	old := replaceTexts(t, goodCRD, "k8s.io/v1\n", "k8s.io/v1beta1\n", "spec:\n", "spec:\n  preserveUnknownFields: false\n")
	budget := "apiVersion: policy/v1beta1\nkind: PodDisruptionBudget\nmetadata: {name: b}"
	files := map[string]string{"manifests/crd.yaml": old, "manifests/r.yaml": removedRole, "manifests/s.yaml": strings.Replace(removedRole, "name: r", "name: s", 1), "manifests/b.yaml": budget,
		"manifests/t.yaml": "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: t}\nrules: [{apiGroups: [apps], resources: [podsecuritypolicies], verbs: [use]}, {apiGroups: [policy], resources: [a], verbs: [use]}]"}
	role := func(name, rule string) string {
		return "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: " + name + "}\nrules: [" + rule + "]"
	}
	const name = "alpha-deprecated-apis"
	all := func(first, second string) []string {
		return []string{
			text(first, "22", `CRD: (["foos.example.com"]),Role: (["r" "s"])`), text(second, "25", `PodDisruptionBudget: (["b"])`), text("Warning", "25", `Role: (["r" "s"])`),
		}
	}
	runOptional(t, []optionalCase{
		{"warnings", name, nil, files, Options{}, all("Warning", "Warning")},
		{"minKubeVersion", name, []string{"1.20.0", "1.22.0"}, files, Options{}, all("Error", "Warning")},
		{"option", name, nil, files, Options{KubeVersion: "1.25"}, all("Error", "Error")},
		{"a lower version", name, nil, files, Options{KubeVersion: "1.21"}, all("Warning", "Warning")},
		{"an invalid version", name, nil, files, Options{KubeVersion: "latest"}, all("Warning", "Warning")},
		{"1.26", name, nil, map[string]string{"manifests/a.yaml": "apiVersion: autoscaling/v2beta2\nkind: HorizontalPodAutoscaler\nmetadata: {name: a}"}, Options{KubeVersion: "1.26"},
			[]string{text("Error", "26", `HorizontalPodAutoscaler: (["a"])`)}},
		{"rules of the CSV", name, []string{"      deployments:", "      clusterPermissions: [{serviceAccountName: a, rules: [{apiGroups: [policy], resources: [podsecuritypolicies], verbs: [use]}]}]\n      deployments:"}, nil, Options{},
			[]string{text("Warning", "25", `ClusterServiceVersion: (["foo.v1.2.3"])`)}},
		{"rules that name one of the two by *", name, nil, map[string]string{
			"manifests/r.yaml": role("r", "{apiGroups: [policy], resources: ['*'], verbs: [use]}"), "manifests/s.yaml": role("s", "{apiGroups: ['*'], resources: [podsecuritypolicies], verbs: [use]}"),
			"manifests/t.yaml": role("t", "{apiGroups: ['*'], resources: ['*'], verbs: ['*']}"),
		}, Options{}, []string{text("Warning", "25", `Role: (["r" "s"])`)}},
		{"as part of operatorhub", "operatorhub/v2", nil, map[string]string{"manifests/b.yaml": budget}, Options{}, []string{text("Warning", "25", `PodDisruptionBudget: (["b"])`)}},
	})
}

func TestObjects(t *testing.T) {
	role := func(kind, rules string) map[string]string {
		return map[string]string{"manifests/r.yaml": "apiVersion: rbac.authorization.k8s.io/v1\nkind: " + kind + "\nmetadata: {name: r}\nrules: [" + rules + "]"}
	}
	budget := func(spec string) map[string]string {
		return map[string]string{"manifests/b.yaml": "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: b}\nspec: {" + spec + "}"}
	}
	const name = "bundle-objects"
	scc := "{apiGroups: [security.openshift.io], resources: [securitycontextconstraints], verbs: [%], resourceNames: [#]}"
	constraint := func(verbs, names string) string {
		return strings.NewReplacer("%", verbs, "#", names).Replace(scc)
	}
	denied := func(name string) string {
		return `Error: Value r: Role grants the right to change or delete the default SecurityContextConstraints "` + name + `"`
	}
	var all []string
	for _, name := range defaultSCCs {
		all = append(all, denied(name))
	}

	runOptional(t, []optionalCase{
		{"no unavailable", name, nil, budget("maxUnavailable: 0"), Options{}, []string{"Error: Value b: maxUnavailable field cannot be set to 0 or 0%"}},
		{"no unavailable share", name, nil, budget("maxUnavailable: 0%"), Options{}, []string{"Error: Value b: maxUnavailable field cannot be set to 0 or 0%"}},
		{"all available", name, nil, budget("minAvailable: 100%"), Options{}, []string{"Error: Value b: minAvailable field cannot be set to 100%"}},
		{"some available", name, nil, budget("minAvailable: 1, maxUnavailable: 1"), Options{}, []string{}},
		{"no budget", name, nil, budget("minAvailable: []"), Options{}, []string{"Error: Value b: PodDisruptionBudget cannot be decoded: json: …"}},
		{"global default", name, nil, map[string]string{"manifests/p.yaml": "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: p}\nglobalDefault: true"}, Options{},
			[]string{"Error: Value p: globalDefault field cannot be set to true"}},
		{"budgets", name, nil, role("ClusterRole", "{apiGroups: [policy], resources: [poddisruptionbudgets], verbs: [get, patch]}"), Options{},
			[]string{"Warning: Value r: ClusterRole grants the right to write poddisruptionbudgets, which can keep nodes from being drained"}},
		{"reading budgets", name, nil, role("Role", "{apiGroups: [policy], resources: [poddisruptionbudgets], verbs: [get]}, {apiGroups: [apps], resources: [poddisruptionbudgets], verbs: ['*']}"), Options{}, []string{}},
		{"constraints", name, nil, role("Role", constraint("'*'", "privileged, mine, anyuid")), Options{}, []string{denied("privileged"), denied("anyuid")}},
		{"all constraints", name, nil, role("Role", constraint("delete", "")), Options{}, all},
		{"using constraints", name, nil, role("Role", constraint("use", "privileged")), Options{}, []string{}},
		{"no role", name, nil, map[string]string{"manifests/r.yaml": "kind: Role\nmetadata: {name: r}\nrules: 1"}, Options{}, []string{}},
	})

	fsys := goodFS(map[string]string{
		"manifests/csv.yaml": "", "manifests/g.yaml": "apiVersion: operators.coreos.com/v1\nkind: OperatorGroup\nmetadata: {name: g, annotations: {olm.providedapis: a}}",
		"metadata/annotations.yaml": replaceTexts(t, goodAnnotations, "registry+v1", "plain"),
	})
	compareFindings(t, []string{"Error: Value g: provided annotation olm.providedapis uses wrong case and should be olm.providedAPIs instead"}, findingTexts(t, fsys, Options{Optional: []string{name}}))
	compareFindings(t, []string{}, findingTexts(t, fsys, Options{Optional: optionalExcept(name)}))
}

func TestBundleRules(t *testing.T) {
	const name = "bundle"
	runOptional(t, []optionalCase{
		{"duplicate CRD", name, nil, map[string]string{"manifests/crd2.yaml": goodCRD}, Options{}, []string{
			`Error: Value example.com/v1, Kind=Foo: duplicate CRD "example.com/v1, Kind=Foo" in bundle "foo.v1.2.3"`,
			`Error: Value example.com/v1beta1, Kind=Foo: duplicate CRD "example.com/v1beta1, Kind=Foo" in bundle "foo.v1.2.3"`,
		}},
		{"no CRD", name, nil, map[string]string{"manifests/crd.yaml": ""}, Options{}, []string{
			`Error: Value example.com/v1, Kind=Foo: owned CRD "example.com/v1, Kind=Foo" not found in bundle "foo.v1.2.3"`,
			`Error: Value example.com/v1beta1, Kind=Foo: owned CRD "example.com/v1beta1, Kind=Foo" not found in bundle "foo.v1.2.3"`,
		}},
		{"a version that the CSV does not list", name, []string{"    - {name: foos.example.com, version: v1beta1, kind: Foo, description: an old foo}\n", ""}, nil, Options{}, []string{}},
		{"an unlisted CRD", name, nil, map[string]string{"manifests/bar.yaml": strings.NewReplacer("foos", "bars", "Foo", "Bar").Replace(goodCRD)}, Options{}, []string{
			`Error: Value example.com/v1, Kind=Bar: CRD "example.com/v1, Kind=Bar" is present in bundle "foo.v1.2.3" but not defined in CSV`,
			`Error: Value example.com/v1beta1, Kind=Bar: CRD "example.com/v1beta1, Kind=Bar" is present in bundle "foo.v1.2.3" but not defined in CSV`,
		}},
		{"service account", name, nil, map[string]string{
			"manifests/a.yaml":  "apiVersion: v1\nkind: Secret\nmetadata: {name: foo}",
			"manifests/sa.yaml": "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: foo}", "manifests/other.yaml": "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: bar}",
		}, Options{}, []string{"Error: Value foo: invalid service account found in bundle. …"}},
		{"release", name, []string{"version: 1.2.3\n", "version: 1.2.3\n  release: 1.a\n"}, nil, Options{},
			[]string{`Error: Value foo.v1.2.3: bundle name with release versioning "foo.v1.2.3" does not match expected name "foo-v1.2.3-1.a"`}},
		{"bad release", name, []string{"version: 1.2.3\n", "version: 1.2.3\n  release: '01'\n", "name: foo.v1.2.3", "name: foo-v1.2.3-01"}, nil, Options{}, []string{`Error: Value foo-v1.2.3-01: invalid release "01": …`}},
		{"good release", name, []string{"version: 1.2.3\n", "version: 1.2.3\n  release: 1\n", "name: foo.v1.2.3", "name: foo-v1.2.3-1"}, nil, Options{}, []string{}},
		{"images", name, []string{"  install:", "  relatedImages: [{name: a, image: ''}, {name: b, image: b c}, {name: c, image: c}]\n  install:"}, nil, Options{}, []string{
			"Error: Value foo.v1.2.3: relatedImages[0] has an empty image field",
			`Error: Value foo.v1.2.3: relatedImages[1] has an invalid image pullspec "b c": invalid reference format`,
		}},
	})
}

func TestBundleSize(t *testing.T) {
	random := func(n int) *fstest.MapFile {
		// The data has random letters and digits, with 6 bits of information in each byte.
		source := rand.New(rand.NewPCG(1, 2))
		data := []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  a: ")
		for range n {
			data = append(data, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789ab"[source.IntN(64)])
		}
		return &fstest.MapFile{Data: data}
	}

	for n, want := range map[int]string{
		800 << 10:  "",
		900 << 10:  "Warning: nearing maximum bundle compressed size with gzip: size=~895.9 KiB , max=1.0 MiB.",
		1100 << 10: "Error: maximum bundle compressed size with gzip size exceeded: size=~1.1 MiB , max=1.0 MiB. Bundle uncompressed size is 1.1 MiB",
	} {
		fsys := goodFS(nil)
		fsys["manifests/large.yaml"] = random(n)
		got := findingTexts(t, fsys, Options{Optional: []string{"bundle"}})
		if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], want)) {
			t.Errorf("%d bytes: got %q, want %q", n, got, want)
		}
	}
}

func TestPractices(t *testing.T) {
	const csv, warning = "Error: Value : (foo.v1.2.3) ", "Warning: Value : (foo.v1.2.3) "
	const name = "good-practices"
	deployments := goodCSV[strings.Index(goodCSV, "      deployments:"):strings.Index(goodCSV, "  installModes")]
	runOptional(t, []optionalCase{
		{"no deployment", name, []string{deployments, "      deployments: []\n"}, nil, Options{}, []string{csv + "unable to find a deployment to install in the CSV"}},
		{"no requests", name, []string{"cpu: 1m, ", ""}, nil, Options{}, []string{warning + "unable to find the resource requests for the container (c) of deployment foo: cpu"}},
		{"no description", name, []string{"description: a foo", "description: ''"}, nil, Options{}, []string{warning + `owned CRD "foos.example.com" has an empty description`}},
		{"channels", name, nil, map[string]string{"metadata/annotations.yaml": replaceTexts(t, goodAnnotations, "channels.v1: stable", "channels.v1: fast-1, beta,alpha", "default.v1: stable", "default.v1: beta")}, Options{},
			[]string{warning + `channels ["beta" "alpha"] should start with candidate, fast or stable, so that people know what to expect of them`}},
		{"one channel", name, nil, map[string]string{"metadata/annotations.yaml": replaceTexts(t, goodAnnotations, "channels.v1: stable", "channels.v1: stable,beta")}, Options{},
			[]string{warning + `channels ["beta"] should start with …`}},
		{"making CRDs", name, []string{"      deployments:", "      clusterPermissions: [{serviceAccountName: a, rules: [{apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], verbs: [create]}]}]\n      deployments:"}, nil, Options{},
			[]string{warning + "ClusterServiceVersion foo.v1.2.3 grants the right to create CRDs: CRDs should be part of the bundle"}},
		{"name", name, []string{"name: foo.v1.2.3", "name: foo.1.2.3"}, nil, Options{},
			[]string{`Warning: Value : (foo.1.2.3) csv.metadata.name "foo.1.2.3" should be <name>.v<version> with a semantic version, such as foo.v0.0.1`}},
		{"no semantic version", name, []string{"name: foo.v1.2.3", "name: foo.v1"}, nil, Options{}, []string{`Warning: Value : (foo.v1) csv.metadata.name "foo.v1" should be …`}},
	})
}

func TestCommunity(t *testing.T) {
	const csv = "Error: Value : (foo.v1.2.3) "
	old := replaceTexts(t, goodCRD, "k8s.io/v1\n", "k8s.io/v1beta1\n", "spec:\n", "spec:\n  preserveUnknownFields: false\n")
	files := func(property, label string) map[string]string {
		files := map[string]string{"manifests/crd.yaml": old}
		if property != "" {
			files["metadata/properties.yaml"] = "properties: [{type: olm.maxOpenShiftVersion, value: " + property + "}]"
		}
		if label != "" {
			files["metadata/annotations.yaml"] = goodAnnotations + "  com.redhat.openshift.versions: " + label
		}
		return files
	}

	const beyond = "which holds 4.9 as well: give a range that ends below, such as v4.6-v4.8"
	const name = "community"
	runOptional(t, []optionalCase{
		{"not set", name, nil, files("", ""), Options{}, []string{csv + "olm.maxOpenShiftVersion is not set: a bundle that uses APIs which Kubernetes 1.22 removed must set it to a version below 4.9"}},
		{"too high", name, nil, files("'4.9'", ""), Options{}, []string{csv + "olm.maxOpenShiftVersion is 4.9: a bundle that uses APIs which Kubernetes 1.22 removed must set it to a version below 4.9"}},
		{"a number", name, nil, files("4.8", "v4.6-v4.8"), Options{}, []string{}},
		{"no version", name, nil, files("new", ""), Options{}, []string{csv + "olm.maxOpenShiftVersion has an invalid value: new"}},
		{"in the annotation", name, []string{"    capabilities", `    olm.properties: '[{"type": "olm.maxOpenShiftVersion", "value": "4.8"}]'` + "\n    capabilities"}, files("", "=v4.8"), Options{}, []string{}},
		{"open label", name, nil, files("'4.8'", "v4.6"), Options{}, []string{csv + `label com.redhat.openshift.versions is "v4.6", ` + beyond}},
		{"label too high", name, nil, files("'4.8'", "v4.6-v4.10"), Options{}, []string{csv + `label com.redhat.openshift.versions is "v4.6-v4.10", ` + beyond}},
		{"bad label", name, nil, files("'4.8'", "v4.6-x"), Options{}, []string{csv + `label com.redhat.openshift.versions has an invalid value: "v4.6-x"`}},
		{"no old API", name, nil, nil, Options{}, []string{}},
	})
}
