// Package updates reads update graphs from an update service or a file.
package updates
