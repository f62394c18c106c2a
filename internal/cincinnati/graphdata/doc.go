// Package graphdata makes update graphs: of releases, which say from and to which versions
// they can be updated, and of a graph-data folder, in which people say which channels a
// version is in, which updates are blocked, and which have known issues.
//
//	version                  schema of the folder: 1.0.0 to 1.2.x
//	channels/*.yaml          name, versions
//	blocked-edges/*.yaml     to, from, and of a known issue url, name, message, matchingRules
//	raw/metadata.json        metadata of releases by version (optional)
//
// It is pure: it takes the folder as an fs.FS and releases as values. Where they come from,
// and who is told, is the business of the update service.
package graphdata
