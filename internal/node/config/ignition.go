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
	// MaxBytes is the maximum size of an Ignition configuration, also of a rendered one. It is the maximum size of objects
	// of the API server, 1.5 MiB.
	MaxBytes = 1_572_864
	// maxFileBytes is the maximum size of a decompressed file.
	maxFileBytes = 8 << 20
	// maxContentBytes is the maximum total size of the decompressed files of a configuration. MaxBytes does not limit it,
	// because content can be compressed.
	maxContentBytes = 32 << 20
	// maxItems is the maximum number of items of a list of files, units, drop-ins, users or keys.
	maxItems = 10_000
	// maxPath is the maximum length of a path on Linux, in bytes.
	maxPath = 4096
	// maxName is the maximum length of a part of a path in Linux file systems, in bytes.
	maxName = 255
	// maxQuotedBytes is the maximum length of an input that a message quotes.
	maxQuotedBytes = 80
)

// defaultMode is the mode of files without a mode.
const defaultMode = 0o644

// Ignition is a configuration of specification 3.
type Ignition struct {
	Ignition Header  `json:"ignition"`
	Storage  Storage `json:"storage,omitzero"`
	Systemd  Systemd `json:"systemd,omitzero"`
	Passwd   Passwd  `json:"passwd,omitzero"`
	// KernelArguments are applied only at the first boot. A MachineConfig has kernel arguments of its own.
	KernelArguments map[string]any `json:"kernelArguments,omitempty"`
}

// Header contains the version of the specification, and settings of Ignition itself.
type Header struct {
	Version string `json:"version"`
	// Config refers to other configurations. It must be empty, because none is fetched.
	Config   map[string]any `json:"config,omitempty"`
	Proxy    map[string]any `json:"proxy,omitempty"`
	Security map[string]any `json:"security,omitempty"`
	Timeouts map[string]any `json:"timeouts,omitempty"`
}

// Storage contains the files. All other fields are applied only at the first boot.
type Storage struct {
	Files       []File           `json:"files,omitempty"`
	Directories []map[string]any `json:"directories,omitempty"`
	Disks       []map[string]any `json:"disks,omitempty"`
	Filesystems []map[string]any `json:"filesystems,omitempty"`
	Links       []map[string]any `json:"links,omitempty"`
	Luks        []map[string]any `json:"luks,omitempty"`
	Raid        []map[string]any `json:"raid,omitempty"`
}

// IsZero reports whether all lists are empty or unset.
func (s Storage) IsZero() bool {
	return len(s.Files)+len(s.Directories)+len(s.Disks)+len(s.Filesystems)+len(s.Links)+len(s.Luks)+len(s.Raid) == 0
}

// File is a file to write.
type File struct {
	// Path is absolute and clean.
	Path string `json:"path"`
	// Overwrite is applied only at the first boot. The daemon always overwrites existing files.
	Overwrite *bool `json:"overwrite,omitempty"`
	// Contents is the content of the file. Unset means an empty file.
	Contents *Resource `json:"contents,omitempty"`
	// Append is not supported, because the daemon cannot detect whether content was already appended.
	Append []Resource `json:"append,omitempty"`
	// Mode contains the permissions. Unset means 0644.
	Mode  *int  `json:"mode,omitempty"`
	User  Owner `json:"user,omitzero"`
	Group Owner `json:"group,omitzero"`
}

// Resource is the content of a file.
type Resource struct {
	// Source is a data: URL.
	Source *string `json:"source,omitempty"`
	// Compression is gzip, or unset or empty for none.
	Compression  *string        `json:"compression,omitempty"`
	HTTPHeaders  []any          `json:"httpHeaders,omitempty"`
	Verification map[string]any `json:"verification,omitempty"`
}

// Owner is a user or a group, by ID or by name. Unset means root.
type Owner struct {
	ID   *int    `json:"id,omitempty"`
	Name *string `json:"name,omitempty"`
}

// Systemd contains the units.
type Systemd struct {
	Units []Unit `json:"units,omitempty"`
}

// IsZero reports whether there are no units.
func (s Systemd) IsZero() bool { return len(s.Units) == 0 }

// Unit is a unit of systemd.
type Unit struct {
	Name string `json:"name"`
	// Enabled enables or disables the unit. Unset does not change it.
	Enabled *bool `json:"enabled,omitempty"`
	// Mask prevents any start of the unit.
	Mask *bool `json:"mask,omitempty"`
	// Contents is the content of the unit's file. Unset means that the file is not part of the configuration.
	Contents *string  `json:"contents,omitempty"`
	Dropins  []Dropin `json:"dropins,omitempty"`
}

// Dropin is a drop-in file of a unit.
type Dropin struct {
	Name     string  `json:"name"`
	Contents *string `json:"contents,omitempty"`
}

// Passwd contains the users. All of their fields except the SSH keys are applied only at the first boot.
type Passwd struct {
	Users  []User           `json:"users,omitempty"`
	Groups []map[string]any `json:"groups,omitempty"`
}

// IsZero reports whether there are no users and groups.
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

// Parse parses and validates an Ignition configuration. Empty data is an empty configuration. Parse returns an error for duplicate
// fields, and for fields that the specification does not have, because they are most likely misspelled.
func Parse(data []byte) (*Ignition, error) {
	if len(data) == 0 || string(data) == "null" {
		return &Ignition{Ignition: Header{Version: lastVersion}}, nil
	}
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("the Ignition configuration has %d bytes; %d are allowed", len(data), MaxBytes)
	}

	// The version is read first, because configurations of other versions have other fields.
	var head struct {
		Ignition struct {
			Version string `json:"version"`
		} `json:"ignition"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &head); err != nil {
		return nil, fmt.Errorf("the Ignition configuration is not valid JSON: %w", err)
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

// lastVersion is the newest supported version of the specification, and the version of rendered configurations.
const (
	lastVersion = "3.5.0"
	lastMinor   = 5
)

// MarshalCanonical returns a configuration as JSON. Equal configurations have equal bytes.
func (c *Ignition) MarshalCanonical() ([]byte, error) {
	data, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("writing the Ignition configuration: %w", err)
	}
	return data, nil
}
