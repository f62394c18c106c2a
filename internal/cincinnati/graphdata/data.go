package graphdata

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-dev/mainstay/internal/cincinnati"
)

// The supported schema of folders: the same major version, and at most this minor version.
const (
	schemaMajor = 1
	schemaMinor = 2
)

// Limits of a folder. The largest public folder has 1,700 files of 1 KiB to 40 KiB.
const (
	maxFiles          = 20_000
	maxFileBytes      = 4 << 20
	maxTotalBytes     = 128 << 20
	maxPatternBytes   = 16 << 10 // of a regular expression
	maxReportedFaults = 100      // in an error
)

// Data is the content of a graph-data folder.
type Data struct {
	// channels and metadata are keyed by version, with or without "+" and architecture.
	channels map[string][]string
	metadata map[string]map[string]string
	// blockedEdges are keyed by the target version, with or without "+" and architecture.
	blockedEdges map[string][]blockedEdge
	// archive contains the files that were read.
	archive []byte
}

// blockedEdge is a file of blocked-edges.
type blockedEdge struct {
	from *regexp.Regexp
	// risk is the known issue. Nil means that the update is blocked.
	risk *cincinnati.Risk
}

// Fault is an error in a file of a folder.
type Fault struct {
	// File is the path in the folder.
	File string
	// Err is the cause.
	Err error
}

// Error returns the file and the cause.
func (f *Fault) Error() string { return f.File + ": " + f.Err.Error() }

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.Err }

// Load reads a graph-data folder. Its error joins a *Fault for each invalid file. It returns no
// partial data, because one half of a folder could recommend an update that the other half
// blocks.
func Load(fsys fs.FS) (*Data, error) {
	l := &loader{fsys: fsys, archive: newArchiveWriter(), data: &Data{channels: map[string][]string{}, metadata: map[string]map[string]string{}, blockedEdges: map[string][]blockedEdge{}}}
	l.checkSchema()
	l.loadYAMLFiles("channels", l.loadChannel)
	l.loadYAMLFiles("blocked-edges", l.loadBlockedEdge)
	l.loadRawMetadata()
	if len(l.faults) > 0 {
		return nil, errors.Join(l.faults...)
	}

	var err error
	l.data.archive, err = l.archive.close()
	return l.data, err
}

type loader struct {
	fsys    fs.FS
	data    *Data
	archive *archiveWriter
	total   int
	files   int
	faults  []error
}

func (l *loader) addFault(file string, err error) {
	if pathError := (*fs.PathError)(nil); errors.As(err, &pathError) {
		err = pathError.Err // The path may reveal directories of the machine.
	}
	if len(l.faults) < maxReportedFaults {
		l.faults = append(l.faults, &Fault{file, err})
	}
}

// checkSchema checks the schema version of the folder.
func (l *loader) checkSchema() {
	data, err := l.readFile("version")
	if err != nil {
		l.addFault("version", err)
		return
	}

	text := strings.TrimSpace(string(data))
	version, err := semver.Parse(text)
	switch {
	case err != nil:
		l.addFault("version", fmt.Errorf("%.40q is not a semantic version: %w", text, err))
	case version.Major != schemaMajor || version.Minor > schemaMinor:
		l.addFault("version", fmt.Errorf("the schema %s is not supported; supported are %d.0.0 to %d.%d.x", version, schemaMajor, schemaMajor, schemaMinor))
	}
}

func (l *loader) readFile(name string) ([]byte, error) {
	if l.files++; l.files > maxFiles {
		return nil, fmt.Errorf("there are more than the %d files that there may be", maxFiles)
	}

	// Opening a named pipe would wait for a writer.
	info, err := fs.Stat(l.fsys, name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("is not a regular file")
	}

	f, err := l.fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // It was only read.

	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	switch l.total += len(data); {
	case err != nil:
		return nil, err
	case len(data) > maxFileBytes:
		return nil, fmt.Errorf("has more than the %d bytes that a file may have", maxFileBytes)
	case l.total > maxTotalBytes:
		return nil, fmt.Errorf("the folder has more than the %d bytes that it may have", maxTotalBytes)
	}

	return data, l.archive.addFile(name, data)
}

// loadYAMLFiles calls a function with each YAML file of a directory. A missing directory has no
// files.
func (l *loader) loadYAMLFiles(folder string, parse func(data []byte) error) {
	entries, err := fs.ReadDir(l.fsys, folder)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		l.addFault(folder, err)
		return
	}

	for _, entry := range entries {
		if ext := path.Ext(entry.Name()); entry.IsDir() || ext != ".yaml" && ext != ".yml" {
			continue
		}

		name := path.Join(folder, entry.Name())
		data, err := l.readFile(name)
		if err == nil {
			err = parse(data)
		}
		if err != nil {
			l.addFault(name, err)
		}
	}
}

// channelFile is a file of channels. Its other keys are for tools.
type channelFile struct {
	Name     string   `json:"name"`
	Versions []string `json:"versions"`
}

// channelPattern is the pattern of channels in requests.
var channelPattern = regexp.MustCompile(`^[0-9a-z\-.]+$`)

func parseChannel(data []byte) (channelFile, error) {
	var file channelFile
	if err := yaml.Unmarshal(data, &file); err != nil {
		return file, describeYAMLError(err)
	}
	if !channelPattern.MatchString(file.Name) {
		return file, fmt.Errorf("name %.100q must match %s", file.Name, channelPattern)
	}

	for i, version := range file.Versions {
		if _, err := semver.Parse(version); err != nil {
			return file, fmt.Errorf("versions[%d] %.100q is not a semantic version: %w", i, version, err)
		}
	}

	return file, nil
}

func (l *loader) loadChannel(data []byte) error {
	file, err := parseChannel(data)
	if err != nil {
		return err
	}

	for _, version := range file.Versions {
		if !slices.Contains(l.data.channels[version], file.Name) {
			l.data.channels[version] = append(l.data.channels[version], file.Name)
		}
	}
	return nil
}

// blockedEdgeFile is a file of blocked-edges. Its other keys are for tools.
type blockedEdgeFile struct {
	To            string            `json:"to"`
	From          string            `json:"from"`
	URL           string            `json:"url"`
	Name          string            `json:"name"`
	Message       string            `json:"message"`
	MatchingRules []cincinnati.Rule `json:"matchingRules"`
}

func parseBlockedEdge(data []byte) (to string, b blockedEdge, err error) {
	var file blockedEdgeFile
	if err := yaml.Unmarshal(data, &file); err != nil {
		return "", b, describeYAMLError(err)
	}
	if _, err := semver.Parse(file.To); err != nil {
		return "", b, fmt.Errorf("to: %.100q is not a semantic version: %w", file.To, err)
	}
	if file.From == "" || len(file.From) > maxPatternBytes {
		return "", b, fmt.Errorf("from: must be a regular expression of 1 to %d bytes", maxPatternBytes)
	}
	if b.from, err = regexp.Compile(file.From); err != nil {
		return "", b, fmt.Errorf("from: %w", err)
	}
	if file.URL == "" && file.Name == "" && file.Message == "" && file.MatchingRules == nil {
		return file.To, b, nil
	}
	// A misspelled key must not turn a known issue of some clusters into one of no or all
	// clusters.
	if file.URL == "" || file.Name == "" || file.Message == "" || len(file.MatchingRules) == 0 {
		return "", b, errors.New("a known issue needs url, name, message and matchingRules, and a block has none of them")
	}
	if _, err := url.ParseRequestURI(file.URL); err != nil {
		return "", b, fmt.Errorf("url: %.200q is not a valid URL", file.URL)
	}
	if len(file.MatchingRules) > cincinnati.MaxRules {
		return "", b, fmt.Errorf("matchingRules: has %d entries, more than the %d that it may have", len(file.MatchingRules), cincinnati.MaxRules)
	}

	for i, rule := range file.MatchingRules {
		if rule.Type == "" || (rule.Type == cincinnati.RuleAlways || rule.Type == cincinnati.RulePromQL) && !rule.IsKnown() {
			return "", b, fmt.Errorf("matchingRules[%d]: must be of type %s, or of type %s with a query in promql.promql", i, cincinnati.RuleAlways, cincinnati.RulePromQL)
		}
	}

	b.risk = &cincinnati.Risk{URL: file.URL, Name: file.Name, Message: file.Message, MatchingRules: file.MatchingRules}
	return file.To, b, nil
}

func (l *loader) loadBlockedEdge(data []byte) error {
	to, b, err := parseBlockedEdge(data)
	if err == nil {
		l.data.blockedEdges[to] = append(l.data.blockedEdges[to], b)
	}
	return err
}

// loadRawMetadata loads metadata of releases.
func (l *loader) loadRawMetadata() {
	const name = "raw/metadata.json"
	data, err := l.readFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil {
		err = kjson.UnmarshalCaseSensitivePreserveInts(data, &l.data.metadata)
	}
	if err != nil {
		l.addFault(name, err)
	}
}

// describeYAMLError removes the names of Go types and of the library's steps from an error.
func describeYAMLError(err error) error {
	text := err.Error()
	for _, step := range []string{"error converting YAML to JSON: ", "error unmarshaling JSON: ", "while decoding JSON: ", "json: "} {
		text = strings.TrimPrefix(text, step)
	}

	if before, _, ok := strings.Cut(text, " into Go "); ok {
		_, field, _ := strings.Cut(text, ".")
		field, kind, _ := strings.Cut(field, " of type ")
		text = strings.TrimPrefix(before, "cannot unmarshal ") + " where " + field + " must be a " + kind
	}
	return errors.New("cannot be read: " + text)
}

// Channels returns the names of all channels, sorted.
func (d *Data) Channels() []string {
	names := map[string]bool{}
	for _, channels := range d.channels {
		for _, channel := range channels {
			names[channel] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}
