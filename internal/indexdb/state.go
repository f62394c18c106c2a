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

// packageState is a package as it stands in an index, with the bundles that are to be
// added to it.
type packageState struct {
	name           string
	defaultChannel string
	// members are the bundles that channels of the package name, those to be added, and
	// what they replace.
	members map[string]*member
	graphs  map[string]channelGraph
	// overwritten are the bundles whose rows were removed, to be added anew.
	overwritten map[string]bool
}

// loadPackage reads a package. One that does not exist is empty.
func loadPackage(ctx context.Context, q querier, name string) (*packageState, error) {
	s := &packageState{name: name, members: map[string]*member{}, overwritten: map[string]bool{}}
	var err error
	if s.defaultChannel, _, err = text(ctx, q, `SELECT CAST(default_channel AS TEXT) FROM package WHERE name = ?`, name); err != nil {
		return nil, err
	}
	if s.graphs, err = loadGraphs(ctx, q, name); err != nil {
		return nil, err
	}

	for _, channel := range slices.Sorted(maps.Keys(s.graphs)) {
		graph := s.graphs[channel]
		for _, bundle := range graph.names() {
			m, err := s.member(ctx, q, bundle)
			if err != nil {
				return nil, err
			}
			// A bundle that is only skipped was left behind by what skips it.
			if m != nil && slices.Contains(graph.chain, bundle) {
				m.channels = append(m.channels, channel)
			}
		}
	}

	return s, nil
}

// loadGraphs reads the channels of a package.
func loadGraphs(ctx context.Context, q querier, pkg string) (map[string]channelGraph, error) {
	rows, err := q.QueryContext(ctx, selectEntries+` WHERE e.package_name = ?1 `+orderEntries, pkg)
	if err != nil {
		return nil, err
	}

	entries, n := map[string][]entry{}, 0
	err = scan(rows, func() error {
		if n++; n > maxEntries {
			return fmt.Errorf("%w: the channels of package %q have more than %d entries", ErrTooLarge, pkg, maxEntries)
		}

		var of, channel string
		var e entry
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
		head, _, err := text(ctx, q, `SELECT CAST(head_operatorbundle_name AS TEXT) FROM channel WHERE name = ? AND package_name = ?`, channel, pkg)
		if err != nil {
			return nil, err
		}
		graphs[channel] = readGraph(head, list)
	}

	return graphs, nil
}

const (
	selectEntries = `SELECT coalesce(CAST(e.package_name AS TEXT), ''), coalesce(CAST(e.channel_name AS TEXT), ''), CAST(e.operatorbundle_name AS TEXT),
			e.entry_id, coalesce(t.entry_id, 0), coalesce(CAST(t.operatorbundle_name AS TEXT), '')
		FROM channel_entry e LEFT JOIN channel_entry t ON t.entry_id = e.replaces`
	orderEntries = ` ORDER BY CAST(e.package_name AS TEXT), CAST(e.channel_name AS TEXT), CAST(e.depth AS INTEGER), e.entry_id`
)

// scanEntry reads a row of selectEntries. The name of the bundle is empty for a row
// without one.
func scanEntry(rows *sql.Rows, pkg, channel *string, e *entry) error {
	var bundle sql.NullString
	err := rows.Scan(pkg, channel, &bundle, &e.id, &e.to, &e.toBundle)
	e.bundle = bundle.String
	return err
}

// member returns the bundle of a name, read from the index if it is not known yet, and nil
// if there is none.
func (s *packageState) member(ctx context.Context, q querier, name string) (*member, error) {
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

	m := &member{
		name: name, version: version.String, image: path.String,
		replaces: replaces.String, skips: splitNames(skips.String), substitutesFor: substitutesFor.String,
	}
	if m.deprecated, err = isDeprecated(ctx, q, name); err != nil {
		return nil, err
	}

	s.members[name] = m
	return m, nil
}

// addMember takes in a bundle to be added.
func (s *packageState) addMember(b *Bundle) {
	channels := slices.Sorted(slices.Values(b.Channels))
	s.members[b.Name] = &member{
		name: b.Name, version: b.Version, image: b.Image,
		replaces: b.Replaces, skips: splitNames(strings.Join(b.Skips, ",")), substitutesFor: b.SubstitutesFor,
		channels: slices.Compact(channels), defaultChannel: b.DefaultChannel,
		added: true,
	}
}

// follow reads what the members replace, down to the last, even if no channel names it.
func (s *packageState) follow(ctx context.Context, q querier) error {
	next := slices.Sorted(maps.Keys(s.members))
	for len(next) > 0 {
		replaced := s.members[next[0]].replaces
		next = next[1:]
		if _, known := s.members[replaced]; known {
			continue
		}

		m, err := s.member(ctx, q, replaced)
		if err != nil {
			return err
		}
		if m != nil {
			next = append(next, replaced)
		}
	}

	return nil
}

// splitNames splits a list with commas.
func splitNames(list string) []string {
	var names []string
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// writePlan lays down what a package is to become. Channels that are not in the plan stay.
func writePlan(ctx context.Context, q querier, s *packageState, p *plan) error {
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

	_, err := q.ExecContext(ctx, `INSERT INTO package (name, default_channel) VALUES (?, ?)`, s.name, orNull(p.defaultChannel))
	return err
}

// writeChannel replaces a channel by rows. Without rows there is no such channel.
func writeChannel(ctx context.Context, q querier, pkg, channel string, rows []row) error {
	if _, err := q.ExecContext(ctx, `DELETE FROM channel WHERE package_name = ? AND name = ?`, pkg, channel); err != nil {
		return err
	}
	// Rows of a channel that was not there before are those of a strange hand.
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
		if r.replaces != none {
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
