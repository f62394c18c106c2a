// Package graphdata builds update graphs from releases and a graph-data folder. Releases state
// from and to which versions they can be updated. The folder states the channels of versions,
// and the updates that are blocked or have known issues.
//
//	version                  schema of the folder: 1.0.0 to 1.2.x
//	channels/*.yaml          name, versions
//	blocked-edges/*.yaml     to, from, and of a known issue url, name, message, matchingRules
//	raw/metadata.json        metadata of releases by version (optional)
//
// The package has no side effects: the folder is an fs.FS, and releases are values. The update
// service scans for both and reports errors.
package graphdata
