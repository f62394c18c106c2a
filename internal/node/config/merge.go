package config

import (
	"cmp"
	"encoding/json"
	"slices"
)

// mergeConfigs merges two configurations. Items with the same path or name are merged field by field, and the later one
// wins. Lists are sorted by path or name, so that equal content results in equal configurations.
func mergeConfigs(base, later *Ignition) *Ignition {
	return &Ignition{
		Ignition: Header{
			Version: lastVersion,
			Proxy:   mergeObject(base.Ignition.Proxy, later.Ignition.Proxy), Security: mergeObject(base.Ignition.Security, later.Ignition.Security),
			Timeouts: mergeObject(base.Ignition.Timeouts, later.Ignition.Timeouts),
		},
		Storage: Storage{
			Files:       mergeList(base.Storage.Files, later.Storage.Files, func(f File) string { return f.Path }, mergeFile),
			Directories: mergeObjects(base.Storage.Directories, later.Storage.Directories, "path"),
			Disks:       mergeObjects(base.Storage.Disks, later.Storage.Disks, "device"),
			Filesystems: mergeObjects(base.Storage.Filesystems, later.Storage.Filesystems, "device"),
			Links:       mergeObjects(base.Storage.Links, later.Storage.Links, "path"),
			Luks:        mergeObjects(base.Storage.Luks, later.Storage.Luks, "name"),
			Raid:        mergeObjects(base.Storage.Raid, later.Storage.Raid, "name"),
		},
		Systemd: Systemd{Units: mergeList(base.Systemd.Units, later.Systemd.Units, func(u Unit) string { return u.Name }, mergeUnit)},
		Passwd: Passwd{
			Users:  mergeList(base.Passwd.Users, later.Passwd.Users, func(u User) string { return u.Name }, mergeUser),
			Groups: mergeObjects(base.Passwd.Groups, later.Passwd.Groups, "name"),
		},
		KernelArguments: mergeObject(base.KernelArguments, later.KernelArguments),
	}
}

// mergeList merges two lists by a key, and sorts the result by it.
func mergeList[T any](base, later []T, key func(T) string, both func(base, later T) T) []T {
	merged := slices.Clone(base)
	at := make(map[string]int, len(base)+len(later))
	for i, item := range base {
		at[key(item)] = i
	}

	for _, item := range later {
		if i, ok := at[key(item)]; ok {
			merged[i] = both(merged[i], item)
			continue
		}
		at[key(item)] = len(merged)
		merged = append(merged, item)
	}

	slices.SortStableFunc(merged, func(a, b T) int { return cmp.Compare(key(a), key(b)) })
	return merged
}

// mergeObjects merges lists of items without a Go type. A later item replaces an earlier one with the same key. The key
// of an item without one is its whole content.
func mergeObjects(base, later []map[string]any, name string) []map[string]any {
	key := func(object map[string]any) string {
		if value, ok := object[name].(string); ok {
			return value
		}
		text, _ := json.Marshal(object) // it was read from JSON
		return string(text)
	}

	return mergeList(base, later, key, func(_, later map[string]any) map[string]any { return later })
}

func mergeObject(base, later map[string]any) map[string]any {
	if len(later) == 0 {
		return base
	}
	return later
}

func mergeFile(base, later File) File {
	base.Overwrite = firstSet(later.Overwrite, base.Overwrite)
	if later.Contents != nil && later.Contents.Source != nil {
		base.Contents = later.Contents
	}

	base.Mode = firstSet(later.Mode, base.Mode)
	if later.User != (Owner{}) {
		base.User = later.User
	}
	if later.Group != (Owner{}) {
		base.Group = later.Group
	}

	return base
}

func mergeUnit(base, later Unit) Unit {
	base.Enabled, base.Mask = firstSet(later.Enabled, base.Enabled), firstSet(later.Mask, base.Mask)
	base.Contents = firstSet(later.Contents, base.Contents)
	base.Dropins = mergeList(base.Dropins, later.Dropins, func(d Dropin) string { return d.Name }, func(base, later Dropin) Dropin {
		base.Contents = firstSet(later.Contents, base.Contents)
		return base
	})
	return base
}

func mergeUser(base, later User) User {
	for _, key := range later.SSHAuthorizedKeys {
		if !slices.Contains(base.SSHAuthorizedKeys, key) {
			base.SSHAuthorizedKeys = append(slices.Clip(base.SSHAuthorizedKeys), key)
		}
	}

	for _, group := range later.Groups {
		if !slices.Contains(base.Groups, group) {
			base.Groups = append(slices.Clip(base.Groups), group)
		}
	}

	base.Gecos, base.HomeDir, base.Shell = firstSet(later.Gecos, base.Gecos), firstSet(later.HomeDir, base.HomeDir), firstSet(later.Shell, base.Shell)
	base.PasswordHash, base.PrimaryGroup = firstSet(later.PasswordHash, base.PasswordHash), firstSet(later.PrimaryGroup, base.PrimaryGroup)
	base.NoCreateHome, base.NoLogInit = firstSet(later.NoCreateHome, base.NoCreateHome), firstSet(later.NoLogInit, base.NoLogInit)
	base.NoUserGroup, base.ShouldExist = firstSet(later.NoUserGroup, base.NoUserGroup), firstSet(later.ShouldExist, base.ShouldExist)
	base.System, base.UID = firstSet(later.System, base.System), firstSet(later.UID, base.UID)

	return base
}

// firstSet returns the first of two values that is set.
func firstSet[T any](first, second *T) *T {
	if first != nil {
		return first
	}
	return second
}
