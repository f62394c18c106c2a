package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	kjson "sigs.k8s.io/json"

	"github.com/mainstay-dev/mainstay/internal/excerpt"
)

// Limits of a configuration.
const (
	// MaxBytes is how large an Ignition configuration may be, and a rendered one: objects of
	// the API server are not larger (1.5 MiB).
	MaxBytes = 1_572_864
	// maxFileBytes is how large one file may be once it is unpacked.
	maxFileBytes = 8 << 20
	// maxContentBytes is how large all files of a configuration may be together. Content may be
	// compressed, so that it is not bounded by MaxBytes.
	maxContentBytes = 32 << 20
	// maxItems is how many files, units, drop-ins, users or keys a list may have.
	maxItems = 10_000
	// maxPath is how long the path of a file may be, as Linux has it.
	maxPath = 4096
	// maxName is how long a part of a path may be, as Linux file systems have it.
	maxName = 255
	// maxQuotedBytes is how much of an input a message quotes.
	maxQuotedBytes = 80
)

// defaultMode is the mode of files that name none.
const defaultMode = 0o644

// Ignition is a configuration of specification 3.
type Ignition struct {
	Ignition Header  `json:"ignition"`
	Storage  Storage `json:"storage,omitzero"`
	Systemd  Systemd `json:"systemd,omitzero"`
	Passwd   Passwd  `json:"passwd,omitzero"`
	// KernelArguments of Ignition are for the first boot; a MachineConfig has its own.
	KernelArguments map[string]any `json:"kernelArguments,omitempty"`
}

// Header says what specification the configuration is of.
type Header struct {
	Version string `json:"version"`
	// Config may name other configurations. None is fetched, so that none may be named.
	Config   map[string]any `json:"config,omitempty"`
	Proxy    map[string]any `json:"proxy,omitempty"`
	Security map[string]any `json:"security,omitempty"`
	Timeouts map[string]any `json:"timeouts,omitempty"`
}

// Storage are the files. All else is for the first boot.
type Storage struct {
	Files       []File           `json:"files,omitempty"`
	Directories []map[string]any `json:"directories,omitempty"`
	Disks       []map[string]any `json:"disks,omitempty"`
	Filesystems []map[string]any `json:"filesystems,omitempty"`
	Links       []map[string]any `json:"links,omitempty"`
	Luks        []map[string]any `json:"luks,omitempty"`
	Raid        []map[string]any `json:"raid,omitempty"`
}

// IsZero reports whether there is nothing in it: empty lists are as good as none.
func (s Storage) IsZero() bool {
	return len(s.Files)+len(s.Directories)+len(s.Disks)+len(s.Filesystems)+len(s.Links)+len(s.Luks)+len(s.Raid) == 0
}

// File is a file to write.
type File struct {
	// Path is absolute and clean.
	Path string `json:"path"`
	// Overwrite is of the first boot; the daemon writes over what is there.
	Overwrite *bool `json:"overwrite,omitempty"`
	// Contents is what the file holds. Unset means an empty file.
	Contents *Resource `json:"contents,omitempty"`
	// Append is not supported: whether something was appended already cannot be told.
	Append []Resource `json:"append,omitempty"`
	// Mode are the permissions. Unset means 0644.
	Mode  *int  `json:"mode,omitempty"`
	User  Owner `json:"user,omitzero"`
	Group Owner `json:"group,omitzero"`
}

// Resource is content.
type Resource struct {
	// Source is a data: URL.
	Source *string `json:"source,omitempty"`
	// Compression is gzip, or unset or empty for none.
	Compression  *string        `json:"compression,omitempty"`
	HTTPHeaders  []any          `json:"httpHeaders,omitempty"`
	Verification map[string]any `json:"verification,omitempty"`
}

// Owner is a user or a group, by its number or its name. Unset means root.
type Owner struct {
	ID   *int    `json:"id,omitempty"`
	Name *string `json:"name,omitempty"`
}

// Systemd are the units.
type Systemd struct {
	Units []Unit `json:"units,omitempty"`
}

// IsZero reports whether there is nothing in it.
func (s Systemd) IsZero() bool { return len(s.Units) == 0 }

// Unit is a unit of systemd.
type Unit struct {
	Name string `json:"name"`
	// Enabled has the unit enabled or disabled. Unset leaves it as it is.
	Enabled *bool `json:"enabled,omitempty"`
	// Mask keeps the unit from being started at all.
	Mask *bool `json:"mask,omitempty"`
	// Contents of the unit's file. Unset means that it is another's.
	Contents *string  `json:"contents,omitempty"`
	Dropins  []Dropin `json:"dropins,omitempty"`
}

// Dropin is a part of a unit in a file of its own.
type Dropin struct {
	Name     string  `json:"name"`
	Contents *string `json:"contents,omitempty"`
}

// Passwd are the users. All of them but their keys is for the first boot.
type Passwd struct {
	Users  []User           `json:"users,omitempty"`
	Groups []map[string]any `json:"groups,omitempty"`
}

// IsZero reports whether there is nothing in it.
func (p Passwd) IsZero() bool { return len(p.Users)+len(p.Groups) == 0 }

// User is a user of the node.
type User struct {
	Name              string   `json:"name"`
	SSHAuthorizedKeys []string `json:"sshAuthorizedKeys,omitempty"`

	Gecos        *string  `json:"gecos,omitempty"`
	Groups       []string `json:"groups,omitempty"`
	HomeDir      *string  `json:"homeDir,omitempty"`
	NoCreateHome *bool    `json:"noCreateHome,omitempty"`
	NoLogInit    *bool    `json:"noLogInit,omitempty"`
	NoUserGroup  *bool    `json:"noUserGroup,omitempty"`
	PasswordHash *string  `json:"passwordHash,omitempty"`
	PrimaryGroup *string  `json:"primaryGroup,omitempty"`
	Shell        *string  `json:"shell,omitempty"`
	ShouldExist  *bool    `json:"shouldExist,omitempty"`
	System       *bool    `json:"system,omitempty"`
	UID          *int     `json:"uid,omitempty"`
}

var version3 = regexp.MustCompile(`^3\.[0-5]\.0$`)

// Parse parses and validates an Ignition configuration, so that every part of it can be written. No data is an empty
// configuration. Parse fails for duplicate fields, and for fields that the specification does not have, because they
// are most likely misspelled.
func Parse(data []byte) (*Ignition, error) {
	if len(data) == 0 || string(data) == "null" {
		return &Ignition{Ignition: Header{Version: lastVersion}}, nil
	}
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("the Ignition configuration has %d bytes; %d are allowed", len(data), MaxBytes)
	}

	// The version comes first: a configuration of another one has other fields.
	var head struct {
		Ignition struct {
			Version string `json:"version"`
		} `json:"ignition"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &head); err != nil {
		return nil, fmt.Errorf("the Ignition configuration is no JSON of its kind: %w", err)
	}
	if version := head.Ignition.Version; !version3.MatchString(version) {
		return nil, fmt.Errorf("ignition.version is %q; versions 3.0.0 to %s are supported", excerpt.Start(version, maxQuotedBytes), lastVersion)
	}

	var c Ignition
	strict, err := kjson.UnmarshalStrict(data, &c)
	if err == nil {
		err = errors.Join(strict...)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the Ignition configuration: %w", err)
	}
	if err := c.validate(); err != nil {
		return nil, err
	}

	return &c, nil
}

// lastVersion is the newest version of the specification that is known. Rendered configurations
// are of it.
const (
	lastVersion = "3.5.0"
	lastMinor   = 5
)

// MarshalCanonical writes a configuration so that equal ones give equal bytes.
func (c *Ignition) MarshalCanonical() ([]byte, error) {
	data, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("writing the Ignition configuration: %w", err)
	}
	return data, nil
}
