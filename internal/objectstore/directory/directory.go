// Package directory keeps objects as files: a directory for each bucket, which is
// made when it is needed, and in it a file for each object. Nobody serves them;
// the URLs that it signs work in the region only.
package directory

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/bastide-cloud/bastide/internal/fault"
	"github.com/bastide-cloud/bastide/internal/objectstore"
	"github.com/bastide-cloud/bastide/internal/objectstore/web"
)

// Store implements [objectstore.Store].
type Store struct {
	root    *os.Root
	key     []byte
	now     func() time.Time
	web     *web.Client
	writing atomic.Uint64 // how many objects were written, to tell apart those that are
}

// Open opens the store in a directory, which is made if it is not there. The key
// signs its URLs.
func Open(dir string, key []byte, now func() time.Time) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &Store{root: root, key: key, now: now, web: web.New("")}, nil
}

// Close lets go of the directory.
func (s *Store) Close() error { return s.root.Close() }

// CheckBucket implements [objectstore.Store]. Every bucket that a directory can
// be called is there.
func (s *Store) CheckBucket(_ context.Context, b objectstore.Bucket) error {
	if !isName(b.Name) {
		return fault.BucketNotFound.Errorf("The bucket '%.100s' doesn't exist.", b.Name)
	}
	return nil
}

// isName reports whether a text can be the name of one file, and is none of
// those that are being written.
func isName(s string) bool {
	return fs.ValidPath(s) && s != "." && !strings.ContainsAny(s, `/\`) && !strings.HasPrefix(s, partial)
}

// partial is what the names of files begin with that are being written.
const partial = ".partial-"

// file is the name of the file of an object.
func file(bucket, key string) (string, error) {
	for part := range strings.SplitSeq(key, "/") {
		if !isName(part) {
			return "", fault.InvalidValue.Errorf("The object store keeps files, and none can be called '%.200s'.", key)
		}
	}
	return path.Join(bucket, key), nil
}

// Put implements [objectstore.Store].
func (s *Store) Put(ctx context.Context, b objectstore.Bucket, key string, content io.ReaderAt, size int64) error {
	if err := s.CheckBucket(ctx, b); err != nil {
		return err
	}
	name, err := file(b.Name, key)
	if err != nil {
		return err
	}
	part, err := s.write(io.NewSectionReader(content, 0, size), size)
	if err == nil {
		if err = s.root.MkdirAll(path.Dir(name), 0o700); err == nil {
			err = s.root.Rename(part, name)
		}
		err = taken(key, err)
	}
	if err != nil && part != "" {
		err = errors.Join(err, s.root.Remove(part))
	}
	return err
}

// write writes a file under a name that no object has.
func (s *Store) write(content io.Reader, size int64) (part string, err error) {
	f, err := s.create()
	if err != nil {
		return "", err
	}
	written, err := objectstore.WriteSparse(f, content)
	if err == nil && written != size {
		err = fmt.Errorf("the object has %d bytes, and %d were read", size, written)
	}
	if err == nil {
		err = f.Sync()
	}
	return filepath.Base(f.Name()), errors.Join(err, f.Close())
}

// create makes a file to write to. Another process may have the same directory,
// or have ended and left its files.
func (s *Store) create() (*os.File, error) {
	for {
		f, err := s.root.OpenFile(partial+strconv.FormatUint(s.writing.Add(1), 10), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}

// taken explains why there cannot be a file of a key: another key goes on after
// a slash where this one ends, or the other way round.
func taken(key string, err error) error {
	if errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EISDIR) {
		return fault.InvalidValue.Errorf("The object store keeps files, and the name of '%.200s' is taken by a directory or the other way round.", key)
	}
	return err
}

// Sign implements [objectstore.Store].
func (s *Store) Sign(_ context.Context, b objectstore.Bucket, key string, lifetime time.Duration) (string, error) {
	name, err := file(b.Name, key)
	if err != nil {
		return "", err
	}
	expires := strconv.FormatInt(s.now().Add(min(lifetime, objectstore.MaxLifetime)).Unix(), 10)
	u := url.URL{Scheme: objectstore.Scheme, Path: "/" + name, RawQuery: url.Values{"Expires": {expires}, "Signature": {s.signature(name, expires)}}.Encode()}
	return u.String(), nil
}

func (s *Store) signature(name, expires string) string {
	mac := hmac.New(sha256.New, s.key)
	io.WriteString(mac, expires+"\n"+name)
	return hex.EncodeToString(mac.Sum(nil))
}

// Fetch implements [objectstore.Store].
func (s *Store) Fetch(ctx context.Context, location string, most int64) ([]byte, error) {
	u, err := url.Parse(location)
	if err != nil || u.Scheme != objectstore.Scheme {
		return s.web.Fetch(ctx, location, most)
	}
	name, expires := strings.TrimPrefix(u.Path, "/"), u.Query().Get("Expires")
	if !hmac.Equal([]byte(s.signature(name, expires)), []byte(u.Query().Get("Signature"))) {
		return nil, fault.ManifestNotFound.Errorf("The signature of the URL is not right.")
	}
	until, err := strconv.ParseInt(expires, 10, 64)
	if err != nil {
		return nil, err
	}
	if at := time.Unix(until, 0).UTC(); s.now().After(at) {
		return nil, fault.ManifestNotFound.Errorf("The URL has expired at %s.", at.Format(time.RFC3339))
	}
	f, err := s.root.Open(name)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fault.ManifestNotFound.Errorf("There is no object at the URL.")
		}
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(content)) > most {
		err = fault.InvalidManifest.Errorf("It has more than %d bytes.", most)
	}
	return content, err
}
