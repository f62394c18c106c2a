package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/Masterminds/semver/v3"
)

// packageVersions is a package with its versions, oldest first.
type packageVersions struct {
	name     string
	versions []*semver.Version
}

// listPackages returns the packages in a folder of bundles. Packages with many versions come
// first, so that the workers are evenly busy.
func listPackages(dir string) ([]*packageVersions, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}

	var packages []*packageVersions
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}

		folders, err := os.ReadDir(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, err
		}

		p := &packageVersions{name: entry.Name()}
		for _, folder := range folders {
			if v, err := semver.NewVersion(folder.Name()); err == nil && folder.IsDir() {
				p.versions = append(p.versions, v)
			}
		}

		if len(p.versions) > 0 {
			slices.SortFunc(p.versions, func(a, b *semver.Version) int { return a.Compare(b) })
			packages = append(packages, p)
		}
	}

	if len(packages) == 0 {
		return nil, fmt.Errorf("%s has no folders <package>/<version>/", dir)
	}

	slices.SortStableFunc(packages, func(a, b *packageVersions) int { return cmp.Compare(len(b.versions), len(a.versions)) })
	return packages, nil
}
