// Package content stores the content of one catalog in the form that the registry server
// answers from. The blobs are on disk; an index of packages, channels and entries is held in
// memory.
//
// It builds the content from the blobs of any source, caches it in a directory between two runs
// of the server, and checks whether the cache still matches the source. It uses the messages of
// the protocol and knows nothing of servers or connections.
package content
