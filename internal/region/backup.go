package region

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/bastide-cloud/bastide/internal/apilog"
	"github.com/bastide-cloud/bastide/internal/resource"
	"github.com/bastide-cloud/bastide/internal/server"
	"github.com/bastide-cloud/bastide/internal/store"
	"github.com/bastide-cloud/bastide/internal/store/sqljournal"
)

// Copy is the result of a backup.
type Copy struct {
	Dir       string
	Bytes     int64
	MasterKey string // the file of the master key, if it is not in the copy
}

// String returns the operator's next steps with the copy.
func (c *Copy) String() string {
	text := fmt.Sprintf("The region was copied to %s (%d KiB).\n", c.Dir, (c.Bytes+1023)/1024)
	restore := "bastide serve --data " + c.Dir
	if c.MasterKey == "" {
		text += "The copy has the master key: with it every secret of the region can be read.\n"
	} else {
		text += fmt.Sprintf("The copy is useless without the master key, which is not in it: keep %s, too.\n", c.MasterKey)
		restore += " --master-key " + c.MasterKey
	}
	return text + "To restore, start on the copy, or on a copy of it: " + restore + "\n"
}

// Backup copies the running region to a directory that is new or empty. The
// copy has every transaction that was answered before the call, and each
// transaction whole or not at all. Calls continue meanwhile. data is the
// directory of the region that the caller means; empty: any.
func (r *Region) Backup(ctx context.Context, data, dir string) (*Copy, error) {
	journal, ok := r.journal.(*sqljournal.SQLite)
	if !ok {
		return nil, errors.New("this region has no data directory that could be copied")
	}
	if data != "" && !sameFile(data, r.data) {
		return nil, fmt.Errorf("this region is the one in %s, and not the one in %s", r.data, data)
	}
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("the directory %q is a relative path: give an absolute one", dir)
	}
	return backup(ctx, r.data, r.keyFile, journal, r.Calls, dir)
}

// makeToken generates the token that authorizes backups of the region, and
// writes it to the file that [Token] reads. A copy has the master key, so only
// a caller who can read the original may make one.
func (o *Options) makeToken(journal store.Journal) (string, error) {
	if _, ok := journal.(*sqljournal.SQLite); !ok {
		return "", nil
	}
	file := filepath.Join(o.Data, tokenFile)
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	token := resource.Random(o.Rand, 32, resource.Hexadecimal)
	return token, write(file, []byte(token))
}

// Token reads the token of the region that runs on a data directory.
func Token(data string) (string, error) {
	token, err := os.ReadFile(filepath.Join(data, tokenFile))
	return string(token), err
}

// backupWith is Backup for a request that carries a token.
func (r *Region) backupWith(ctx context.Context, token, data, dir string) (fmt.Stringer, error) {
	if r.token != "" && subtle.ConstantTimeCompare([]byte(token), []byte(r.token)) != 1 {
		return nil, fmt.Errorf("%w: this region is the one in %s, and its token is in %s there", server.ErrToken, r.data, tokenFile)
	}
	return r.Backup(ctx, data, dir)
}

// Backup copies the region in o.Data as [Region.Backup] does. The region does
// not run and cannot start meanwhile. If it runs, the error is
// [sqljournal.ErrInUse].
func Backup(ctx context.Context, o Options, dir string) (_ *Copy, err error) {
	if _, err := os.Stat(filepath.Join(o.Data, sqljournal.File)); err != nil {
		return nil, fmt.Errorf("there is no region in %s: %w", o.Data, err)
	}
	journal, err := sqljournal.Open(ctx, o.Data)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, journal.Close()) }()
	// A retention without end, so that opening the log drops nothing.
	calls, err := apilog.Open(apilog.Options{
		Dir: filepath.Join(o.Data, logDir), Now: o.Clock.Now, After: time.After, Log: o.Logger, Keep: math.MaxInt64,
	})
	if err != nil {
		return nil, fmt.Errorf("opening the API log: %w", err)
	}
	defer func() { err = errors.Join(err, calls.Close()) }()
	return backup(ctx, o.Data, o.keyFile(), journal, calls, dir)
}

// The files in a data directory besides the state and [RootFile].
const (
	keyFile   = "master.key"
	logDir    = "apilog"
	tlsDir    = "tls"         // the certificate authority made by serve
	tokenFile = "admin.token" // generated at each start, and not copied
)

// incomplete is the content of the state's file until the copy is complete, so
// that no region starts on half of it.
const incomplete = "This copy of a region is not complete: the backup did not end.\n"

func backup(ctx context.Context, data, masterKey string, journal *sqljournal.SQLite, calls *apilog.Archive, dir string) (_ *Copy,
	err error) {
	undo, err := claim(dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if ctx.Err() != nil {
			err = fmt.Errorf("the backup was canceled, or the region ends: %w", ctx.Err())
		}
		if err != nil {
			err = errors.Join(err, undo())
		}
	}()
	state := filepath.Join(dir, sqljournal.File)
	// The state is copied before the log, so that the log has every call that
	// led to it.
	if err := journal.Backup(ctx, state+".new"); err != nil {
		return nil, err
	}
	if err := calls.Backup(ctx, filepath.Join(dir, logDir)); err != nil {
		return nil, err
	}
	for _, name := range []string{keyFile, RootFile, tlsDir} {
		if err := copyAll(filepath.Join(data, name), filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("copying %s: %w", name, err)
		}
	}
	if err := os.Rename(state+".new", state); err != nil {
		return nil, err
	}
	if err := syncFile(dir); err != nil {
		return nil, err
	}
	c := &Copy{Dir: dir}
	if !sameFile(masterKey, filepath.Join(data, keyFile)) {
		if c.MasterKey, err = filepath.Abs(masterKey); err != nil {
			return nil, err
		}
	}
	c.Bytes, err = size(dir)
	return c, err
}

// claim reserves a directory that is new or empty, and returns how to restore
// it.
func claim(dir string) (undo func() error, err error) {
	err = os.Mkdir(dir, 0o700)
	isNew := err == nil
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	if len(entries) > 0 {
		return nil, fmt.Errorf("%s is not empty: a backup goes to a new directory", dir)
	}
	undo = func() error {
		if isNew {
			return os.RemoveAll(dir)
		}
		entries, err := os.ReadDir(dir)
		for _, e := range entries {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
		return err
	}
	// Of two backups that find the directory empty, one creates the file.
	if err := write(filepath.Join(dir, sqljournal.File), []byte(incomplete)); err != nil {
		return nil, err
	}
	return undo, nil
}

// copyAll copies a file or a directory. Only the owner can read the copy.
func copyAll(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		text, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		return write(to, text)
	}
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	for _, e := range entries {
		if err := copyAll(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
			return err
		}
	}
	return syncFile(to)
}

// write writes and syncs a new file.
func write(file string, text []byte) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// syncFile syncs a file or a directory.
func syncFile(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// size returns the total size of the files in a directory.
func size(dir string) (bytes int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			bytes += info.Size()
		}
		return err
	})
	return bytes, err
}

// sameFile reports whether two paths are the same file or directory.
func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}
