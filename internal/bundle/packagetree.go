package bundle

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	kjson "sigs.k8s.io/json"
)

// PackageManifest is a file of the package manifest format, which preceded bundles. It is
// next to the folders of a package's versions and defines the channels.
type PackageManifest struct {
	PackageName    string           `json:"packageName"`
	Channels       []PackageChannel `json:"channels"`
	DefaultChannel string           `json:"defaultChannel,omitempty"`
}

// PackageChannel is a channel of a PackageManifest with its newest CSV.
type PackageChannel struct {
	Name       string `json:"name"`
	CurrentCSV string `json:"currentCSV"`
}

// Placement is the position of a bundle in its package.
type Placement struct {
	Package string
	// Channels are the channels that contain the bundle, sorted.
	Channels []string
	// DefaultChannel is the default channel of the package, or else its only channel. It
	// may be empty.
	DefaultChannel string
}

// csvNode is a version of a package in its update graph.
type csvNode struct {
	name    string
	updates []string // names that it replaces and skips
}

// FindPlacement returns the placement of the version in folder. The root of fsys has the package
// manifest and one folder for each version, with one CSV in it.
func FindPlacement(fsys fs.FS, folder string) (Placement, error) {
	_, entries, err := (&folderReader{fsys: fsys}).readFolder(".")
	if err != nil {
		return Placement{}, err
	}

	manifest, err := findPackageManifest(entries)
	if err != nil {
		return Placement{}, err
	}

	nodes := map[string]csvNode{}
	var current string
	for _, entry := range entries {
		if !entry.Folder {
			continue
		}

		files, err := ReadManifests(fsys, entry.Name)
		if err != nil {
			return Placement{}, err
		}

		node, err := newCSVNode(files)
		if err != nil {
			return Placement{}, fmt.Errorf("%s: %w", entry.Name, err)
		}

		nodes[node.name] = node
		if entry.Name == folder {
			current = node.name
		}
	}

	if current == "" {
		return Placement{}, fmt.Errorf("%s: holds no ClusterServiceVersion with a name", folder)
	}

	placement := Placement{Package: manifest.PackageName, DefaultChannel: manifest.DefaultChannel}
	if placement.DefaultChannel == "" && len(manifest.Channels) == 1 {
		placement.DefaultChannel = manifest.Channels[0].Name
	}

	for _, channel := range manifest.Channels {
		if isReachable(nodes, channel.CurrentCSV, current) {
			placement.Channels = append(placement.Channels, channel.Name)
		}
	}

	slices.Sort(placement.Channels)
	placement.Channels = slices.Compact(placement.Channels)
	return placement, nil
}

func findPackageManifest(files []File) (PackageManifest, error) {
	var found []PackageManifest
	for _, file := range files {
		if file.Folder || file.Err != nil {
			continue
		}

		var manifest PackageManifest
		docs, err := splitDocuments(file.Data)
		if err == nil && len(docs) > 0 {
			err = kjson.UnmarshalCaseSensitivePreserveInts(docs[0], &manifest)
		}
		if err == nil && manifest.PackageName != "" {
			found = append(found, manifest)
		}
	}

	switch len(found) {
	case 0:
		return PackageManifest{}, errors.New("no package manifest beside the folder: a file with packageName and channels")
	case 1:
		return found[0], nil
	default:
		return PackageManifest{}, fmt.Errorf("%d package manifests beside the folder, there must be one", len(found))
	}
}

// newCSVNode returns the node of the only CSV in a folder of manifests.
func newCSVNode(files []File) (csvNode, error) {
	var node csvNode
	n := 0
	for _, file := range files {
		object := file.Object()
		if object.GetKind() != kindCSV {
			continue
		}

		n++
		// Fields of a wrong type add no edges.
		b := &Bundle{}
		if err := b.loadCSVFieldByField(*object); err != nil {
			return csvNode{}, err
		}

		node = csvNode{b.Name(), append([]string{b.CSV.Spec.Replaces}, b.CSV.Spec.Skips...)}
	}

	if n != 1 {
		return csvNode{}, fmt.Errorf("holds %d ClusterServiceVersions, it must hold one", n)
	}

	return node, nil
}

// isReachable reports whether following updates leads from one CSV to another.
func isReachable(nodes map[string]csvNode, from, to string) bool {
	seen := map[string]bool{}
	pending := []string{from}
	for len(pending) > 0 {
		current := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		if current == to {
			return true
		}
		if !seen[current] {
			seen[current] = true
			pending = append(pending, nodes[current].updates...)
		}
	}

	return false
}
