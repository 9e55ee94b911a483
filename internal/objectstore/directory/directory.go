// Package directory keeps objects as files: a directory for each bucket, with a
// file for each object. A bucket is created when it is first written to, and
// belongs to the account that did. The files are not served; the signed URLs
// work in the region only.
package directory

import (
	"cmp"
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

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/objectstore"
	"github.com/bastide-cloud/bastide/internal/objectstore/web"
)

// Store implements [objectstore.Store].
type Store struct {
	root    *os.Root
	key     []byte
	now     func() time.Time
	web     *web.Client
	writing atomic.Uint64 // number of objects written, for unique file names
}

// Open opens the store in a directory, which is created if it does not exist.
// The key signs its URLs.
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

// Close closes the directory.
func (s *Store) Close() error { return s.root.Close() }

// CheckBucket implements [objectstore.Store]. Every bucket whose name can be
// the name of a directory exists, and the account may use it unless it belongs
// to another one.
func (s *Store) CheckBucket(_ context.Context, b objectstore.Bucket) error {
	if !isName(b.Name) {
		return apierror.BucketNotFound.Errorf("The bucket '%.100s' doesn't exist.", b.Name)
	}
	owner, owned, err := s.owner(b)
	if err != nil || !owned || owner == b.Account {
		return err
	}
	// An object store on the network refuses a bucket with this code, too.
	return apierror.StoreUnreachable.Errorf("The object store does not let the region use the bucket '%.100s' for this account.", b.Name)
}

// owner returns the account that a bucket belongs to, if any.
func (s *Store) owner(b objectstore.Bucket) (account string, owned bool, err error) {
	text, err := s.root.ReadFile(path.Join(b.Name, ownerFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	return strings.TrimSpace(string(text)), err == nil, err
}

// claim makes the account the owner of a bucket. If several claim it at once, one
// of them gets it.
func (s *Store) claim(ctx context.Context, b objectstore.Bucket) (err error) {
	if _, owned, err := s.owner(b); err != nil || owned {
		return cmp.Or(err, s.CheckBucket(ctx, b))
	}
	if err := s.root.MkdirAll(b.Name, 0o700); err != nil {
		return err
	}
	text := b.Account + "\n"
	part, err := s.write(strings.NewReader(text), int64(len(text)))
	if part != "" {
		defer func() { err = cmp.Or(err, s.root.Remove(part)) }()
	}
	if err != nil {
		return err
	}
	// A link does not replace an existing file, as a rename would.
	if err := s.root.Link(part, path.Join(b.Name, ownerFile)); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	dir, err := s.root.Open(b.Name)
	if err != nil {
		return err
	}
	return cmp.Or(dir.Sync(), dir.Close(), s.CheckBucket(ctx, b))
}

// isName reports whether a text can be the name of a file, and is not reserved
// by the store.
func isName(s string) bool {
	return fs.ValidPath(s) && s != "." && !strings.ContainsAny(s, `/\`) && !strings.HasPrefix(s, partial) && !strings.EqualFold(s, ownerFile)
}

// The names of the store's own files: partial is the prefix of files that are
// being written, and ownerFile in each bucket has the account that it belongs
// to.
const (
	partial   = ".partial-"
	ownerFile = ".owner"
)

// file returns the path of the file of an object.
func file(bucket, key string) (string, error) {
	for part := range strings.SplitSeq(key, "/") {
		if !isName(part) {
			return "", apierror.InvalidValue.Errorf("The object store keeps files, and '%.200s' cannot be the name of one.", key)
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
		if err = s.claim(ctx, b); err == nil {
			err = s.root.MkdirAll(path.Dir(name), 0o700)
		}
		if err == nil {
			err = s.root.Rename(part, name)
		}
		err = taken(key, err)
	}
	if err != nil && part != "" {
		if failure := s.root.Remove(part); failure != nil {
			err = errors.Join(err, failure)
		}
	}
	return err
}

// write writes a file under a temporary name.
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

// create creates a temporary file. Another process may use the same directory,
// or have ended and left its files.
func (s *Store) create() (*os.File, error) {
	for {
		f, err := s.root.OpenFile(partial+strconv.FormatUint(s.writing.Add(1), 10), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}

// taken explains why an object cannot have a key: another key continues with a
// slash where this one ends, or vice versa.
func taken(key string, err error) error {
	if errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EISDIR) {
		return apierror.InvalidValue.Errorf("The object store keeps files, and '%.200s' conflicts with a directory or file of that name.", key)
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
	u := url.URL{Scheme: objectstore.Scheme, Path: "/" + name,
		RawQuery: url.Values{"Expires": {expires}, "Signature": {s.signature(name, expires)}}.Encode()}
	return u.String(), nil
}

func (s *Store) signature(name, expires string) string {
	mac := hmac.New(sha256.New, s.key)
	io.WriteString(mac, expires+"\n"+name)
	return hex.EncodeToString(mac.Sum(nil))
}

// Fetch implements [objectstore.Store].
func (s *Store) Fetch(ctx context.Context, location string, limit int64) ([]byte, error) {
	u, err := url.Parse(location)
	if err != nil || u.Scheme != objectstore.Scheme {
		return s.web.Fetch(ctx, location, limit)
	}
	name, expires := strings.TrimPrefix(u.Path, "/"), u.Query().Get("Expires")
	if !hmac.Equal([]byte(s.signature(name, expires)), []byte(u.Query().Get("Signature"))) {
		return nil, apierror.ManifestNotFound.Errorf("The signature of the URL is wrong.")
	}
	until, err := strconv.ParseInt(expires, 10, 64)
	if err != nil {
		return nil, err
	}
	if at := time.Unix(until, 0).UTC(); s.now().After(at) {
		return nil, apierror.ManifestNotFound.Errorf("The URL has expired at %s.", at.Format(time.RFC3339))
	}
	f, err := s.root.Open(name)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, apierror.ManifestNotFound.Errorf("There is no object at the URL.")
		}
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(content)) > limit {
		err = apierror.InvalidManifest.Errorf("The object has more than %d bytes.", limit)
	}
	return content, err
}
