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

// Copy is what a backup has made.
type Copy struct {
	Dir       string
	Bytes     int64
	MasterKey string // the file of the master key, if that is not in the copy
}

// String tells the operator what to do with the copy.
func (c *Copy) String() string {
	text := fmt.Sprintf("The region was copied to %s (%d KiB).\n", c.Dir, (c.Bytes+1023)/1024)
	restore := "bastide serve --data " + c.Dir
	if c.MasterKey == "" {
		text += "The copy has the master key: whoever reads it can open every secret of the region.\n"
	} else {
		text += fmt.Sprintf("The master key is not in the copy, which is worth nothing without it: keep %s, too.\n", c.MasterKey)
		restore += " --master-key " + c.MasterKey
	}
	return text + "To restore, start on the copy, or on a copy of it: " + restore + "\n"
}

// Backup copies the running region to a directory that is new or empty. All that
// was answered before is in the copy, and each transaction is, whole, or is not.
// Calls are answered meanwhile. data is the directory of the region that the
// caller means; empty: whichever this is.
func (r *Region) Backup(ctx context.Context, data, dir string) (*Copy, error) {
	journal, ok := r.journal.(*sqljournal.SQLite)
	if !ok {
		return nil, errors.New("what this region holds is not in a data directory, where it could be copied from")
	}
	if data != "" && !sameFile(data, r.data) {
		return nil, fmt.Errorf("this region is the one in %s, and not the one in %s", r.data, data)
	}
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("the directory %q does not say where it is: give its whole path", dir)
	}
	return backup(ctx, r.data, r.keyFile, journal, r.Calls, dir)
}

// makeToken chooses the token that a backup of a region in a data directory is
// asked for with, and writes it where [Token] finds it. A copy has the master
// key, so it is made only for those who can read the original.
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

// Backup copies the region in o.Data, which does not run and does not start
// meanwhile, as [Region.Backup] does. If it runs, the error is
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
	// It is kept for ever, so that opening it drops nothing.
	calls, err := apilog.Open(apilog.Options{
		Dir: filepath.Join(o.Data, logDir), Now: o.Clock.Now, After: time.After, Log: o.Logger, Keep: math.MaxInt64,
	})
	if err != nil {
		return nil, fmt.Errorf("opening the API log: %w", err)
	}
	defer func() { err = errors.Join(err, calls.Close()) }()
	return backup(ctx, o.Data, o.keyFile(), journal, calls, dir)
}

// What a data directory holds, beside the state and [RootFile].
const (
	keyFile   = "master.key"
	logDir    = "apilog"
	tlsDir    = "tls"         // the authority that clients trust, made by serve
	tokenFile = "admin.token" // chosen at each start, and not copied
)

// incomplete stands where the state will be until the copy is whole, so that no
// region starts on half of it.
const incomplete = "This copy of a region is not whole: the backup did not end.\n"

func backup(ctx context.Context, data, masterKey string, journal *sqljournal.SQLite, calls *apilog.Archive, dir string) (_ *Copy, err error) {
	undo, err := claim(dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if ctx.Err() != nil {
			err = fmt.Errorf("the backup was given up, or the region ends: %w", ctx.Err())
		}
		if err != nil {
			err = errors.Join(err, undo())
		}
	}()
	state := filepath.Join(dir, sqljournal.File)
	// The state comes before the log, which then knows of every call that made it.
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

// claim takes a directory that is new or empty, and answers how to leave it as it
// was.
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
	// Of two who found the directory empty, one makes the file.
	if err := write(filepath.Join(dir, sqljournal.File), []byte(incomplete)); err != nil {
		return nil, err
	}
	return undo, nil
}

// copyAll copies a file, or a directory of files, that only the owner may read.
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

// write writes a new file and waits until the disk has it.
func write(file string, text []byte) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// syncFile waits until the disk has a file, or the names in a directory.
func syncFile(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// size is that of all files in a directory.
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

// sameFile reports whether two names lead to one file or directory.
func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}
