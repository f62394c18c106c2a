package bundle

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Limits of a bundle. The largest file of real bundles is about 1 MiB, the deepest CRD
// schema has 34 levels, and an API server accepts no object above 1.5 MiB. Each limit is
// several times higher.
const (
	maxFileBytes    = 8 << 20
	maxTotalBytes   = 64 << 20
	maxFiles        = 1000
	maxObjects      = 2000
	maxNestingDepth = 200
)

// Folders and metadata files of a bundle.
const (
	FolderManifests = "manifests"
	FolderMetadata  = "metadata"

	annotationsFile  = FolderMetadata + "/annotations.yaml"
	propertiesFile   = "properties.yaml"
	dependenciesFile = "dependencies.yaml"
)

// Files are the files of a bundle, read once and decoded as far as possible. They are not
// validated: Load does that, and package validate for the author of the bundle.
type Files struct {
	// HasManifests and HasMetadata are set if the folder exists.
	HasManifests, HasMetadata bool
	// Manifests are the entries of the manifests folder, by name. It is the folder that the
	// annotations name if the bundle has it, or else "manifests".
	Manifests []File
	// Metadata are the files directly in the metadata folder, by name, followed by those of
	// the folder that the annotations name, if it is another one.
	Metadata []File

	manifestsFolder, metadataFolder string // paths of the two folders
}

// File is an entry of a folder of a bundle.
type File struct {
	// Name is the path within the bundle.
	Name string
	// Folder is set for a folder. Nothing in it is read.
	Folder bool
	// Data is the content of the file. It must not be changed.
	Data []byte
	// Documents are the documents of a manifest without the empty ones. When Err is set,
	// they end before the first invalid document.
	Documents []map[string]any
	// Err is the reason why the file or a document of it cannot be read. It does not
	// contain the name of the file.
	Err error
}

// Hidden reports whether the name starts with a dot.
func (f File) Hidden() bool { return strings.HasPrefix(path.Base(f.Name), ".") }

// wrappedError returns Err with the name of the file.
func (f File) wrappedError() error { return fmt.Errorf("%s: %w", f.Name, f.Err) }

// limitError is returned when a limit is exceeded. It is never ignored, because the content
// beyond the limit is unknown.
type limitError struct{ text string }

func (e *limitError) Error() string { return e.text }

// ReadFiles reads the files of the bundle in the root of fsys. Symbolic links are not
// followed, because they could lead out of the bundle. It returns errors of fsys and of the
// limits of a bundle. An error of a single file is in its Err.
func ReadFiles(fsys fs.FS) (*Files, error) {
	r := &folderReader{fsys: fsys}
	f := &Files{manifestsFolder: FolderManifests, metadataFolder: FolderMetadata}
	var err error
	if f.HasMetadata, f.Metadata, err = r.readFolder(f.metadataFolder); err != nil {
		return nil, err
	}

	f.Metadata = slices.DeleteFunc(f.Metadata, func(file File) bool { return file.Folder })
	annotations, _ := f.Annotations()
	if name := folderFromAnnotations(annotations, KeyMetadata, f.metadataFolder); name != f.metadataFolder {
		found, more, err := r.readFolder(name)
		if err != nil {
			return nil, err
		}
		if found {
			f.metadataFolder = name
			f.Metadata = append(f.Metadata, slices.DeleteFunc(more, func(file File) bool { return file.Folder })...)
		}
	}

	name := folderFromAnnotations(annotations, KeyManifests, f.manifestsFolder)
	if f.HasManifests, f.Manifests, err = r.readFolder(name); err != nil {
		return nil, err
	}

	if !f.HasManifests && name != f.manifestsFolder {
		name = f.manifestsFolder
		if f.HasManifests, f.Manifests, err = r.readFolder(name); err != nil {
			return nil, err
		}
	}

	f.manifestsFolder = name
	for i := range f.Manifests {
		f.Manifests[i].decodeManifest()
	}

	return f, nil
}

// FirstObject returns the object of the first document of a manifest, which is the one that
// catalogs contain. It returns nil for an empty file, and an error for a file that is not a
// manifest.
func (f File) FirstObject() (*unstructured.Unstructured, error) {
	switch object := f.Object(); {
	case len(f.Documents) == 0 && f.Err != nil:
		return nil, f.Err
	case len(f.Documents) == 0:
		return nil, nil
	case object.GetKind() == "":
		return nil, errors.New("is not a Kubernetes object, its kind is missing")
	default:
		return object, nil
	}
}

// IsReadable reports whether a manifest has a document that can be decoded, or is empty. A
// file over a limit counts as readable, because it must not be ignored.
func (f File) IsReadable() bool {
	limit := (*limitError)(nil)
	return f.Err == nil || len(f.Documents) > 0 || errors.As(f.Err, &limit)
}

// ReadManifest decodes a manifest from data, within the limits of ReadFiles.
func ReadManifest(name string, data []byte) File {
	f := File{Name: name, Data: data}
	if len(data) > maxFileBytes {
		f.Err = &limitError{fmt.Sprintf("is larger than the %d bytes that a file may have", maxFileBytes)}
	}
	f.decodeManifest()
	return f
}

// decodeManifest sets Contents and Err.
func (f *File) decodeManifest() {
	if !f.Folder && f.Err == nil {
		f.Documents, f.Err = decodeDocuments(f.Data)
	}
}

// findMetadataFile returns a file of the metadata folder.
func (f *Files) findMetadataFile(name string) (File, bool) {
	i := slices.IndexFunc(f.Metadata, func(file File) bool { return file.Name == name })
	if i < 0 {
		return File{}, false
	}
	return f.Metadata[i], true
}

// folderReader reads folders of a bundle and enforces its limits.
type folderReader struct {
	fsys       fs.FS
	totalBytes int
}

// readFolder returns the entries of a folder, by name, and whether the folder exists.
func (r *folderReader) readFolder(name string) (bool, []File, error) {
	info, err := fs.Lstat(r.fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil, nil
	}
	if err != nil {
		return false, nil, fmt.Errorf("%s: %w", name, stripPathError(err))
	}
	if !info.IsDir() || !r.hasOnlyFolderParents(name) {
		return false, nil, fmt.Errorf("%s: must be a folder, and neither it nor a folder above it a symbolic link", name)
	}

	entries, err := fs.ReadDir(r.fsys, name)
	if err != nil {
		return false, nil, fmt.Errorf("%s: %w", name, stripPathError(err))
	}
	if len(entries) > maxFiles {
		return false, nil, fmt.Errorf("%s: holds %d files, more than the %d that it may have", name, len(entries), maxFiles)
	}

	files := make([]File, 0, len(entries))
	for _, entry := range entries {
		file := File{Name: path.Join(name, entry.Name()), Folder: entry.IsDir()}
		switch {
		case file.Folder:
		case !entry.Type().IsRegular():
			file.Err = errors.New("must be a regular file, and neither it nor a folder above it a symbolic link")
		default:
			file.Data, file.Err = r.readFile(file.Name)
		}
		if r.totalBytes > maxTotalBytes {
			return false, nil, fmt.Errorf("%s: the bundle is larger than the %d bytes that it may have", file.Name, maxTotalBytes)
		}
		files = append(files, file)
	}

	return true, files, nil
}

// hasOnlyFolderParents reports whether all parents of a path are folders, not symbolic
// links.
func (r *folderReader) hasOnlyFolderParents(name string) bool {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if info, err := fs.Lstat(r.fsys, dir); err != nil || !info.IsDir() {
			return false
		}
	}
	return true
}

func (r *folderReader) readFile(name string) ([]byte, error) {
	f, err := r.fsys.Open(name)
	if err != nil {
		return nil, stripPathError(err)
	}
	defer func() { _ = f.Close() }() // It was only read.

	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	r.totalBytes += len(data)
	if err != nil {
		return nil, stripPathError(err)
	}
	if len(data) > maxFileBytes {
		return nil, &limitError{fmt.Sprintf("is larger than the %d bytes that a file may have", maxFileBytes)}
	}

	return data, nil
}

// stripPathError returns the cause of a PathError without its operation and path. The path
// may be one of the machine, and the caller adds the name of the file in the bundle.
func stripPathError(err error) error {
	if pathError := (*fs.PathError)(nil); errors.As(err, &pathError) {
		return pathError.Err
	}
	return err
}
