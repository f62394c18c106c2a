package indexdb

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/fbc/jsontext"
)

// smallDatabase returns a valid database of a few pages.
func smallDatabase(f *testing.F, level int) []byte {
	f.Helper()
	path := filepath.Join(f.TempDir(), "index.db")
	ctx := context.Background()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		f.Fatal(err)
	}

	conn, err := openConnection(ctx, path, readWrite)
	if err != nil {
		f.Fatal(err)
	}
	defer conn.close()

	if _, err := conn.ExecContext(ctx, `PRAGMA page_size = 512`); err != nil {
		f.Fatal(err)
	}

	if level < LatestLevel {
		for _, statement := range levelZero {
			if _, err := conn.ExecContext(ctx, statement); err != nil {
				f.Fatal(err)
			}
		}
	}

	if err := conn.migrateWithSteps(ctx, Options{}, migrations[:level+1]); err != nil {
		f.Fatal(err)
	}

	if level == LatestLevel {
		tx, err := conn.BeginTx(ctx, nil)
		if err != nil {
			f.Fatal(err)
		}

		e := &Editor{tx: tx}
		if err := e.Add(ctx, []Bundle{bundleSpec{version: "1.0.0", channels: "a"}.newBundle(f)}, AddOptions{}); err != nil {
			f.Fatal(err)
		}
		if err := tx.Commit(); err != nil {
			f.Fatal(err)
		}
	}

	content, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}

	return content
}

// FuzzOpen checks that any file is read, edited or rejected, and that its content is a
// valid text of a catalog. The input is a patch on a database, so that few bytes have an
// effect, or the patch alone.
func FuzzOpen(f *testing.F) {
	bases := [][]byte{smallDatabase(f, 0), smallDatabase(f, 5), smallDatabase(f, LatestLevel), nil}
	for i, base := range bases {
		f.Add(uint8(i), uint32(0), []byte(nil), uint16(0))
		for offset := 0; offset < len(base); offset += 512 {
			f.Add(uint8(i), uint32(offset), []byte{0x0d, 0xff, 0, 0x7f, 0xff}, uint16(0))
		}
	}

	f.Add(uint8(3), uint32(0), []byte(sqliteMagic), uint16(0))
	f.Add(uint8(3), uint32(0), []byte("schema: olm.package"), uint16(0))
	f.Add(uint8(2), uint32(28), []byte{0xff, 0xff, 0xff, 0xff}, uint16(700))
	f.Fuzz(func(t *testing.T, base uint8, offset uint32, patch []byte, cut uint16) {
		content := slices.Clone(bases[int(base)%len(bases)])
		at := int(offset) % (len(content) + 1)
		content = append(content, make([]byte, max(0, at+len(patch)-len(content)))...)
		copy(content[at:], patch)
		content = content[:len(content)-min(len(content), int(cut))]
		d := newFixture(t)
		if err := os.WriteFile(d.path, content, 0o600); err != nil {
			t.Fatal(err)
		}

		checkMetas(t, d)
		err := d.editIndex(func(e *Editor) error {
			ctx := context.Background()
			if err := e.Add(ctx, []Bundle{bundleSpec{version: "9.0.0", channels: "a"}.newBundle(t)}, AddOptions{Mode: ModeSemver}); err != nil {
				return err
			}
			return e.PruneStranded(ctx)
		})

		after, readErr := os.ReadFile(d.path)
		if readErr != nil {
			t.Fatal(readErr)
		}
		if err != nil && string(after) != string(content) {
			t.Fatalf("a failed edit changed the file: %v", err)
		}

		checkMetas(t, d)
	})
}

// checkMetas reads the whole database, and checks the result.
func checkMetas(t *testing.T, d *fixture) {
	t.Helper()
	metas, err := d.readMetas()
	if err != nil && len(err.Error()) > 10_000 {
		t.Fatalf("got an error of %d bytes, want a shorter one", len(err.Error()))
	}

	for _, meta := range metas {
		compact, n, err := jsontext.Compact(nil, meta.Blob, maxNestingDepth)
		if err != nil || n != len(meta.Blob) || string(compact) != string(meta.Blob) {
			t.Fatalf("%s is not canonical: %v: %s", meta, err, meta.Blob)
		}
		switch meta.Schema {
		case fbc.SchemaPackage:
			_, err = fbc.DecodePackage(meta)
		case fbc.SchemaChannel:
			_, err = fbc.DecodeChannel(meta)
		case fbc.SchemaBundle:
			_, err = fbc.DecodeBundle(meta)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// FuzzRows checks that rows with any values are read or rejected.
func FuzzRows(f *testing.F) {
	f.Add("p.v1.0.0", "1.0.0", "x", `{"spec":{"relatedImages":[{"name":"a","image":"b"}]}}`, "olm.gvk", `{"group":"g"}`, uint64(0))
	f.Add("", "", "", "", "", "", uint64(0xffff))
	f.Add("a\x00b", "\xff", "../x", "{", "olm.package", "[[[[", uint64(0x5555))
	f.Add("n", "v", "i", `{"spec":{"icon":[{"base64data":"eA==","mediatype":"m"}]}}`, "olm.deprecated", "{}", uint64(0xaaaa))
	f.Add("p.v9", "\xff.0.0", "\x16\xffx", `{"kind":"ClusterServiceVersion"}`, "olm.gvk", `{"guorp":"g"}`, uint64(0))
	template := smallDatabase(f, LatestLevel)
	f.Fuzz(func(t *testing.T, name, version, image, csv, propertyType, value string, kinds uint64) {
		d := newFixture(t)
		if err := os.WriteFile(d.path, template, 0o600); err != nil {
			t.Fatal(err)
		}

		// Two bits of kinds select the type of a stored value.
		store := func(text string) any {
			kind := kinds & 3
			kinds >>= 2
			return []any{text, []byte(text), nil, len(text)}[kind]
		}
		ctx := context.Background()
		conn, err := openConnection(ctx, d.path, readWrite)
		if err != nil {
			t.Fatal(err)
		}

		insert := func(statement string, values ...any) {
			if _, err := conn.ExecContext(ctx, statement, values...); err != nil {
				t.Logf("%s: %v", statement, err)
			}
		}
		insert(`INSERT INTO operatorbundle (name, version, bundlepath, csv, bundle, skiprange) VALUES (?, ?, ?, ?, ?, ?)`,
			name, store(version), store(image), store(csv), store(csv), store(value))
		insert(`INSERT INTO package (name, default_channel) VALUES (?, ?)`, store("q"), store(name))
		insert(`INSERT INTO channel (name, package_name, head_operatorbundle_name) VALUES (?, 'q', ?)`, name, store(name))
		insert(`INSERT INTO channel_entry (channel_name, package_name, operatorbundle_name, replaces, depth) VALUES (?, 'q', ?, ?, ?)`, name, name, store("x"), store(version))
		insert(`INSERT INTO properties (type, value, operatorbundle_name) VALUES (?, ?, ?)`, store(propertyType), store(value), name)
		insert(`INSERT INTO dependencies (type, value, operatorbundle_name) VALUES (?, ?, ?)`, store(propertyType), store(value), name)
		insert(`INSERT INTO related_image (image, operatorbundle_name) VALUES (?, ?)`, store(image), name)
		conn.close()
		checkMetas(t, d)
		err = d.editIndex(func(e *Editor) error {
			for _, part := range []func() error{
				func() error { return e.DeprecateTruncate(ctx, []string{image}, DeprecateOptions{}) },
				func() error {
					return e.Add(ctx, []Bundle{bundleSpec{pkg: "q", version: "9.0.0", channels: "a", replaces: name}.newBundle(t)}, AddOptions{})
				},
				func() error { return e.RemovePackages(ctx, []string{"q"}, false) },
			} {
				if err := part(); err != nil {
					t.Log(err)
				}
			}
			return nil
		})
		if err != nil {
			t.Log(err)
		}

		checkMetas(t, d)
	})
}

// FuzzPlan checks that planned channels contain every added bundle, and are valid channels
// of a file-based catalog.
func FuzzPlan(f *testing.F) {
	f.Add([]byte{1, 0, 0, 2, 1, 0, 3, 2, 0}, uint8(0))
	f.Add([]byte{1, 0, 0, 2, 1, 9, 3, 2, 4, 4, 1, 7}, uint8(1))
	f.Add([]byte{1, 0, 0, 2, 1, 9, 3, 2, 4, 4, 1, 7}, uint8(2))
	f.Add([]byte{1, 0, 0, 2, 0x81, 9, 3, 0x92, 4, 4, 1, 7}, uint8(0))
	f.Fuzz(func(t *testing.T, text []byte, mode uint8) {
		if len(text) > 60 {
			t.Skip("long lists cover nothing more than short ones")
		}
		state := &packageState{name: "p", members: map[string]*packageMember{}, graphs: map[string]channelGraph{}}
		for batch := range slices.Chunk(text, 9) {
			for _, m := range state.members {
				m.added = false
			}

			for g := range slices.Chunk(batch, 3) {
				if len(g) == 3 {
					addFuzzed(state, g)
				}
			}

			p, err := planFuzzed(state, mode)
			if err != nil || p.checkAddedReachable("p", state.members) != nil {
				return // The bundle is rejected, and nothing is written.
			}

			for channel, rows := range p.channels {
				state.graphs[channel] = checkRows(t, channel, rows)
			}

			state.defaultChannel = p.defaultChannel
		}
	})
}

// addFuzzed adds a bundle that three bytes define: its version, its edges and its channels.
func addFuzzed(state *packageState, g []byte) {
	name := func(n byte) string { return fmt.Sprintf("v%d", n&0xf) }
	m := &packageMember{
		name: name(g[0]), version: fmt.Sprintf("%d.%d.0+%d", g[0]&0xf>>2, g[0]&3, g[0]>>6), added: true,
		channels: []string{string(rune('a' + g[2]&1))}, defaultChannel: "a",
	}
	if state.members[m.name] != nil {
		return
	}
	if g[1]&0xf != 0 {
		m.replaces = name(g[1])
	}
	if g[1]&0x40 != 0 {
		m.skips = []string{name(g[1] >> 2), name(g[2] >> 3)}
	}
	if g[1]&0x80 != 0 {
		m.substitutesFor = name(g[2] >> 1)
	}

	state.members[m.name] = m
}

func planFuzzed(state *packageState, mode uint8) (*packagePlan, error) {
	if mode%3 == 0 {
		return planReplaces("p", state.members, state.defaultChannel)
	}
	return planSemver(state, mode%3 == 2)
}

// checkRows checks the invariants of a channel, and returns it as it would be read again.
func checkRows(t *testing.T, channel string, rows []channelRow) channelGraph {
	t.Helper()
	var entries []storedEntry
	for i, r := range rows {
		e := storedEntry{id: int64(i + 1), bundle: r.bundle}
		if r.replaces != noRow {
			e.to, e.toBundle = int64(r.replaces+1), rows[r.replaces].bundle
		}
		entries = append(entries, e)
	}

	slices.SortStableFunc(entries, func(a, b storedEntry) int { return rows[a.id-1].depth - rows[b.id-1].depth })
	graph := buildChannelGraph(rows[0].bundle, entries)
	reached := graph.bundlesBelow(graph.head)
	for _, name := range graph.bundleNames() {
		if name != graph.head && !reached[name] {
			t.Fatalf("channel %s: got no edge to %s: %v", channel, name, graph)
		}
		if e := graph.edges[name]; e.replaces == name || slices.Contains(e.skips, name) || e.replaces != "" && slices.Contains(e.skips, e.replaces) {
			t.Fatalf("channel %s: got an edge of %s to itself, or two to another bundle: %v", channel, name, e)
		}
	}

	if len(graph.chain) != len(slices.Compact(slices.Sorted(slices.Values(graph.chain)))) {
		t.Fatalf("channel %s: got a cycle: %v", channel, strings.Join(graph.chain, " "))
	}

	return graph
}
