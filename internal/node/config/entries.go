package config

import (
	"cmp"
	"slices"
)

// Entry is a file or a symbolic link of a configuration.
type Entry struct {
	// Path is absolute.
	Path    string
	Content []byte
	// Mode contains the permissions.
	Mode int
	// User and Group own the file.
	User, Group Owner
	// Link is the target of a symbolic link. It is empty for a file.
	Link string
}

// Entries returns all files of a configuration, including those of units, sorted by path. The files of SSH keys are not included,
// because their paths depend on the node.
func (c *Ignition) Entries() ([]Entry, error) {
	var entries []Entry
	for i := range c.Storage.Files {
		f := &c.Storage.Files[i]
		content, err := f.Content()
		if err != nil {
			return nil, err
		}
		entries = append(entries, Entry{Path: f.Path, Content: content, Mode: f.Permissions(), User: f.User, Group: f.Group})
	}

	for _, u := range c.Systemd.Units {
		switch {
		case u.Mask != nil && *u.Mask:
			entries = append(entries, Entry{Path: UnitPath(u.Name), Link: "/dev/null"})
		case hasText(u.Contents):
			entries = append(entries, Entry{Path: UnitPath(u.Name), Content: []byte(*u.Contents), Mode: defaultMode})
		}
		for _, d := range u.Dropins {
			if hasText(d.Contents) {
				entries = append(entries, Entry{Path: DropinPath(u.Name, d.Name), Content: []byte(*d.Contents), Mode: defaultMode})
			}
		}
	}

	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Path, b.Path) })
	return entries, nil
}
