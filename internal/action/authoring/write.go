package authoring

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Permissions of what is made; the umask takes away from them.
const (
	dirMode  = 0o755
	fileMode = 0o644
)

// write puts a file into place as a whole: nobody sees half of it, and a failure leaves
// what there was. The folder is made when it does not exist.
func write(name string, from io.Reader) (err error) {
	dir := filepath.Dir(name)
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return err
	}

	beside, err := createBeside(name)
	if err != nil {
		return err
	}

	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(beside.Name()))
		}
	}()
	_, err = io.Copy(beside, from)
	if err = errors.Join(err, beside.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}

	return os.Rename(beside.Name(), name)
}

// createBeside makes a file of a name of its own. Unlike os.CreateTemp it leaves the
// permissions to the umask.
func createBeside(name string) (*os.File, error) {
	for i := 0; ; i++ {
		f, err := os.OpenFile(fmt.Sprintf("%s.%d.tmp", name, i), os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
		if i < 100 && errors.Is(err, fs.ErrExist) {
			continue
		}
		return f, err
	}
}

// create makes a file that must not exist. A failure leaves none.
func create(name string, text []byte) (err error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}

	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(fmt.Errorf("writing %s: %w", name, err), os.Remove(name))
	}

	return nil
}

// copyTree copies the files of a folder, also those of folders in it. Where one of them is
// no regular file, nothing is copied.
func copyTree(from, to string) error {
	if same, err := sameFolder(from, to); same || err != nil {
		return err
	}

	root, err := os.OpenRoot(from)
	if err != nil {
		return err
	}

	defer func() { _ = root.Close() }() // it was only read
	// All names first: the copy may lie in the folder itself.
	var names []string
	err = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil || entry.IsDir():
			return err
		case !entry.Type().IsRegular():
			return fmt.Errorf("%s is no regular file: replace it by what it stands for", filepath.Join(from, name))
		}
		names = append(names, name)
		return nil
	})
	if err != nil {
		return err
	}

	for _, name := range names {
		if err := copyFile(root, name, filepath.Join(to, filepath.FromSlash(name))); err != nil {
			return err
		}
	}

	return nil
}

func copyFile(root *os.Root, name, to string) error {
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	return write(to, f)
}

// sameFolder reports whether two paths are one folder.
func sameFolder(a, b string) (bool, error) {
	infoA, err := os.Stat(a)
	if err != nil {
		return false, err
	}

	infoB, err := os.Stat(b)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}

	return err == nil && os.SameFile(infoA, infoB), err
}

// readFile reads a file of at most limit bytes.
func readFile(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	return readAll(f, limit)
}

// readAll reads at most limit bytes.
func readAll(f io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("it is larger than the %d bytes that it may have", limit)
	}
	return data, err
}
