package authoring

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Permissions of created files and folders before the umask applies.
const (
	dirMode  = 0o755
	fileMode = 0o644
)

// writeFileAtomically writes a file through a temporary one. A failure leaves an existing
// file unchanged. The parent folder is created if necessary.
func writeFileAtomically(name string, from io.Reader) (err error) {
	dir := filepath.Dir(name)
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return err
	}

	temporary, err := createTemporaryFile(name)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(temporary.Name()))
		}
	}()
	_, err = io.Copy(temporary, from)
	if err = errors.Join(err, temporary.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}

	return os.Rename(temporary.Name(), name)
}

// createTemporaryFile creates a file with an unused name next to name. In contrast to
// os.CreateTemp, the umask determines its permissions.
func createTemporaryFile(name string) (*os.File, error) {
	for i := 0; ; i++ {
		f, err := os.OpenFile(fmt.Sprintf("%s.%d.tmp", name, i), os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
		if i < 100 && errors.Is(err, fs.ErrExist) {
			continue
		}
		return f, err
	}
}

// createNewFile writes a file that must not exist. A failure leaves no file.
func createNewFile(name string, text []byte) (err error) {
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

// copyRegularFiles copies the files of a folder recursively. It copies nothing if one of
// them is not a regular file.
func copyRegularFiles(from, to string) error {
	if same, err := isSameFolder(from, to); same || err != nil {
		return err
	}

	root, err := os.OpenRoot(from)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // it was only read
	// All names are collected first, because the target may be in the folder.
	var names []string
	err = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil || entry.IsDir():
			return err
		case !entry.Type().IsRegular():
			return fmt.Errorf("%s is not a regular file: replace it by its target", filepath.Join(from, name))
		}
		names = append(names, name)
		return nil
	})
	if err != nil {
		return err
	}

	for _, name := range names {
		if err := copyRootedFile(root, name, filepath.Join(to, filepath.FromSlash(name))); err != nil {
			return err
		}
	}

	return nil
}

func copyRootedFile(root *os.Root, name, to string) error {
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	return writeFileAtomically(to, f)
}

// isSameFolder reports whether two paths point to the same folder.
func isSameFolder(a, b string) (bool, error) {
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

// readFileLimited reads a file of at most limit bytes.
func readFileLimited(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	return readAllLimited(f, limit)
}

// readAllLimited reads at most limit bytes. It returns an error if there are more.
func readAllLimited(f io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("it is larger than the %d bytes that it may have", limit)
	}
	return data, err
}
