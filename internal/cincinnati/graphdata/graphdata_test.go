package graphdata

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/cincinnati"
	"github.com/mainstay-dev/mainstay/internal/testing/golden"
)

// newFolder returns a graph-data folder with the given files.
func newFolder(files map[string]string) fstest.MapFS {
	made := fstest.MapFS{"version": {Data: []byte("1.1.0\n")}}
	for name, text := range files {
		made[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return made
}

func loadData(t testing.TB, files map[string]string) *Data {
	t.Helper()
	data, err := Load(newFolder(files))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestLoadRefuses(t *testing.T) {
	const issue = "to: 4.1.1\nfrom: .*\nurl: https://example.com\nname: A\nmessage: a\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"a later schema":           {map[string]string{"version": "1.3.0"}, "version: the schema 1.3.0 is not supported; supported are 1.0.0 to 1.2.x"},
		"another schema":           {map[string]string{"version": "2.0.0"}, "version: the schema 2.0.0 is not supported; supported are 1.0.0 to 1.2.x"},
		"no schema":                {map[string]string{"version": "newest"}, `version: "newest" is not a semantic version: No Major.Minor.Patch elements found`},
		"half a file":              {map[string]string{"channels/a.yaml": "name: stable-4.1\nversions:\n- 4.1.0\n- 4."}, `channels/a.yaml: versions[1] "4" is not a semantic version: No Major.Minor.Patch elements found`},
		"no YAML":                  {map[string]string{"channels/a.yaml": "name: [stable"}, "channels/a.yaml: cannot be read: yaml: line 1: did not find expected ',' or ']'"},
		"an empty file":            {map[string]string{"channels/a.yaml": ""}, `channels/a.yaml: name "" must match ^[0-9a-z\-.]+$`},
		"a channel with a slash":   {map[string]string{"channels/a.yaml": "name: stable/4.1"}, `channels/a.yaml: name "stable/4.1" must match ^[0-9a-z\-.]+$`},
		"versions of another type": {map[string]string{"channels/a.yaml": "name: a\nversions: 4.1.0"}, "channels/a.yaml: cannot be read: string where versions must be a []string"},
		"no target":                {map[string]string{"blocked-edges/a.yaml": "from: .*"}, `blocked-edges/a.yaml: to: "" is not a semantic version: Version string empty`},
		"no source":                {map[string]string{"blocked-edges/a.yaml": "to: 4.1.1"}, "blocked-edges/a.yaml: from: must be a regular expression of 1 to 16384 bytes"},
		"no regular expression":    {map[string]string{"blocked-edges/a.yaml": "to: 4.1.1\nfrom: '4.1['"}, "blocked-edges/a.yaml: from: error parsing regexp: missing closing ]: `[`"},
		"a known issue of half":    {map[string]string{"blocked-edges/a.yaml": issue}, "blocked-edges/a.yaml: a known issue needs url, name, message and matchingRules, and a block has none of them"},
		"no address": {
			map[string]string{"blocked-edges/a.yaml": strings.Replace(issue, "https://", "see ", 1) + "matchingRules: [{type: Always}]"},
			`blocked-edges/a.yaml: url: "see example.com" is not a valid URL`,
		},
		"many rules": {
			map[string]string{"blocked-edges/a.yaml": issue + "matchingRules: [" + strings.Repeat("{type: Always},", 65) + "]"},
			"blocked-edges/a.yaml: matchingRules: has 65 entries, more than the 64 that it may have",
		},
		"no rule":                  {map[string]string{"blocked-edges/a.yaml": issue + "matchingRules: []"}, "blocked-edges/a.yaml: a known issue needs url, name, message and matchingRules, and a block has none of them"},
		"a query without text":     {map[string]string{"blocked-edges/a.yaml": issue + "matchingRules: [{type: PromQL}]"}, "blocked-edges/a.yaml: matchingRules[0]: must be of type Always, or of type PromQL with a query in promql.promql"},
		"metadata of another type": {map[string]string{"raw/metadata.json": `{"4.1.0":[]}`}, "raw/metadata.json: json: cannot unmarshal array into Go value of type map[string]string"},
		"a large file":             {map[string]string{"channels/a.yaml": "name: " + strings.Repeat("a", maxFileBytes)}, "channels/a.yaml: has more than the 4194304 bytes that a file may have"},
		"several files, all at once": {
			map[string]string{"channels/a.yaml": "name: A", "channels/b.yaml": "name: B"},
			"channels/a.yaml: name \"A\" must match ^[0-9a-z\\-.]+$\nchannels/b.yaml: name \"B\" must match ^[0-9a-z\\-.]+$",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load(newFolder(c.files))
			if err == nil {
				t.Fatal("got no error, want one")
			}
			if diff := cmp.Diff(c.want, err.Error()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}

	if _, err := Load(fstest.MapFS{}); err == nil || err.Error() != "version: file does not exist" {
		t.Errorf("an empty folder: got error %v, want version: file does not exist", err)
	}
}

func TestLoadIgnores(t *testing.T) {
	data := loadData(t, map[string]string{
		"version":                    "1.2.9",
		"channels/stable.yaml":       "name: stable-4.1\nfeeder: {name: fast-4.1, delay: PT48H, filter: x, errata: public}\ntombstones: [4.1.7]\nversions:\n- 4.1.0\n- 4.1.0\n",
		"channels/OWNERS":            "nobody",
		"channels/old/4.0.yaml":      "name: A",
		"internal-channels/new.yaml": "no",
		"README.md":                  "# Data",
	})
	if diff := cmp.Diff([]string{"stable-4.1"}, data.Channels()); diff != "" {
		t.Errorf("channels (-want +got):\n%s", diff)
	}
}

// newReleases returns releases of amd64 that can be updated from the previous ones.
func newReleases(versions ...string) []Release {
	var all []Release
	for i, version := range versions {
		all = append(all, Release{
			Version: version, Architecture: "amd64", Payload: "registry.example.com/release@sha256:" + version, Previous: versions[:i],
			Metadata: map[string]string{cincinnati.MetadataChannels: "stable", cincinnati.MetadataURL: "https://example.com/" + version},
		})
	}

	return all
}

// withMetadata changes the metadata of the release with a version.
func withMetadata(all []Release, version, key, value string) []Release {
	for _, r := range all {
		if r.Version == version {
			r.Metadata[keyPrefix+key] = value
		}
	}
	return all
}

// formatEdges returns the edges of a channel: "a>b", or "a?b" with the names of known issues.
func formatEdges(g *Graph, q Query) string {
	part := g.Channel(q)
	var all []string
	for _, e := range part.Edges {
		all = append(all, part.Nodes[e.From].Version+">"+part.Nodes[e.To].Version)
	}

	for _, entry := range part.ConditionalEdges {
		var names []string
		for _, risk := range entry.Risks {
			names = append(names, risk.Name)
		}
		for _, e := range entry.Edges {
			all = append(all, e.From+"?"+e.To+":"+strings.Join(names, "+"))
		}
	}

	return strings.Join(all, " ")
}

func issueFile(name, to, from string) string {
	return fmt.Sprintf("to: %s\nfrom: '%s'\nurl: https://example.com/%[3]s\nname: %[3]s\nmessage: it happens\nmatchingRules: [{type: Always}]\n", to, from, name)
}

func manyIssues(count int) map[string]string {
	files := map[string]string{}
	for i := range count {
		files[fmt.Sprintf("blocked-edges/%d.yaml", i)] = issueFile(fmt.Sprint("Issue", i), "1.0.1", ".*")
	}
	return files
}

func TestBuild(t *testing.T) {
	for name, c := range map[string]struct {
		releases []Release
		files    map[string]string
		want     string
		warnings []string
	}{
		"previous and next": {
			releases: append(newReleases("1.0.0", "1.0.1"), Release{
				Version: "0.9.0", Architecture: "amd64", Payload: "r@sha256:0", Next: []string{"1.0.0", "1.0.1", "1.0.1", "7.7.7"},
				Metadata: map[string]string{cincinnati.MetadataChannels: "stable"},
			}),
			want: "0.9.0>1.0.0 0.9.0>1.0.1 1.0.0>1.0.1",
		},
		"a plain block": {
			releases: newReleases("1.0.0", "1.0.1", "1.0.2"), files: map[string]string{"blocked-edges/a.yaml": "to: 1.0.2\nfrom: 1.0.0"},
			want: "1.0.0>1.0.1 1.0.1>1.0.2",
		},
		"a pattern is searched for, in the version with its architecture": {
			releases: newReleases("1.0.0", "1.0.1", "1.0.2"), files: map[string]string{"blocked-edges/a.yaml": `{to: 1.0.2, from: '0\+amd'}`},
			want: "1.0.0>1.0.1 1.0.1>1.0.2",
		},
		"a block for another architecture": {
			releases: newReleases("1.0.0", "1.0.1"), files: map[string]string{"blocked-edges/a.yaml": "{to: 1.0.1+arm64, from: .*}"},
			want: "1.0.0>1.0.1",
		},
		"a block for this architecture": {
			releases: newReleases("1.0.0", "1.0.1"), files: map[string]string{"blocked-edges/a.yaml": "{to: 1.0.1+amd64, from: .*}"},
		},
		"known issues": {
			releases: newReleases("1.0.0", "1.0.1", "1.0.2"),
			files: map[string]string{
				"blocked-edges/a.yaml": issueFile("A", "1.0.2", "1[.]0[.]0"), "blocked-edges/b.yaml": issueFile("B", "1.0.2", ".*"),
				"blocked-edges/c.yaml": issueFile("B", "1.0.1", ".*"), "blocked-edges/d.yaml": issueFile("B", "1.0.1", "1.0.0"),
			},
			want: "1.0.0?1.0.1:B 1.0.1?1.0.2:B 1.0.0?1.0.2:A+B",
		},
		"a block wins over known issues": {
			releases: newReleases("1.0.0", "1.0.1"),
			files:    map[string]string{"blocked-edges/a.yaml": issueFile("A", "1.0.1", ".*"), "blocked-edges/b.yaml": "{to: 1.0.1, from: .*}"},
		},
		"two known issues of one name": {
			releases: newReleases("1.0.0", "1.0.1"),
			files: map[string]string{
				"blocked-edges/a.yaml": issueFile("A", "1.0.1", ".*"), "blocked-edges/b.yaml": strings.Replace(issueFile("A", "1.0.1", ".*"), "it happens", "something else happens", 1),
			},
			warnings: []string{`the update from 1.0.0+amd64 to 1.0.1+amd64 is left out: two different known issues of it are called "A"`},
		},
		"more known issues than clusters can report": {
			releases: newReleases("1.0.0", "1.0.1"), files: manyIssues(cincinnati.MaxRisks + 1),
			warnings: []string{`the update from 1.0.0+amd64 to 1.0.1+amd64 is left out: it has 201 known issues, more than the 200 that it may have`},
		},
		"missing edges have no known issues": {
			releases: newReleases("1.0.0", "1.0.1"), files: map[string]string{"blocked-edges/a.yaml": issueFile("A", "1.0.0", ".*")},
			want: "1.0.0>1.0.1",
		},
		"metadata removes a release": {
			releases: withMetadata(newReleases("1.0.0", "1.0.1", "1.0.2"), "1.0.1", "release.remove", "true"), want: "1.0.0>1.0.2",
		},
		"metadata adds and removes": {
			releases: withMetadata(withMetadata(withMetadata(withMetadata(newReleases("1.0.0", "1.0.1", "1.0.2", "1.0.3"),
				"1.0.2", "previous.remove", "1.0.0"), "1.0.1", "next.remove", "1.0.2"), "1.0.3", "previous.remove_regex", "1[.]0[.][12]"), "1.0.1", "next.add", "1.0.3,9.9.9"),
			want: "1.0.0>1.0.1 1.0.0>1.0.3",
		},
		"metadata adds": {
			releases: withMetadata([]Release{newReleases("1.0.0")[0], newReleases("1.0.1")[0]}, "1.0.1", "previous.add", "1.0.0"), want: "1.0.0>1.0.1",
		},
		"metadata removes all updates to a release": {
			releases: withMetadata(newReleases("1.0.0", "1.0.1", "1.0.2"), "1.0.2", "previous.remove", " * "), want: "1.0.0>1.0.1",
		},
		"metadata removes all updates from a release": {
			releases: withMetadata(newReleases("1.0.0", "1.0.1", "1.0.2"), "1.0.0", "next.remove", "*"), want: "1.0.1>1.0.2",
		},
		"a star removes updates with known issues too": {
			releases: withMetadata(newReleases("1.0.0", "1.0.1"), "1.0.1", "previous.remove", "*"), files: map[string]string{"blocked-edges/a.yaml": issueFile("A", "1.0.1", ".*")},
		},
		"entries that are not versions": {
			releases: withMetadata(withMetadata(newReleases("1.0.0", "1.0.1", "1.0.2"), "1.0.2", "previous.remove", "v1.0.1,,1.0.0, *"), "1.0.1", "next.add", "a,b,c,d,e,f,g,"),
			want:     "1.0.0>1.0.1 1.0.1>1.0.2",
			warnings: []string{
				`entries of metadata io.openshift.upgrades.graph.next.add of 1.0.1+amd64 are left out, because they are not semantic versions: "a", "b", "c", "d", "e", and 2 more`,
				`entries of metadata io.openshift.upgrades.graph.previous.remove of 1.0.2+amd64 are left out, because they are not semantic versions: "v1.0.1", " *"`,
			},
		},
		"an invalid previous version": {
			releases: []Release{{Version: "1.0.1", Architecture: "amd64", Payload: "r@sha256:1", Previous: []string{"4.1"}}},
			warnings: []string{`entries of previous of 1.0.1+amd64 are left out, because they are not semantic versions: "4.1"`},
		},
		"an invalid pattern": {
			releases: withMetadata(newReleases("1.0.0", "1.0.1"), "1.0.1", "previous.remove_regex", "("),
			warnings: []string{"all updates to 1.0.1+amd64 are left out: its metadata io.openshift.upgrades.graph.previous.remove_regex is not a regular expression"},
		},
		"metadata of the folder": {
			releases: newReleases("1.0.0", "1.0.1"), files: map[string]string{"raw/metadata.json": `{"1.0.1+amd64":{"io.openshift.upgrades.graph.release.remove":"true"}}`},
		},
		"the same version twice": {
			releases: append(newReleases("1.0.0", "1.0.1"), Release{Version: "1.0.1", Architecture: "amd64", Payload: "z@sha256:2"}),
			want:     "1.0.0>1.0.1", warnings: []string{"z@sha256:2 is left out: registry.example.com/release@sha256:1.0.1 has the same version and architecture, 1.0.1+amd64"},
		},
		"a release that was found twice": {releases: append(newReleases("1.0.0", "1.0.1"), newReleases("1.0.0", "1.0.1")...), want: "1.0.0>1.0.1"},
		"no version": {
			releases: append(newReleases("1.0.0"), Release{Version: "latest", Payload: "z@sha256:2"}),
			warnings: []string{`z@sha256:2 is left out: its version "latest" is not a semantic version`},
		},
		"itself": {
			releases: withMetadata(newReleases("1.0.0", "1.0.1"), "1.0.1", "previous.add", "1.0.1"), want: "1.0.0>1.0.1",
			warnings: []string{"1.0.1+amd64 lists itself as a version to update from or to"},
		},
		"a circle": {
			releases: withMetadata(newReleases("1.0.0", "1.0.1", "1.0.2"), "1.0.0", "previous.add", "1.0.2"), want: "1.0.0>1.0.1 1.0.0>1.0.2 1.0.1>1.0.2",
			warnings: []string{"the update from 1.0.2+amd64 to 1.0.0+amd64 is left out: it leads back in a circle of updates"},
		},
		"an update back without a circle": {
			releases: withMetadata([]Release{newReleases("1.0.0")[0], newReleases("1.0.1")[0]}, "1.0.0", "previous.add", "1.0.1"), want: "1.0.1>1.0.0",
		},
		"build metadata names the architecture": {
			releases: append(newReleases("1.0.0"), Release{
				Version: "1.0.1+custom", Architecture: "amd64", Payload: "r@sha256:1", Previous: []string{"1.0.0+amd64", "1.0.0+arm64"},
				Metadata: map[string]string{cincinnati.MetadataChannels: "stable"},
			}),
			want: "1.0.0>1.0.1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, warnings := Build(c.releases, loadData(t, c.files))
			if got := formatEdges(g, Query{"stable", "amd64"}); got != c.want {
				t.Errorf("got edges %q, want %q", got, c.want)
			}
			if diff := cmp.Diff(c.warnings, warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

// Architectures and channels are separate, and no version has build metadata.
func TestChannel(t *testing.T) {
	all := newReleases("1.0.0", "1.0.1", "1.0.2")
	for _, r := range newReleases("1.0.0", "1.0.1") {
		r.Architecture, r.Payload = Multi, r.Payload+"-multi"
		all = append(all, r)
	}

	data := loadData(t, map[string]string{
		"channels/fast.yaml":   "name: fast\nversions: [1.0.1, 1.0.2]",
		"channels/multi.yaml":  "name: several\nversions: [1.0.0+multi, 1.0.1]",
		"blocked-edges/a.yaml": issueFile("A", "1.0.2", "1.0.0"),
		"blocked-edges/b.yaml": issueFile("A", "1.0.1", ".*"),
		"blocked-edges/c.yaml": issueFile("C", "1.0.2", "1.0.1"),
	})

	g, warnings := Build(all, data)
	if len(warnings) > 0 {
		t.Errorf("got warnings %v, want none", warnings)
	}

	for q, want := range map[Query]string{
		{"stable", "amd64"}:  "1.0.0?1.0.1:A 1.0.0?1.0.2:A 1.0.1?1.0.2:C",
		{"fast", "amd64"}:    "1.0.1?1.0.2:C",
		{"several", "multi"}: "1.0.0?1.0.1:A",
		{"several", "amd64"}: "",
		{"stable", "arm64"}:  "",
		{"none", "amd64"}:    "",
	} {
		if got := formatEdges(g, q); got != want {
			t.Errorf("%v: got edges %q, want %q", q, got, want)
		}
	}

	want := []Query{{"fast", "amd64"}, {"fast", "multi"}, {"several", "amd64"}, {"several", "multi"}, {"stable", "amd64"}, {"stable", "multi"}}
	if diff := cmp.Diff(want, g.Queries()); diff != "" {
		t.Errorf("queries (-want +got):\n%s", diff)
	}

	part, err := g.Channel(Query{"several", "multi"}).Encode()
	if err != nil {
		t.Fatal(err)
	}

	golden.Check(t, "several-multi.json", append(part, '\n'))
}

// The graph does not depend on the order of the releases.
func TestDeterministic(t *testing.T) {
	var versions []string
	for i := range 40 {
		versions = append(versions, fmt.Sprintf("1.%d.%d", i/10, i%10))
	}

	all := newReleases(versions...)
	files := map[string]string{}
	for i := range 20 {
		files[fmt.Sprintf("blocked-edges/%d.yaml", i)] = issueFile(fmt.Sprint("Issue", i%7), versions[20+i], fmt.Sprintf("1[.]%d[.]", i%4))
	}

	data := loadData(t, files)
	encoded := func() string {
		g, _ := Build(all, data)
		bytes, err := g.Channel(Query{"stable", "amd64"}).Encode()
		if err != nil {
			t.Fatal(err)
		}
		return string(bytes)
	}

	first := encoded()
	if _, err := cincinnati.Parse([]byte(first)); err != nil {
		t.Errorf("parsing the graph as a client: %v", err)
	}

	random := rand.New(rand.NewPCG(1, 2))
	for range 5 {
		random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		if got := encoded(); got != first {
			t.Fatal("got a different graph with the releases in another order, want the same")
		}
	}
}

// Clients can parse the graph of any releases.
func FuzzBuild(f *testing.F) {
	f.Add(uint64(1), "previous.add", "1.0.3,1.0.9", ".*")
	f.Add(uint64(7), "previous.remove_regex", "1.0.[0-4]", "1[.]0")
	f.Fuzz(func(t *testing.T, seed uint64, key, value, from string) {
		if len(key)+len(value)+len(from) > 300 {
			t.Skip("the input exceeds the size that this test covers")
		}

		random := rand.New(rand.NewPCG(seed, seed))
		var all []Release
		version := func() string { return fmt.Sprintf("1.0.%d", random.IntN(12)) }
		for range 16 {
			all = append(all, Release{
				Version: version(), Architecture: "amd64", Payload: "r@sha256:" + version(), Previous: []string{version(), version()}, Next: []string{version()},
				Metadata: map[string]string{cincinnati.MetadataChannels: "stable"},
			})
		}

		all[random.IntN(len(all))].Metadata[keyPrefix+key] = value
		data, err := Load(newFolder(map[string]string{"blocked-edges/a.yaml": issueFile("A", version(), strings.ReplaceAll(from, "'", ""))}))
		if err != nil {
			data = nil
		}

		g, _ := Build(all, data)
		bytes, err := g.Channel(Query{"stable", "amd64"}).Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := cincinnati.Parse(bytes); err != nil {
			t.Fatalf("%v\n%s", err, bytes)
		}
	})
}

func FuzzParseChannel(f *testing.F) {
	f.Add([]byte("name: stable-4.1\nversions:\n- 4.1.0\n- 4.1.1+amd64\n"))
	f.Add([]byte("name: &a [*a]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 8<<10 {
			t.Skip("the input exceeds the size that this test covers")
		}
		file, err := parseChannel(data)
		if err == nil && (!channelPattern.MatchString(file.Name) || slices.Contains(file.Versions, "")) {
			t.Errorf("got invalid channel %+v accepted, want an error", file)
		}
	})
}

func FuzzParseBlock(f *testing.F) {
	f.Add([]byte("to: 4.1.1\nfrom: 4[.]1[.].*\n"))
	f.Add([]byte(issueFile("A", "4.1.1", ".*")))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 8<<10 {
			t.Skip("the input exceeds the size that this test covers")
		}
		to, b, err := parseBlockedEdge(data)
		if err == nil && (to == "" || b.from == nil || b.risk != nil && (b.risk.Name == "" || len(b.risk.MatchingRules) == 0)) {
			t.Errorf("got invalid block of %q, %+v accepted, want an error", to, b)
		}
	})
}

// Building a large graph takes far less time than the interval between two scans.
func BenchmarkBuild(b *testing.B) {
	var all []Release
	for i := range 5000 {
		r := Release{
			Version: fmt.Sprintf("4.%d.%d", i/100, i%100), Architecture: "amd64", Payload: fmt.Sprintf("r@sha256:%064x", i),
			Metadata: map[string]string{cincinnati.MetadataChannels: fmt.Sprintf("fast-4.%[1]d,stable-4.%[1]d,everything", i/100)},
		}
		for j := max(0, i-12); j < i; j++ {
			r.Previous = append(r.Previous, fmt.Sprintf("4.%d.%d", j/100, j%100))
		}
		all = append(all, r)
	}

	files := map[string]string{}
	for i := range 1000 {
		files[fmt.Sprintf("blocked-edges/%d.yaml", i)] = issueFile(fmt.Sprint("Issue", i%50), fmt.Sprintf("4.%d.%d", i/20, i%100), fmt.Sprintf("4[.]%d[.].*", i/20))
	}

	data := loadData(b, files)
	for b.Loop() {
		if g, _ := Build(all, data); g.Releases() != 5000 {
			b.Fatal(g.Releases())
		}
	}
}
