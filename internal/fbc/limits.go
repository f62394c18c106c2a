package fbc

// Limits bound what reading a catalog may take. A zero field means its default.
type Limits struct {
	// BlobBytes is the largest JSON blob, in bytes as it stands in its file. It bounds
	// the memory of a walk: for each processor at most four times this, as the buffer of
	// the text doubles when it grows (2) and its compact form is made (1) and handed out
	// (1).
	//
	// Default 16 MiB: the largest bundles carry about 3 MiB of manifests, 4 MiB in
	// base64, and a second copy in olm.csv.metadata; 16 MiB is twice that.
	BlobBytes int
	// YAMLBytes is the largest YAML document, in bytes. Unlike JSON it is parsed, so that
	// it takes several times its text in memory.
	//
	// Default 8 MiB: the text, its scalars and their JSON form, 4 * 8 MiB = 32 MiB, for a
	// document of the long strings that bundles are made of.
	YAMLBytes int
	// YAMLNodes is how many lines, list items and keys a YAML document may have, counted
	// without parsing it. A node takes about 200 bytes, whatever the length of its text.
	//
	// Default 500,000: 100 MiB, and five times a document of 4 MiB of CRDs at 40
	// characters a line.
	YAMLNodes int
	// FileBytes is the largest file, in bytes. Default 1 GiB: ten times the largest
	// public catalog, written as one file.
	FileBytes int64
	// Depth is how deep objects and lists may be nested in a blob. Default 500: a
	// CRD's schema, the deepest thing in a real catalog, has about 60 levels.
	Depth int
	// Folders is how deep folders may be nested. Default 32.
	Folders int
	// Files is how many files and folders a catalog may have, ignored ones included.
	// Default 200,000: one per blob in a catalog ten times the largest public one.
	Files int
	// Blobs is how many blobs an Index may hold. Default 1,000,000: 100 MB of them, and
	// far more than in the largest public catalog.
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

	// lenientBytes is the longest text that starts like JSON, is not JSON, and is
	// tried as YAML. Only what people write by hand needs it, such as a trailing
	// comma; a machine's broken file is reported without parsing megabytes of it.
	lenientBytes = 1 << 20

	// ignoreBytes and ignorePatterns bound an .indexignore file.
	ignoreBytes    = 1 << 20
	ignorePatterns = 10_000
)

// withDefaults fills the zero fields.
func (l Limits) withDefaults() Limits {
	setDefault(&l.BlobBytes, defaultBlobBytes)
	setDefault(&l.YAMLBytes, defaultYAMLBytes)
	setDefault(&l.YAMLNodes, defaultYAMLNodes)
	setDefault(&l.FileBytes, defaultFileBytes)
	setDefault(&l.Depth, defaultDepth)
	setDefault(&l.Folders, defaultFolders)
	setDefault(&l.Files, defaultFiles)
	setDefault(&l.Blobs, defaultBlobs)

	return l
}

func setDefault[T int | int64](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}
