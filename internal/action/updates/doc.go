// Package updates is what people do with update graphs: read the one of an update service,
// or of a file, and look at a part of it.
package updates
