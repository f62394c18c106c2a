package indexdb

// The migrations from an empty database to the latest level. Databases of each level exist,
// so a statement here must never change.

var migrations = []migration{
	{0, newStatementsStep(
		`CREATE TABLE IF NOT EXISTS operatorbundle (name TEXT PRIMARY KEY, csv TEXT UNIQUE, bundle TEXT)`,
		`CREATE TABLE IF NOT EXISTS package (
			name TEXT PRIMARY KEY, default_channel TEXT,
			FOREIGN KEY (name, default_channel) REFERENCES channel (package_name, name))`,
		`CREATE TABLE IF NOT EXISTS channel (
			name TEXT, package_name TEXT, head_operatorbundle_name TEXT,
			PRIMARY KEY (name, package_name),
			FOREIGN KEY (package_name) REFERENCES package (name),
			FOREIGN KEY (head_operatorbundle_name) REFERENCES operatorbundle (name))`,
		`CREATE TABLE IF NOT EXISTS channel_entry (
			entry_id INTEGER PRIMARY KEY, channel_name TEXT, package_name TEXT, operatorbundle_name TEXT, replaces INTEGER, depth INTEGER,
			FOREIGN KEY (replaces) REFERENCES channel_entry (entry_id) DEFERRABLE INITIALLY DEFERRED,
			FOREIGN KEY (channel_name, package_name) REFERENCES channel (name, package_name))`,
		`CREATE TABLE IF NOT EXISTS api (
			group_name TEXT, version TEXT, kind TEXT, plural TEXT NOT NULL,
			PRIMARY KEY (group_name, version, kind))`,
		`CREATE TABLE IF NOT EXISTS api_provider (
			group_name TEXT, version TEXT, kind TEXT, channel_entry_id INTEGER,
			FOREIGN KEY (channel_entry_id) REFERENCES channel_entry (entry_id),
			FOREIGN KEY (group_name, version, kind) REFERENCES api (group_name, version, kind))`,
	)},
	{1, combineSteps(
		newStatementsStep(`CREATE TABLE IF NOT EXISTS related_image (
			image TEXT, operatorbundle_name TEXT,
			FOREIGN KEY (operatorbundle_name) REFERENCES operatorbundle (name))`),
		fillRelatedImages,
	)},
	{2, newStatementsStep(`ALTER TABLE operatorbundle ADD COLUMN bundlepath TEXT`)},
	{3, combineSteps(
		newStatementsStep(`CREATE TABLE IF NOT EXISTS api_requirer (
			group_name TEXT, version TEXT, kind TEXT, channel_entry_id INTEGER,
			FOREIGN KEY (channel_entry_id) REFERENCES channel_entry (entry_id),
			FOREIGN KEY (group_name, version, kind) REFERENCES api (group_name, version, kind))`),
		fillRequirers,
	)},
	{4, combineSteps(
		rebuildTable("operatorbundle", `(name TEXT PRIMARY KEY, csv TEXT, bundle TEXT, bundlepath TEXT)`, `name, csv, bundle, bundlepath`),
		rebuildTable("package", `(
			name TEXT PRIMARY KEY, default_channel TEXT,
			FOREIGN KEY (name, default_channel) REFERENCES channel (package_name, name) ON DELETE CASCADE)`, `name, default_channel`),
		rebuildTable("channel", `(
			name TEXT, package_name TEXT, head_operatorbundle_name TEXT,
			PRIMARY KEY (name, package_name),
			FOREIGN KEY (head_operatorbundle_name) REFERENCES operatorbundle (name) ON DELETE CASCADE)`, `name, package_name, head_operatorbundle_name`),
		rebuildTable("channel_entry", `(
			entry_id INTEGER PRIMARY KEY, channel_name TEXT, package_name TEXT, operatorbundle_name TEXT, replaces INTEGER, depth INTEGER,
			FOREIGN KEY (replaces) REFERENCES channel_entry (entry_id) DEFERRABLE INITIALLY DEFERRED,
			FOREIGN KEY (channel_name, package_name) REFERENCES channel (name, package_name) ON DELETE CASCADE)`,
			`entry_id, channel_name, package_name, operatorbundle_name, replaces, depth`),
		rebuildTable("api_provider", apisOfEntries, `group_name, version, kind, channel_entry_id`),
		rebuildTable("api_requirer", apisOfEntries, `group_name, version, kind, channel_entry_id`),
		rebuildTable("related_image", `(
			image TEXT, operatorbundle_name TEXT,
			FOREIGN KEY (operatorbundle_name) REFERENCES operatorbundle (name) ON DELETE CASCADE)`, `image, operatorbundle_name`),
	)},
	{5, combineSteps(
		newStatementsStep(
			`ALTER TABLE operatorbundle ADD COLUMN skiprange TEXT`,
			`ALTER TABLE operatorbundle ADD COLUMN version TEXT`,
		),
		fillVersions,
	)},
	{6, combineSteps(
		newStatementsStep(`CREATE UNIQUE INDEX IF NOT EXISTS pk ON operatorbundle (name, version, bundlepath)`),
		rekeyAPITable("api_provider"), rekeyAPITable("api_requirer"),
	)},
	{7, combineSteps(
		newStatementsStep(
			`ALTER TABLE operatorbundle ADD COLUMN replaces TEXT`,
			`ALTER TABLE operatorbundle ADD COLUMN skips TEXT`,
		),
		fillEdges,
		createTriggers,
	)},
	{8, combineSteps(
		newStatementsStep(`CREATE TABLE IF NOT EXISTS dependencies `+propertyColumns),
		newStatementsStep(`INSERT INTO dependencies (type, value, operatorbundle_name, operatorbundle_version, operatorbundle_path)
			SELECT DISTINCT 'olm.gvk', CAST(json_object('group', group_name, 'kind', kind, 'type', 'olm.gvk', 'version', version) AS BLOB),
				operatorbundle_name, operatorbundle_version, operatorbundle_path
			FROM api_requirer`),
	)},
	{9, combineSteps(
		newStatementsStep(`CREATE TABLE IF NOT EXISTS properties `+propertyColumns),
		newStatementsStep(
			`INSERT INTO properties (type, value, operatorbundle_name, operatorbundle_version, operatorbundle_path)
				SELECT DISTINCT 'olm.gvk', json_object('group', group_name, 'kind', kind, 'version', version),
					operatorbundle_name, operatorbundle_version, operatorbundle_path
				FROM api_provider`,
			`INSERT INTO properties (type, value, operatorbundle_name, operatorbundle_version, operatorbundle_path)
				SELECT DISTINCT 'olm.package', json_object('packageName', e.package_name, 'version', b.version), b.name, b.version, b.bundlepath
				FROM channel_entry e JOIN operatorbundle b ON b.name = e.operatorbundle_name
				WHERE b.version IS NOT NULL`,
			`UPDATE dependencies SET value = CAST(json_remove(CAST(value AS TEXT), '$.type') AS BLOB) WHERE json_valid(CAST(value AS TEXT))`,
		),
	)},
	{10, newStatementsStep(`UPDATE properties SET operatorbundle_path = (
			SELECT nullif(b.bundlepath, '') FROM operatorbundle b WHERE b.name = properties.operatorbundle_name)
		WHERE EXISTS (SELECT 1 FROM operatorbundle b WHERE b.name = properties.operatorbundle_name)`)},
	{11, newStatementsStep(`ALTER TABLE operatorbundle ADD COLUMN substitutesfor TEXT`)},
	{12, newStatementsStep(
		`CREATE TABLE IF NOT EXISTS deprecated (operatorbundle_name TEXT PRIMARY KEY)`,
		`INSERT OR IGNORE INTO deprecated (operatorbundle_name) SELECT operatorbundle_name FROM properties
			WHERE type = 'olm.deprecated' AND operatorbundle_name IS NOT NULL`,
	)},
	{13, newStatementsStep(`DELETE FROM deprecated WHERE operatorbundle_name NOT IN (SELECT name FROM operatorbundle WHERE name IS NOT NULL)`)},
}

const (
	apisOfEntries = `(
		group_name TEXT, version TEXT, kind TEXT, channel_entry_id INTEGER,
		FOREIGN KEY (channel_entry_id) REFERENCES channel_entry (entry_id) ON DELETE CASCADE,
		FOREIGN KEY (group_name, version, kind) REFERENCES api (group_name, version, kind) ON DELETE CASCADE)`

	apisOfBundles = `(
		group_name TEXT, version TEXT, kind TEXT, operatorbundle_name TEXT, operatorbundle_version TEXT, operatorbundle_path TEXT,
		FOREIGN KEY (operatorbundle_name, operatorbundle_version, operatorbundle_path) REFERENCES operatorbundle (name, version, bundlepath)
			ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
		FOREIGN KEY (group_name, version, kind) REFERENCES api (group_name, version, kind) ON DELETE CASCADE)`

	propertyColumns = `(
		type TEXT, value TEXT, operatorbundle_name TEXT, operatorbundle_version TEXT, operatorbundle_path TEXT,
		FOREIGN KEY (operatorbundle_name, operatorbundle_version, operatorbundle_path) REFERENCES operatorbundle (name, version, bundlepath)
			ON DELETE CASCADE)`
)
