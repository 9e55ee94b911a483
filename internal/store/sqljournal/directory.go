package sqljournal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// ErrInUse says that another process has the directory of a journal.
var ErrInUse = errors.New("belongs to another running process")

// lockDirectory makes the directory if there is none and takes it for this
// process. The lock is the kernel's, and ends with the process however that
// ends; the file only says whose it is.
func lockDirectory(dir string) (*os.File, error) {
	if err := makeDirectory(dir); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "LOCK"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer f.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("locking %s: %w", f.Name(), err)
		}
		owner, _ := os.ReadFile(f.Name())
		return nil, fmt.Errorf("the directory %s %w (%s)", dir, ErrInUse, strings.TrimSpace(string(owner)))
	}
	if err := errors.Join(f.Truncate(0), writeOwner(f)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func writeOwner(f *os.File) error {
	_, err := fmt.Fprintf(f, "process %d\n", os.Getpid())
	return err
}

// makeDirectory makes a directory and those above it, so that their names
// survive a power cut as well as what is in them.
func makeDirectory(dir string) error {
	err := os.Mkdir(dir, 0o700)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case errors.Is(err, fs.ErrNotExist):
		if err := makeDirectory(filepath.Dir(dir)); err != nil {
			return err
		}
		return makeDirectory(dir)
	case err != nil:
		return err
	}
	above, err := os.Open(filepath.Dir(dir))
	if err != nil {
		return err
	}
	return errors.Join(above.Sync(), above.Close())
}
