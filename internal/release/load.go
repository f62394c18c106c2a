package release

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
)

// Options are the options of Load.
type Options struct {
	// ReleaseImage is the pull spec of the release image.
	ReleaseImage string
	// ClusterProfile is the profile of the cluster. Empty means DefaultProfile.
	ClusterProfile string
	// StrictTemplates makes a template that cannot be executed a fault. Otherwise its file is
	// skipped with a warning: a newer release may use unknown values, and its own operator loads
	// the payload again after it has taken over.
	StrictTemplates bool
	// Bootstrap also reads FolderBootstrap, if it exists. Its files are templates.
	Bootstrap bool
}

// Load loads the payload in the root of fsys. It does not follow symbolic links, because they
// could lead out of the payload. Its error is an *Error with all faults.
func Load(fsys fs.FS, options Options) (*Payload, error) {
	l := &loader{fsys: fsys, options: options}
	if l.options.ClusterProfile == "" {
		l.options.ClusterProfile = DefaultProfile
	}

	own, _ := l.listManifestFiles(FolderOwn)
	release, ok := l.listManifestFiles(FolderRelease)
	if ok {
		l.loadMetadata()
		l.loadImageReferences()
	}

	for _, name := range own {
		l.payload.Manifests = append(l.payload.Manifests, l.loadManifests(name, true)...)
	}

	for _, name := range release {
		l.payload.Manifests = append(l.payload.Manifests, l.loadManifests(name, false)...)
	}

	if options.Bootstrap {
		for _, name := range l.listBootstrapFiles() {
			l.payload.Bootstrap = append(l.payload.Bootstrap, l.loadManifests(name, true)...)
		}
	}

	if len(l.faults) > 0 {
		return nil, &Error{Faults: l.faults}
	}

	return &l.payload, nil
}

// loader reads the files of a payload, and counts bytes and manifests.
type loader struct {
	fsys    fs.FS
	options Options
	payload Payload
	faults  []Fault
	// total is the number of bytes read, count the number of manifests.
	total, count int
	// isLimitReached is true if the payload exceeds a limit, so that nothing more is read.
	isLimitReached bool
}

func (l *loader) addFileFault(file string, err error) {
	l.addFaults(Fault{File: file, Err: stripErrorPath(err)})
}

// addFaults records faults. It stops the loader when there are too many.
func (l *loader) addFaults(faults ...Fault) {
	if len(l.faults) == maxReportedFaults {
		return
	}

	l.faults = append(l.faults, faults...)
	if len(l.faults) >= maxReportedFaults {
		l.isLimitReached = true
		l.faults = l.faults[:maxReportedFaults]
		l.faults[maxReportedFaults-1].Err = fmt.Errorf("%w: only the first %d faults are reported", l.faults[maxReportedFaults-1].Err, maxReportedFaults)
	}
}

// listManifestFiles returns the paths of the manifest files directly in a directory, sorted by
// name. If ok is false, it has recorded a fault.
func (l *loader) listManifestFiles(name string) (files []string, ok bool) {
	info, err := fs.Lstat(l.fsys, name)
	if err == nil && !info.IsDir() {
		err = errors.New("must be a folder, and no symbolic link")
	}
	if err != nil {
		l.addFileFault(name, err)
		return nil, false
	}

	entries, err := fs.ReadDir(l.fsys, name)
	if err == nil && len(entries) > maxFiles {
		err = fmt.Errorf("holds %d files, more than the %d that it may have", len(entries), maxFiles)
	}
	if err != nil {
		l.addFileFault(name, err)
		return nil, false
	}

	for _, entry := range entries {
		if !entry.IsDir() && IsManifestFile(entry.Name()) {
			files = append(files, path.Join(name, entry.Name()))
		}
	}

	return files, true
}

// readFile reads a file. If it returns false, it has recorded a fault, or a limit was reached.
func (l *loader) readFile(name string) ([]byte, bool) {
	if l.isLimitReached {
		return nil, false
	}

	data, err := l.readRegularFile(name)
	if err != nil {
		l.addFileFault(name, err)
		return nil, false
	}

	if l.total += len(data); l.total > maxTotalBytes {
		l.isLimitReached = true
		l.addFileFault(name, fmt.Errorf("the payload is larger than the %d bytes that it may have", maxTotalBytes))
		return nil, false
	}

	return data, true
}

func (l *loader) readRegularFile(name string) ([]byte, error) {
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

func (l *loader) loadMetadata() {
	data, ok := l.readFile(FileMetadata)
	if !ok {
		return
	}

	metadata, err := ParseMetadata(data)
	if err != nil {
		l.addJoinedFaults(FileMetadata, err)
	}

	l.payload.Metadata = metadata
}

func (l *loader) loadImageReferences() {
	data, ok := l.readFile(FileImages)
	if !ok {
		return
	}

	images, err := ParseImageReferences(data)
	if err == nil {
		err = images.CheckPinned()
	}
	if err != nil {
		l.addJoinedFaults(FileImages, err)
		return
	}

	l.payload.Images = images
	if version := l.payload.Metadata.Version; version != "" && images.Name != version {
		l.addFileFault(FileImages, fmt.Errorf("metadata.name is %q, not %q, the version of %s", images.Name, version, FileMetadata))
	}
}

// addJoinedFaults records a fault for each of the joined errors about a file.
func (l *loader) addJoinedFaults(file string, err error) {
	for _, err := range splitJoinedError(err) {
		l.addFileFault(file, err)
	}
}

// listBootstrapFiles returns the paths of the files in FolderBootstrap.
func (l *loader) listBootstrapFiles() []string {
	if _, err := fs.Lstat(l.fsys, FolderBootstrap); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	files, _ := l.listManifestFiles(FolderBootstrap)
	return files
}

// loadManifests returns the manifests of a file.
func (l *loader) loadManifests(name string, isTemplate bool) []Manifest {
	data, ok := l.readFile(name)
	if !ok {
		return nil
	}

	if isTemplate {
		executed, err := executeTemplate(data, l.templateValues())
		switch {
		case err != nil && l.options.StrictTemplates:
			l.addFileFault(name, err)
			return nil
		case err != nil:
			l.payload.Warnings = append(l.payload.Warnings, Fault{File: name, Err: fmt.Errorf("%w: the file is passed over", err)})
			return nil
		}
		data = executed
	}

	manifests, faults := parseManifests(name, data)
	l.addFaults(faults...)
	if l.count += len(manifests); l.count > maxManifests {
		l.isLimitReached = true
		l.addFileFault(name, fmt.Errorf("the payload has more than the %d manifests that it may have", maxManifests))
		return nil
	}

	return manifests
}

// templateValues returns the values for the templates of FolderOwn.
func (l *loader) templateValues() map[string]any {
	images := make(map[string]string, len(l.payload.Images.Tags))
	for _, tag := range l.payload.Images.Tags {
		images[tag.Name] = tag.PullSpec
	}
	return map[string]any{"ReleaseImage": l.options.ReleaseImage, "ClusterProfile": l.options.ClusterProfile, "Images": images}
}

// stripErrorPath removes the operation and path from an error: the path may reveal directories of the
// machine, and the fault contains the path within the payload.
func stripErrorPath(err error) error {
	if pathError := (*fs.PathError)(nil); errors.As(err, &pathError) {
		return pathError.Err
	}
	return err
}
