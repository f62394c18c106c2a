package indexdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// packageState is a package of an index, with the bundles that are to be added to it.
type packageState struct {
	name           string
	defaultChannel string
	// members are the bundles in channels of the package, the added bundles, and the
	// bundles that they replace.
	members map[string]*packageMember
	graphs  map[string]channelGraph
	// overwritten are the bundles that were removed to be added again.
	overwritten map[string]bool
}

// loadPackageState reads a package. It is empty if the package does not exist.
func loadPackageState(ctx context.Context, q querier, name string) (*packageState, error) {
	s := &packageState{name: name, members: map[string]*packageMember{}, overwritten: map[string]bool{}}
	var err error
	if s.defaultChannel, _, err = queryText(ctx, q, `SELECT CAST(default_channel AS TEXT) FROM package WHERE name = ?`, name); err != nil {
		return nil, err
	}
	if s.graphs, err = loadChannelGraphs(ctx, q, name); err != nil {
		return nil, err
	}

	for _, channel := range slices.Sorted(maps.Keys(s.graphs)) {
		graph := s.graphs[channel]
		for _, bundle := range graph.bundleNames() {
			m, err := s.loadMember(ctx, q, bundle)
			if err != nil {
				return nil, err
			}
			// A bundle that is only skipped is no longer in the channel itself.
			if m != nil && slices.Contains(graph.chain, bundle) {
				m.channels = append(m.channels, channel)
			}
		}
	}

	return s, nil
}

// loadChannelGraphs reads the channels of a package.
func loadChannelGraphs(ctx context.Context, q querier, pkg string) (map[string]channelGraph, error) {
	rows, err := q.QueryContext(ctx, selectEntries+` WHERE e.package_name = ?1 `+orderEntries, pkg)
	if err != nil {
		return nil, err
	}

	entries, n := map[string][]storedEntry{}, 0
	err = forEachRow(rows, func() error {
		if n++; n > maxChannelEntries {
			return fmt.Errorf("%w: the channels of package %q have more than %d entries", ErrTooLarge, pkg, maxChannelEntries)
		}

		var of, channel string
		var e storedEntry
		err := scanEntry(rows, &of, &channel, &e)
		if e.bundle != "" {
			entries[channel] = append(entries[channel], e)
		}

		return err
	})
	if err != nil {
		return nil, err
	}

	graphs := map[string]channelGraph{}
	for channel, list := range entries {
		head, _, err := queryText(ctx, q, `SELECT CAST(head_operatorbundle_name AS TEXT) FROM channel WHERE name = ? AND package_name = ?`, channel, pkg)
		if err != nil {
			return nil, err
		}
		graphs[channel] = buildChannelGraph(head, list)
	}

	return graphs, nil
}

const (
	selectEntries = `SELECT coalesce(CAST(e.package_name AS TEXT), ''), coalesce(CAST(e.channel_name AS TEXT), ''), CAST(e.operatorbundle_name AS TEXT),
			e.entry_id, coalesce(t.entry_id, 0), coalesce(CAST(t.operatorbundle_name AS TEXT), '')
		FROM channel_entry e LEFT JOIN channel_entry t ON t.entry_id = e.replaces`
	orderEntries = ` ORDER BY CAST(e.package_name AS TEXT), CAST(e.channel_name AS TEXT), CAST(e.depth AS INTEGER), e.entry_id`
)

// scanEntry scans a row of selectEntries. The name of the bundle is empty for a row without
// one.
func scanEntry(rows *sql.Rows, pkg, channel *string, e *storedEntry) error {
	var bundle sql.NullString
	err := rows.Scan(pkg, channel, &bundle, &e.id, &e.to, &e.toBundle)
	e.bundle = bundle.String
	return err
}

// loadMember returns the bundle of a name, or nil if there is none. It reads an unknown
// bundle from the index and adds it to the members.
func (s *packageState) loadMember(ctx context.Context, q querier, name string) (*packageMember, error) {
	if m, found := s.members[name]; found || name == "" {
		return m, nil
	}

	var version, path, replaces, skips, substitutesFor sql.NullString
	err := q.QueryRowContext(ctx, `SELECT CAST(version AS TEXT), CAST(bundlepath AS TEXT), CAST(replaces AS TEXT), CAST(skips AS TEXT), CAST(substitutesfor AS TEXT)
		FROM operatorbundle WHERE name = ?`, name).Scan(&version, &path, &replaces, &skips, &substitutesFor)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}

	m := &packageMember{
		name: name, version: version.String, image: path.String,
		replaces: replaces.String, skips: splitNameList(skips.String), substitutesFor: substitutesFor.String,
	}
	if m.deprecated, err = isDeprecated(ctx, q, name); err != nil {
		return nil, err
	}

	s.members[name] = m
	return m, nil
}

// addMember adds a new bundle to the members.
func (s *packageState) addMember(b *Bundle) {
	channels := slices.Sorted(slices.Values(b.Channels))
	s.members[b.Name] = &packageMember{
		name: b.Name, version: b.Version, image: b.Image,
		replaces: b.Replaces, skips: splitNameList(strings.Join(b.Skips, ",")), substitutesFor: b.SubstitutesFor,
		channels: slices.Compact(channels), defaultChannel: b.DefaultChannel,
		added: true,
	}
}

// loadReplacedMembers loads all bundles that the members replace, directly or indirectly,
// even if no channel names them.
func (s *packageState) loadReplacedMembers(ctx context.Context, q querier) error {
	next := slices.Sorted(maps.Keys(s.members))
	for len(next) > 0 {
		replaced := s.members[next[0]].replaces
		next = next[1:]
		if _, known := s.members[replaced]; known {
			continue
		}

		m, err := s.loadMember(ctx, q, replaced)
		if err != nil {
			return err
		}
		if m != nil {
			next = append(next, replaced)
		}
	}

	return nil
}

// splitNameList splits a list with commas.
func splitNameList(list string) []string {
	var names []string
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// writePlan writes the planned state of a package. Channels that are not in the plan stay
// unchanged.
func writePlan(ctx context.Context, q querier, s *packageState, p *packagePlan) error {
	for _, m := range p.rewritten {
		_, err := q.ExecContext(ctx, `UPDATE operatorbundle SET replaces = ?, skips = ? WHERE name = ?`, m.replaces, strings.Join(m.skips, ","), m.name)
		if err != nil {
			return err
		}
	}

	if _, err := q.ExecContext(ctx, `DELETE FROM package WHERE name = ?`, s.name); err != nil {
		return err
	}

	for _, channel := range slices.Sorted(maps.Keys(p.channels)) {
		if err := writeChannel(ctx, q, s.name, channel, p.channels[channel]); err != nil {
			return err
		}
	}

	_, err := q.ExecContext(ctx, `INSERT INTO package (name, default_channel) VALUES (?, ?)`, s.name, nullIfEmpty(p.defaultChannel))
	return err
}

// writeChannel replaces the rows of a channel. Without rows, it removes the channel.
func writeChannel(ctx context.Context, q querier, pkg, channel string, rows []channelRow) error {
	if _, err := q.ExecContext(ctx, `DELETE FROM channel WHERE package_name = ? AND name = ?`, pkg, channel); err != nil {
		return err
	}
	// Another program may have left rows without a channel.
	if _, err := q.ExecContext(ctx, `DELETE FROM channel_entry WHERE package_name = ? AND channel_name = ?`, pkg, channel); err != nil {
		return err
	}
	if len(rows) == 0 {
		return nil
	}

	_, err := q.ExecContext(ctx, `INSERT INTO channel (name, package_name, head_operatorbundle_name) VALUES (?, ?, ?)`, channel, pkg, rows[0].bundle)
	if err != nil {
		return err
	}

	var first int64
	err = q.QueryRowContext(ctx, `SELECT coalesce(max(entry_id), 0) + 1 FROM channel_entry`).Scan(&first)
	if err != nil {
		return err
	}

	for i, r := range rows {
		var replaces any
		if r.replaces != noRow {
			replaces = first + int64(r.replaces)
		}
		_, err := q.ExecContext(ctx, `INSERT INTO channel_entry (entry_id, channel_name, package_name, operatorbundle_name, replaces, depth) VALUES (?, ?, ?, ?, ?, ?)`,
			first+int64(i), channel, pkg, r.bundle, replaces, r.depth)
		if err != nil {
			return err
		}
	}

	return nil
}
