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

// Limits on what is read. The largest file of real bundles is about 1 MiB, the
// deepest CRD schema 34 levels, and an API server takes no object above 1.5 MiB; each
// limit leaves several times that.
const (
	maxFileBytes  = 8 << 20
	maxTotalBytes = 64 << 20
	maxFiles      = 1000
	maxObjects    = 2000
	maxDepth      = 200
)

// Folders of a bundle, and the file that says what it is.
const (
	FolderManifests = "manifests"
	FolderMetadata  = "metadata"

	annotationsFile  = FolderMetadata + "/annotations.yaml"
	propertiesFile   = "properties.yaml"
	dependenciesFile = "dependencies.yaml"
)

// Files are the files of a bundle, read once and decoded as far as they can be. They
// are not judged: Load does that, and the package validate for the author of the bundle.
type Files struct {
	// HasManifests and HasMetadata tell whether there are such folders.
	HasManifests, HasMetadata bool
	// Manifests are the entries of the manifests folder, by name. That folder is the
	// one that the annotations name if the bundle has it, and else "manifests".
	Manifests []File
	// Metadata are the files directly in the metadata folder, by name, and after them
	// those of the folder that the annotations name, if it is another one.
	Metadata []File

	manifests, metadata string // the folders
}

// File is an entry of a folder of a bundle.
type File struct {
	// Name is the path within the bundle.
	Name string
	// Folder tells that it is a folder. Nothing in it is read.
	Folder bool
	// Data is what the file holds. It must not be changed.
	Data []byte
	// Contents are the documents of a manifest. Documents that are empty are not among
	// them, nor, when Err is set, those from the first that cannot be read on.
	Contents []map[string]any
	// Err says why the file or a document of it cannot be read. It does not name the file.
	Err error
}

// Hidden reports whether the name starts with a dot.
func (f File) Hidden() bool { return strings.HasPrefix(path.Base(f.Name), ".") }

func (f File) fault() error { return fmt.Errorf("%s: %w", f.Name, f.Err) }

// limitError is about a bound on what is read. What lies behind it is not known, so that
// it is never passed over.
type limitError struct{ text string }

func (e *limitError) Error() string { return e.text }

// ReadFiles reads the files of the bundle in the root of fsys. Symbolic links are not
// followed: they could lead out of the bundle. Its errors are those of fsys and of its
// limits only; what is wrong with a single file is said in its Err.
func ReadFiles(fsys fs.FS) (*Files, error) {
	r := &reader{fsys: fsys}
	f := &Files{manifests: FolderManifests, metadata: FolderMetadata}
	var err error
	if f.HasMetadata, f.Metadata, err = r.folder(f.metadata); err != nil {
		return nil, err
	}

	f.Metadata = slices.DeleteFunc(f.Metadata, func(file File) bool { return file.Folder })
	annotations, _ := f.Annotations()
	if name := folderOf(annotations, KeyMetadata, f.metadata); name != f.metadata {
		found, more, err := r.folder(name)
		if err != nil {
			return nil, err
		}
		if found {
			f.metadata = name
			f.Metadata = append(f.Metadata, slices.DeleteFunc(more, func(file File) bool { return file.Folder })...)
		}
	}

	name := folderOf(annotations, KeyManifests, f.manifests)
	if f.HasManifests, f.Manifests, err = r.folder(name); err != nil {
		return nil, err
	}

	if !f.HasManifests && name != f.manifests {
		name = f.manifests
		if f.HasManifests, f.Manifests, err = r.folder(name); err != nil {
			return nil, err
		}
	}

	f.manifests = name
	for i := range f.Manifests {
		f.Manifests[i].decode()
	}

	return f, nil
}

// FirstObject returns the object of the first document of a manifest, which is the one that
// catalogs carry. It returns nil for an empty file, and an error for one that is no manifest.
func (f File) FirstObject() (*unstructured.Unstructured, error) {
	switch object := f.Object(); {
	case len(f.Contents) == 0 && f.Err != nil:
		return nil, f.Err
	case len(f.Contents) == 0:
		return nil, nil
	case object.GetKind() == "":
		return nil, errors.New("is not a Kubernetes object, its kind is missing")
	default:
		return object, nil
	}
}

// IsReadable reports whether a manifest has a document that can be decoded, or is empty. A
// file beyond a limit counts as readable: it must not be passed over.
func (f File) IsReadable() bool {
	limit := (*limitError)(nil)
	return f.Err == nil || len(f.Contents) > 0 || errors.As(f.Err, &limit)
}

// ReadManifest decodes a manifest that is at hand, within the limits of those that ReadFiles reads.
func ReadManifest(name string, data []byte) File {
	f := File{Name: name, Data: data}
	if len(data) > maxFileBytes {
		f.Err = &limitError{fmt.Sprintf("is larger than the %d bytes that a file may have", maxFileBytes)}
	}
	f.decode()
	return f
}

// decode decodes the documents of a manifest.
func (f *File) decode() {
	if !f.Folder && f.Err == nil {
		f.Contents, f.Err = decodeContents(f.Data)
	}
}

// metadataFile finds a file of the metadata folder.
func (f *Files) metadataFile(name string) (File, bool) {
	i := slices.IndexFunc(f.Metadata, func(file File) bool { return file.Name == name })
	if i < 0 {
		return File{}, false
	}
	return f.Metadata[i], true
}

// reader reads files of a bundle and counts what it read.
type reader struct {
	fsys  fs.FS
	total int
}

// folder reads the entries of a folder, by name. It tells whether there is one.
func (r *reader) folder(name string) (bool, []File, error) {
	info, err := fs.Lstat(r.fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil, nil
	}
	if err != nil {
		return false, nil, fmt.Errorf("%s: %w", name, bare(err))
	}
	if !info.IsDir() || !r.inFolders(name) {
		return false, nil, fmt.Errorf("%s: must be a folder, and neither it nor a folder above it a symbolic link", name)
	}

	entries, err := fs.ReadDir(r.fsys, name)
	if err != nil {
		return false, nil, fmt.Errorf("%s: %w", name, bare(err))
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
			file.Data, file.Err = r.read(file.Name)
		}
		if r.total > maxTotalBytes {
			return false, nil, fmt.Errorf("%s: the bundle is larger than the %d bytes that it may have", file.Name, maxTotalBytes)
		}
		files = append(files, file)
	}

	return true, files, nil
}

// inFolders reports whether all that is above a path are folders.
func (r *reader) inFolders(name string) bool {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if info, err := fs.Lstat(r.fsys, dir); err != nil || !info.IsDir() {
			return false
		}
	}
	return true
}

func (r *reader) read(name string) ([]byte, error) {
	f, err := r.fsys.Open(name)
	if err != nil {
		return nil, bare(err)
	}

	defer func() { _ = f.Close() }() // It was only read.
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	r.total += len(data)
	if err != nil {
		return nil, bare(err)
	}
	if len(data) > maxFileBytes {
		return nil, &limitError{fmt.Sprintf("is larger than the %d bytes that a file may have", maxFileBytes)}
	}

	return data, nil
}

// bare takes the operation and the path out of an error: the path may be one of the
// machine, and the caller names the file as the bundle knows it.
func bare(err error) error {
	if pathError := (*fs.PathError)(nil); errors.As(err, &pathError) {
		return pathError.Err
	}
	return err
}
