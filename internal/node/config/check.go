package config

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/mainstay-dev/mainstay/internal/excerpt"
)

// Home is the folder of the daemon. Configurations may contain files in it, except those of the daemon itself.
const Home = "/etc/machine-config-daemon"

// Files and folders of the daemon, which no configuration may contain.
const (
	// CurrentFile contains the configuration of the node.
	CurrentFile = Home + "/currentconfig"
	// JournalFile describes an update that is not complete.
	JournalFile = Home + "/update.json"
	// OriginalsFolder contains a record of each path that the daemon has changed, with its original content.
	OriginalsFolder = Home + "/orig"
	// AnnotationsFile contains the initial annotations of the node of a new machine. They name the configuration that the
	// first boot has applied.
	AnnotationsFile = Home + "/node-annotations.json"
)

// unitFolder is the folder of the files of units.
const unitFolder = "/etc/systemd/system"

// reservedPaths are folders without persistent files, and the files of the daemon.
var reservedPaths = []string{"/proc", "/sys", "/dev", CurrentFile, JournalFile, OriginalsFolder, AnnotationsFile}

var (
	unitName   = regexp.MustCompile(`^[a-zA-Z0-9:_.\\@-]+\.(service|socket|device|mount|automount|swap|target|path|timer|slice|scope)$`)
	dropinName = regexp.MustCompile(`^[a-zA-Z0-9:_.\\@-]+\.conf$`)
	userName   = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,31}\$?$`)
)

// UnitPath returns the path of the file of a unit.
func UnitPath(unit string) string { return path.Join(unitFolder, unit) }

// DropinPath returns the path of a drop-in of a unit.
func DropinPath(unit, dropin string) string { return path.Join(unitFolder, unit+".d", dropin) }

// validate returns an error for the first part of a configuration that cannot be applied.
func (c *Ignition) validate() error {
	if len(c.Ignition.Config) > 0 {
		return fmt.Errorf("ignition.config refers to other configurations, which are not fetched: write their content into this one")
	}

	for list, n := range map[string]int{"storage.files": len(c.Storage.Files), "systemd.units": len(c.Systemd.Units), "passwd.users": len(c.Passwd.Users)} {
		if n > maxItems {
			return fmt.Errorf("%s has %d items; %d are allowed", list, n, maxItems)
		}
	}

	paths := claimedPaths{}
	if err := validateFiles(c.Storage.Files, paths); err != nil {
		return err
	}
	if err := validateUnits(c.Systemd.Units, paths); err != nil {
		return err
	}
	if err := paths.checkNesting(); err != nil {
		return err
	}

	return validateUsers(c.Passwd.Users)
}

// validateFiles validates files and adds their paths.
func validateFiles(files []File, paths claimedPaths) error {
	total := 0
	for i := range files {
		size, err := files[i].validate()
		if err == nil {
			err = paths.claimPath(files[i].Path)
		}
		if err != nil {
			return fmt.Errorf("storage.files[%d]: %w", i, err)
		}
		if total += size; total > maxContentBytes {
			return fmt.Errorf("storage.files: the files have more than %d bytes together", maxContentBytes)
		}
	}
	return nil
}

// validateUnits validates units and adds the paths of their files.
func validateUnits(units []Unit, paths claimedPaths) error {
	seen := map[string]bool{}
	for i := range units {
		u := &units[i]
		if seen[u.Name] {
			return fmt.Errorf("systemd.units[%d]: %q is not unique", i, u.Name)
		}
		seen[u.Name] = true
		if err := u.validate(paths); err != nil {
			return fmt.Errorf("systemd.units[%d]: %w", i, err)
		}
	}
	return nil
}

// validateUsers validates users.
func validateUsers(users []User) error {
	seen := map[string]bool{}
	for i := range users {
		u := &users[i]
		if err := u.validate(); err != nil {
			return fmt.Errorf("passwd.users[%d]: %w", i, err)
		}
		if seen[u.Name] {
			return fmt.Errorf("passwd.users[%d]: %q is not unique", i, u.Name)
		}
		seen[u.Name] = true
	}
	return nil
}

// validate validates a file and returns its decompressed size.
func (f *File) validate() (int, error) {
	if err := checkPath(f.Path); err != nil {
		return 0, err
	}
	if f.Mode != nil && (*f.Mode < 0 || *f.Mode > 0o7777) {
		return 0, fmt.Errorf("%s: mode is %d; 0 to %d (octal 7777) are allowed, in decimal", f.Path, *f.Mode, 0o7777)
	}
	if len(f.Append) > 0 {
		return 0, fmt.Errorf("%s: append is not supported: write all of the content into contents", f.Path)
	}

	for what, owner := range map[string]Owner{"user": f.User, "group": f.Group} {
		if err := owner.validate(); err != nil {
			return 0, fmt.Errorf("%s: %s: %w", f.Path, what, err)
		}
	}

	content, err := f.Content()
	return len(content), err
}

// checkPath returns an error for a path that a configuration may not contain.
func checkPath(p string) error {
	switch {
	case len(p) > maxPath:
		return fmt.Errorf("the path %q has %d bytes; %d are allowed", excerpt.Start(p, maxQuotedBytes), len(p), maxPath)
	case !path.IsAbs(p) || path.Clean(p) != p || p == "/":
		return fmt.Errorf("the path %q is not absolute and clean: begin it with / and leave . and .. out", excerpt.Start(p, maxQuotedBytes))
	case !utf8.ValidString(p) || strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return fmt.Errorf("the path %q has characters that cannot be printed", excerpt.Start(p, maxQuotedBytes))
	}

	for name := range strings.SplitSeq(p[1:], "/") {
		if len(name) > maxName {
			return fmt.Errorf("the path %q has a part of %d bytes; %d are allowed", excerpt.Start(p, maxQuotedBytes), len(name), maxName)
		}
	}

	for _, place := range reservedPaths {
		if p == place || strings.HasPrefix(p, place+"/") {
			return fmt.Errorf("the path %q lies in %s, where no configuration writes", excerpt.Start(p, maxQuotedBytes), place)
		}
		if strings.HasPrefix(place, p+"/") {
			return fmt.Errorf("the path %q is a folder, in which %s lies, and cannot be a file", excerpt.Start(p, maxQuotedBytes), place)
		}
	}

	return nil
}

// validate validates an owner.
func (o Owner) validate() error {
	switch {
	case o.ID != nil && (*o.ID < 0 || *o.ID > 1<<31-1):
		return fmt.Errorf("id is %d; 0 to %d are allowed", *o.ID, 1<<31-1)
	case o.ID != nil && o.Name != nil && *o.Name != "":
		return fmt.Errorf("id and name are both set: leave one out")
	case o.Name != nil && *o.Name != "" && !userName.MatchString(*o.Name):
		return fmt.Errorf("%q is not a name of a user or group", excerpt.Start(*o.Name, maxQuotedBytes))
	}

	return nil
}

// validate validates a unit and adds the paths of its files.
func (u *Unit) validate(paths claimedPaths) error {
	if len(u.Name) > maxName || !unitName.MatchString(u.Name) {
		return fmt.Errorf("%q is not a name of a unit", excerpt.Start(u.Name, maxQuotedBytes))
	}
	if u.Enabled != nil && strings.HasPrefix(u.Name, "-") {
		return fmt.Errorf("%s: enabled is set, and the name begins with -: systemctl would take it for an option", u.Name)
	}

	isMasked := u.Mask != nil && *u.Mask
	if isMasked && hasText(u.Contents) {
		return fmt.Errorf("%s: mask and contents are both set: a masked unit has none", u.Name)
	}

	if isMasked || hasText(u.Contents) {
		if err := paths.claimPath(UnitPath(u.Name)); err != nil {
			return err
		}
	}

	if len(u.Dropins) > maxItems {
		return fmt.Errorf("%s: there are %d drop-ins; %d are allowed", u.Name, len(u.Dropins), maxItems)
	}

	for _, d := range u.Dropins {
		if len(d.Name) > maxName || !dropinName.MatchString(d.Name) {
			return fmt.Errorf("%s: %q is not a name of a drop-in, which ends with .conf", u.Name, excerpt.Start(d.Name, maxQuotedBytes))
		}
		if err := paths.claimPath(DropinPath(u.Name, d.Name)); err != nil {
			return err
		}
	}

	return nil
}

// hasText reports whether a file is written for the content of a unit.
func hasText(contents *string) bool { return contents != nil && *contents != "" }

func (u *User) validate() error {
	if !userName.MatchString(u.Name) {
		return fmt.Errorf("%q is not a name of a user", excerpt.Start(u.Name, maxQuotedBytes))
	}
	if len(u.SSHAuthorizedKeys) > maxItems {
		return fmt.Errorf("%s: there are %d keys; %d are allowed", u.Name, len(u.SSHAuthorizedKeys), maxItems)
	}

	for i, key := range u.SSHAuthorizedKeys {
		if strings.ContainsAny(key, "\x00") || strings.ContainsAny(strings.TrimSpace(key), "\r\n") {
			return fmt.Errorf("%s: sshAuthorizedKeys[%d] has more than one line", u.Name, i)
		}
	}
	return nil
}

// claimedPaths are the files that a configuration writes.
type claimedPaths map[string]bool

func (c claimedPaths) claimPath(p string) error {
	if c[p] {
		return fmt.Errorf("%s is written twice", p)
	}
	c[p] = true
	return nil
}

// checkNesting refuses a file that lies below another file.
func (c claimedPaths) checkNesting() error {
	for p := range c {
		for parent := path.Dir(p); parent != "/"; parent = path.Dir(parent) {
			if c[parent] {
				return fmt.Errorf("%s is a file and the folder of %s", parent, p)
			}
		}
	}

	return nil
}
