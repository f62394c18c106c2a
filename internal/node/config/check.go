package config

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Home is the folder of the daemon. Configurations write there too, but not its own files.
const Home = "/etc/machine-config-daemon"

// Files and folders of the daemon, in which no configuration writes.
const (
	// CurrentFile holds the configuration that the node has.
	CurrentFile = Home + "/currentconfig"
	// JournalFile describes an update that is not complete.
	JournalFile = Home + "/update.json"
	// OriginalsFolder has a record of what was at each path before the daemon wrote there.
	OriginalsFolder = Home + "/orig"
	// AnnotationsFile is where a new machine has the annotations that its node is to have: they tell
	// its daemon which configuration the first boot has written.
	AnnotationsFile = Home + "/node-annotations.json"
)

// unitFolder is where the files of units lie.
const unitFolder = "/etc/systemd/system"

// reserved are folders in which no file is kept, and what is the daemon's own.
var reserved = []string{"/proc", "/sys", "/dev", CurrentFile, JournalFile, OriginalsFolder, AnnotationsFile}

var (
	unitName   = regexp.MustCompile(`^[a-zA-Z0-9:_.\\@-]+\.(service|socket|device|mount|automount|swap|target|path|timer|slice|scope)$`)
	dropinName = regexp.MustCompile(`^[a-zA-Z0-9:_.\\@-]+\.conf$`)
	userName   = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,31}\$?$`)
)

// UnitPath is the file of a unit.
func UnitPath(unit string) string { return path.Join(unitFolder, unit) }

// DropinPath is the file of a drop-in of a unit.
func DropinPath(unit, dropin string) string { return path.Join(unitFolder, unit+".d", dropin) }

// check reports whether all of a configuration can be carried out, and names the first part that
// cannot be.
func (c *Ignition) check() error {
	if len(c.Ignition.Config) > 0 {
		return fmt.Errorf("ignition.config names other configurations, of which none is fetched: write their content into this one")
	}

	for list, n := range map[string]int{"storage.files": len(c.Storage.Files), "systemd.units": len(c.Systemd.Units), "passwd.users": len(c.Passwd.Users)} {
		if n > maxItems {
			return fmt.Errorf("%s has %d items; %d are allowed", list, n, maxItems)
		}
	}

	paths := claims{}
	total := 0
	for i := range c.Storage.Files {
		f := &c.Storage.Files[i]
		size, err := f.check()
		if err == nil {
			err = paths.claim(f.Path)
		}
		if err != nil {
			return fmt.Errorf("storage.files[%d]: %w", i, err)
		}
		if total += size; total > maxContentBytes {
			return fmt.Errorf("storage.files: the files have more than %d bytes together", maxContentBytes)
		}
	}

	units := map[string]bool{}
	for i := range c.Systemd.Units {
		u := &c.Systemd.Units[i]
		if units[u.Name] {
			return fmt.Errorf("systemd.units[%d]: %q stands twice", i, u.Name)
		}
		units[u.Name] = true
		if err := u.check(paths); err != nil {
			return fmt.Errorf("systemd.units[%d]: %w", i, err)
		}
	}

	if err := paths.check(); err != nil {
		return err
	}

	users := map[string]bool{}
	for i := range c.Passwd.Users {
		u := &c.Passwd.Users[i]
		if err := u.check(); err != nil {
			return fmt.Errorf("passwd.users[%d]: %w", i, err)
		}
		if users[u.Name] {
			return fmt.Errorf("passwd.users[%d]: %q stands twice", i, u.Name)
		}
		users[u.Name] = true
	}

	return nil
}

// check returns the size of the file once it is unpacked.
func (f *File) check() (int, error) {
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
		if err := owner.check(); err != nil {
			return 0, fmt.Errorf("%s: %s: %w", f.Path, what, err)
		}
	}

	content, err := f.Content()
	return len(content), err
}

func checkPath(p string) error {
	switch {
	case len(p) > maxPath:
		return fmt.Errorf("the path %q has %d bytes; %d are allowed", clip(p), len(p), maxPath)
	case !path.IsAbs(p) || path.Clean(p) != p || p == "/":
		return fmt.Errorf("the path %q is not absolute and clean: begin it with / and leave . and .. out", clip(p))
	case !utf8.ValidString(p) || strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return fmt.Errorf("the path %q has characters that cannot be printed", clip(p))
	}

	for name := range strings.SplitSeq(p[1:], "/") {
		if len(name) > maxName {
			return fmt.Errorf("the path %q has a part of %d bytes; %d are allowed", clip(p), len(name), maxName)
		}
	}

	for _, place := range reserved {
		if p == place || strings.HasPrefix(p, place+"/") {
			return fmt.Errorf("the path %q lies in %s, where no configuration writes", clip(p), place)
		}
		if strings.HasPrefix(place, p+"/") {
			return fmt.Errorf("the path %q is a folder, in which %s lies, and cannot be a file", clip(p), place)
		}
	}

	return nil
}

func (o Owner) check() error {
	switch {
	case o.ID != nil && (*o.ID < 0 || *o.ID > 1<<31-1):
		return fmt.Errorf("id is %d; 0 to %d are allowed", *o.ID, 1<<31-1)
	case o.ID != nil && o.Name != nil && *o.Name != "":
		return fmt.Errorf("id and name are both set: leave one out")
	case o.Name != nil && *o.Name != "" && !userName.MatchString(*o.Name):
		return fmt.Errorf("%q is no name of a user or group", clip(*o.Name))
	}

	return nil
}

func (u *Unit) check(paths claims) error {
	if len(u.Name) > maxName || !unitName.MatchString(u.Name) {
		return fmt.Errorf("%q is no name of a unit", clip(u.Name))
	}
	if u.Enabled != nil && strings.HasPrefix(u.Name, "-") {
		return fmt.Errorf("%s: enabled is set, and the name begins with -: systemctl would take it for an option", u.Name)
	}

	isMasked := u.Mask != nil && *u.Mask
	if isMasked && hasText(u.Contents) {
		return fmt.Errorf("%s: mask and contents are both set: a masked unit has none", u.Name)
	}

	if isMasked || hasText(u.Contents) {
		if err := paths.claim(UnitPath(u.Name)); err != nil {
			return err
		}
	}

	if len(u.Dropins) > maxItems {
		return fmt.Errorf("%s: there are %d drop-ins; %d are allowed", u.Name, len(u.Dropins), maxItems)
	}

	for _, d := range u.Dropins {
		if len(d.Name) > maxName || !dropinName.MatchString(d.Name) {
			return fmt.Errorf("%s: %q is no name of a drop-in, which ends with .conf", u.Name, clip(d.Name))
		}
		if err := paths.claim(DropinPath(u.Name, d.Name)); err != nil {
			return err
		}
	}

	return nil
}

// hasText reports whether a file is written for the content of a unit.
func hasText(contents *string) bool { return contents != nil && *contents != "" }

func (u *User) check() error {
	if !userName.MatchString(u.Name) {
		return fmt.Errorf("%q is no name of a user", clip(u.Name))
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

// claims are the files that a configuration writes.
type claims map[string]bool

func (c claims) claim(p string) error {
	if c[p] {
		return fmt.Errorf("%s is written twice", p)
	}
	c[p] = true
	return nil
}

// check refuses a file that lies below another file.
func (c claims) check() error {
	for p := range c {
		for parent := path.Dir(p); parent != "/"; parent = path.Dir(parent) {
			if c[parent] {
				return fmt.Errorf("%s is to be a file, and the folder of %s", parent, p)
			}
		}
	}

	return nil
}
