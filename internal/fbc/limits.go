package fbc

// Limits bounds the resources for reading a catalog. A zero field means its default.
type Limits struct {
	// BlobBytes is the maximum size of a JSON blob in its file, in bytes. It bounds the memory of
	// a walk: each processor needs at most four times this size. The text buffer doubles when it
	// grows (2), and the compact form is built (1) and returned (1).
	//
	// Default 16 MiB: the largest bundles carry about 3 MiB of manifests, 4 MiB in base64, and a
	// second copy in olm.csv.metadata; 16 MiB is twice that.
	BlobBytes int
	// YAMLBytes is the maximum size of a YAML document, in bytes. Unlike JSON it is parsed, which
	// needs several times the size of its text in memory.
	//
	// Default 8 MiB: the text, its scalars and their JSON form, 4 * 8 MiB = 32 MiB, for a
	// document of the long strings that are typical for bundles.
	YAMLBytes int
	// YAMLNodes is the maximum number of lines, list items and keys of a YAML document. They are
	// counted without parsing it. A node needs about 200 bytes, regardless of the length of its text.
	//
	// Default 500,000: 100 MiB, and five times a document of 4 MiB of CRDs at 40 characters a
	// line.
	YAMLNodes int
	// FileBytes is the maximum size of a file, in bytes. Default 1 GiB: ten times the largest
	// public catalog in a single file.
	FileBytes int64
	// Depth is the maximum nesting of objects and lists in a blob. Default 500: the schema of a
	// CRD, the deepest structure in a real catalog, has about 60 levels.
	Depth int
	// Folders is the maximum nesting of folders. Default 32.
	Folders int
	// Files is the maximum number of files and folders of a catalog, including ignored ones.
	// Default 200,000: one per blob in a catalog ten times the largest public one.
	Files int
	// Blobs is the maximum number of blobs of an Index. Default 1,000,000: 100 MB of entries, and
	// far more than the largest public catalog has.
	Blobs int
}

const (
	defaultBlobBytes = 16 << 20
	defaultYAMLBytes = 8 << 20
	defaultYAMLNodes = 500_000
	defaultFileBytes = 1 << 30
	defaultDepth     = 500
	defaultFolders   = 32
	defaultFiles     = 200_000
	defaultBlobs     = 1_000_000

	// maxYAMLFallbackBytes is the longest text that starts like JSON, is not JSON, and is
	// parsed as YAML. Only text that people write by hand needs this, for example with a
	// trailing comma. A broken generated file is reported without parsing megabytes of it.
	maxYAMLFallbackBytes = 1 << 20

	// maxIgnoreFileBytes and maxIgnorePatterns bound an .indexignore file.
	maxIgnoreFileBytes = 1 << 20
	maxIgnorePatterns  = 10_000
)

// withDefaults returns the limits with defaults for zero fields.
func (l Limits) withDefaults() Limits {
	setDefaultIfZero(&l.BlobBytes, defaultBlobBytes)
	setDefaultIfZero(&l.YAMLBytes, defaultYAMLBytes)
	setDefaultIfZero(&l.YAMLNodes, defaultYAMLNodes)
	setDefaultIfZero(&l.FileBytes, defaultFileBytes)
	setDefaultIfZero(&l.Depth, defaultDepth)
	setDefaultIfZero(&l.Folders, defaultFolders)
	setDefaultIfZero(&l.Files, defaultFiles)
	setDefaultIfZero(&l.Blobs, defaultBlobs)

	return l
}

func setDefaultIfZero[T int | int64](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}
