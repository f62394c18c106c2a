// Package content keeps the content of one catalog in the form in which the registry
// server answers from it: the blobs that answers are made of, on disk, and an index of
// packages, channels and entries that is small enough to be held in memory.
//
// It builds that from the blobs of any source, keeps it in a cache directory between two
// runs of the server, and finds out whether what it kept is still that of the source. It
// knows the messages of the protocol, but neither servers nor connections.
package content
