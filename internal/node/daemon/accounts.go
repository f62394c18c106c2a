package daemon

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/mainstay-dev/mainstay/internal/node/config"
)

// maxAccountsFileSize limits the size in bytes of the files of users and groups.
const maxAccountsFileSize = 16 << 20

const (
	passwdFile = "/etc/passwd"
	groupFile  = "/etc/group"
)

// account is a user of the node, or a group. A group has no home.
type account struct {
	uid, gid int
	home     string
}

// accounts are the users and groups of a node, which own its files.
type accounts struct{ disk *disk }

// read returns the users or groups of the node. Without the file there is only root.
func (a accounts) read(file string) (map[string]account, error) {
	found := map[string]account{"root": {home: "/root"}}
	data, err := a.disk.readFile(file, maxAccountsFileSize)
	if errors.Is(err, fs.ErrNotExist) {
		return found, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the accounts of the node: %w", err)
	}

	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, maxAccountsFileSize)
	for lines.Scan() {
		fields := strings.Split(lines.Text(), ":")
		if len(fields) < 4 {
			continue
		}

		known := account{}
		known.uid, err = strconv.Atoi(fields[2])
		if err != nil {
			continue
		}
		if file == passwdFile && len(fields) >= 6 {
			known.gid, err = strconv.Atoi(fields[3])
			known.home = fields[5]
		}
		if err == nil {
			found[fields[0]] = known
		}
	}

	return found, nil
}

// resolveItems returns the files and links of a configuration, with owners of this node, in the order in which they
// are written.
func (a accounts) resolveItems(c *config.Ignition) ([]item, error) {
	entries, err := c.Entries()
	if err != nil {
		return nil, err
	}

	users, err := a.read(passwdFile)
	if err != nil {
		return nil, err
	}

	groups, err := a.read(groupFile)
	if err != nil {
		return nil, err
	}

	items := make([]item, 0, len(entries))
	for _, e := range entries {
		it := item{path: e.Path, content: e.Content, mode: modeOf(e.Mode), link: e.Link}
		it.uid, err = ownerID(e.User, users, "user")
		if err == nil {
			it.gid, err = ownerID(e.Group, groups, "group")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.Path, err)
		}

		items = append(items, it)
	}

	for _, u := range c.Passwd.Users {
		if len(u.SSHAuthorizedKeys) == 0 {
			continue
		}
		it, err := authorizedKeysItem(u, users)
		if err != nil {
			return nil, err
		}
		items = append(items, it)
	}

	return items, nil
}

// ownerID returns the numeric ID of an owner. The default is root.
func ownerID(o config.Owner, known map[string]account, kind string) (int, error) {
	switch {
	case o.ID != nil:
		return *o.ID, nil
	case o.Name == nil || *o.Name == "":
		return 0, nil
	}

	a, ok := known[*o.Name]
	if !ok {
		return 0, fmt.Errorf("the node has no %s %q", kind, *o.Name)
	}
	return a.uid, nil
}

// authorizedKeysItem returns the file with the SSH keys of a user. The user must exist on the node.
func authorizedKeysItem(u config.User, users map[string]account) (item, error) {
	a, ok := users[u.Name]
	if !ok || !path.IsAbs(a.home) {
		return item{}, fmt.Errorf("passwd.users: the node has no user %q with a home: keys are written for users that it has", u.Name)
	}

	var b strings.Builder
	for _, key := range u.SSHAuthorizedKeys {
		b.WriteString(strings.TrimSpace(key) + "\n")
	}

	return item{
		path:    path.Join(a.home, ".ssh", "authorized_keys.d", "ignition"),
		content: []byte(b.String()), mode: 0o600, uid: a.uid, gid: a.gid,
	}, nil
}
