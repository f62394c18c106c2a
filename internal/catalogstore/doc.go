// Package catalogstore stores the content of catalogs on disk: the blobs as JSON lines, an index, and
// checksums of both.
//
// Content is stored under its own checksum, in content/<sum>, so that catalogs with the same content
// share it. The file catalogs/<name> is the pointer of a catalog: it names the content and its source.
// Both kinds of files are written under a temporary name and then renamed. A process that is terminated
// at any point leaves either the old or the new content, and unfinished files are removed at the next
// start. Checksums are verified before bytes are returned to a reader.
//
// The disk is a cache. A missing or damaged file is detected and reported, so that the catalog is
// unpacked again. All files can be deleted while the program runs. Only the indexes are kept in memory,
// about 120 bytes per blob.
//
// The package does not depend on images or HTTP. Its input is an fs.FS or blobs, its output are blobs
// and readers.
package catalogstore
