package release

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
)

// Options are what the templates of FolderOwn are executed with.
type Options struct {
	// ReleaseImage is the pull spec of the release image.
	ReleaseImage string
	// ClusterProfile is the cluster's profile. Empty means DefaultProfile.
	ClusterProfile string
	// StrictTemplates makes a template that cannot be executed a fault. Otherwise its file
	// is passed over with a warning: a newer release may use what this program does not
	// know, and its own operator loads the payload again once it has taken over.
	StrictTemplates bool
	// Bootstrap reads FolderBootstrap, too, whose files are templates. A payload need not have
	// it.
	Bootstrap bool
}

// Load reads the payload in the root of fsys. Symbolic links are not followed: they could
// lead out of the payload. What is wrong with the payload is told all at once, as an
// *Error.
func Load(fsys fs.FS, options Options) (*Payload, error) {
	l := &loader{fsys: fsys, options: options}
	if l.options.ClusterProfile == "" {
		l.options.ClusterProfile = DefaultProfile
	}

	own, _ := l.folder(FolderOwn)
	release, ok := l.folder(FolderRelease)
	if ok {
		l.metadata()
		l.images()
	}

	for _, name := range own {
		l.payload.Manifests = append(l.payload.Manifests, l.manifests(name, true)...)
	}

	for _, name := range release {
		l.payload.Manifests = append(l.payload.Manifests, l.manifests(name, false)...)
	}

	if options.Bootstrap {
		for _, name := range l.bootstrap() {
			l.payload.Bootstrap = append(l.payload.Bootstrap, l.manifests(name, true)...)
		}
	}

	if len(l.faults) > 0 {
		return nil, &Error{Faults: l.faults}
	}

	return &l.payload, nil
}

// loader reads the files of a payload, and counts what it read.
type loader struct {
	fsys    fs.FS
	options Options
	payload Payload
	faults  []Fault
	// total counts the bytes that were read, count the manifests.
	total, count int
	// full says that a limit on the whole payload was reached: nothing more is read.
	full bool
}

func (l *loader) fault(file string, err error) {
	l.tell(Fault{File: file, Err: bare(err)})
}

// tell notes faults, and stops reading when there are too many.
func (l *loader) tell(faults ...Fault) {
	if len(l.faults) == maxFaults {
		return
	}

	l.faults = append(l.faults, faults...)
	if len(l.faults) >= maxFaults {
		l.full = true
		l.faults = l.faults[:maxFaults]
		l.faults[maxFaults-1].Err = fmt.Errorf("%w: nothing more is told after %d faults", l.faults[maxFaults-1].Err, maxFaults)
	}
}

// folder returns the paths of the files with manifests directly in a folder, by name. When
// it cannot, it has told why.
func (l *loader) folder(name string) (files []string, ok bool) {
	info, err := fs.Lstat(l.fsys, name)
	if err == nil && !info.IsDir() {
		err = errors.New("must be a folder, and no symbolic link")
	}
	if err != nil {
		l.fault(name, err)
		return nil, false
	}

	entries, err := fs.ReadDir(l.fsys, name)
	if err == nil && len(entries) > maxFiles {
		err = fmt.Errorf("holds %d files, more than the %d that it may have", len(entries), maxFiles)
	}
	if err != nil {
		l.fault(name, err)
		return nil, false
	}

	for _, entry := range entries {
		if !entry.IsDir() && IsManifestFile(entry.Name()) {
			files = append(files, path.Join(name, entry.Name()))
		}
	}

	return files, true
}

// read returns the content of a file. When it cannot, it has told why.
func (l *loader) read(name string) ([]byte, bool) {
	if l.full {
		return nil, false
	}

	data, err := l.content(name)
	if err != nil {
		l.fault(name, err)
		return nil, false
	}

	if l.total += len(data); l.total > maxTotalBytes {
		l.full = true
		l.fault(name, fmt.Errorf("the payload is larger than the %d bytes that it may have", maxTotalBytes))
		return nil, false
	}

	return data, true
}

func (l *loader) content(name string) ([]byte, error) {
	info, err := fs.Lstat(l.fsys, name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("must be a regular file, and no symbolic link")
	}

	f, err := l.fsys.Open(name)
	if err != nil {
		return nil, err
	}

	defer func() { _ = f.Close() }() // It was only read.
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err == nil && len(data) > maxFileBytes {
		err = fmt.Errorf("is larger than the %d bytes that a file may have", maxFileBytes)
	}

	return data, err
}

func (l *loader) metadata() {
	data, ok := l.read(FileMetadata)
	if !ok {
		return
	}

	metadata, err := ParseMetadata(data)
	if err != nil {
		l.faultsOf(FileMetadata, err)
	}

	l.payload.Metadata = metadata
}

func (l *loader) images() {
	data, ok := l.read(FileImages)
	if !ok {
		return
	}

	images, err := ParseImageReferences(data)
	if err == nil {
		err = images.CheckPinned()
	}
	if err != nil {
		l.faultsOf(FileImages, err)
		return
	}

	l.payload.Images = images
	if version := l.payload.Metadata.Version; version != "" && images.Name != version {
		l.fault(FileImages, fmt.Errorf("metadata.name is %q, not %q, the version of %s", images.Name, version, FileMetadata))
	}
}

// faultsOf tells each of the joined errors about a file.
func (l *loader) faultsOf(file string, err error) {
	for _, err := range split(err) {
		l.fault(file, err)
	}
}

// bootstrap returns the paths of the files of FolderBootstrap.
func (l *loader) bootstrap() []string {
	if _, err := fs.Lstat(l.fsys, FolderBootstrap); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	files, _ := l.folder(FolderBootstrap)
	return files
}

// manifests reads the manifests of a file.
func (l *loader) manifests(name string, isTemplate bool) []Manifest {
	data, ok := l.read(name)
	if !ok {
		return nil
	}

	if isTemplate {
		executed, err := execute(data, l.values())
		switch {
		case err != nil && l.options.StrictTemplates:
			l.fault(name, err)
			return nil
		case err != nil:
			l.payload.Warnings = append(l.payload.Warnings, Fault{File: name, Err: fmt.Errorf("%w: the file is passed over", err)})
			return nil
		}
		data = executed
	}

	manifests, faults := parseManifests(name, data)
	l.tell(faults...)
	if l.count += len(manifests); l.count > maxManifests {
		l.full = true
		l.fault(name, fmt.Errorf("the payload has more than the %d manifests that it may have", maxManifests))
		return nil
	}

	return manifests
}

// values are what the templates of FolderOwn may name.
func (l *loader) values() map[string]any {
	images := make(map[string]string, len(l.payload.Images.Tags))
	for _, tag := range l.payload.Images.Tags {
		images[tag.Name] = tag.PullSpec
	}
	return map[string]any{"ReleaseImage": l.options.ReleaseImage, "ClusterProfile": l.options.ClusterProfile, "Images": images}
}

// bare takes the operation and the path out of an error: the path may be one of the
// machine, and the fault names the file as the payload knows it.
func bare(err error) error {
	if pathError := (*fs.PathError)(nil); errors.As(err, &pathError) {
		return pathError.Err
	}
	return err
}
