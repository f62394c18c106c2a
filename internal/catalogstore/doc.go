// Package catalogstore keeps the content of catalogs on disk: the blobs as JSON lines,
// with an index of them, and checksums of both.
//
// Content is stored under its own checksum, in content/<sum>, so that catalogs with the
// same content share it; catalogs/<name> says which content a catalog has and where it
// comes from. Both kinds of file are written beside their place and renamed into it, so
// that a process that ends at any point leaves the old content or the new, and what it
// left unfinished is removed at the next start. The sum is checked before a byte is
// given to a reader.
//
// The disk is a cache: a file that is gone or damaged is noticed and reported, to be
// unpacked again, and all of it may be deleted while the program runs. In memory are the
// indexes, about 120 bytes per blob, and never a catalog.
//
// It knows neither images nor HTTP: it takes an fs.FS or blobs, and gives blobs and
// readers.
package catalogstore
