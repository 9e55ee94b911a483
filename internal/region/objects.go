package region

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"github.com/bastide-cloud/bastide/internal/objectstore"
	"github.com/bastide-cloud/bastide/internal/objectstore/directory"
	"github.com/bastide-cloud/bastide/internal/objectstore/s3"
	"github.com/bastide-cloud/bastide/internal/seal"
)

// ObjectStore is the store that exports are written to.
type ObjectStore struct {
	// URL is the URL of an S3 endpoint, with the region in its query if it has
	// another name than this one, or file:///DIR. Empty: a directory in the
	// data directory, or a temporary one.
	URL string
	// The operator's credentials for the endpoint; empty: every export needs
	// its own.
	AccessKey, SecretKey string
}

// objectsDir is the directory of the objects in the data directory.
const objectsDir = "objects"

// openObjects opens an object store with the region's key, and returns how to
// close it.
type openObjects func(key *seal.Key) (objectstore.Store, closer, error)

// objects checks the options of the object store, and returns how to open it.
func (o *Options) objects() (openObjects, error) {
	u, err := url.Parse(o.ObjectStore.URL)
	if err != nil {
		// The URL may contain a password, so it is not quoted.
		return nil, errors.New("the URL of the object store cannot be read")
	}
	switch {
	case u.User != nil:
		return nil, errors.New("the URL of the object store contains credentials, which others can see: put them into the environment")
	case u.Scheme == "https" || u.Scheme == "http":
		region := u.Query().Get("region")
		if region == "" {
			region = o.Region
		}
		u.RawQuery = ""
		store, err := s3.Open(s3.Options{
			Endpoint: u.String(), Region: region, AccessKey: o.ObjectStore.AccessKey, SecretKey: o.ObjectStore.SecretKey, Now: o.Clock.Now,
		})
		if err != nil {
			return nil, err
		}
		return func(*seal.Key) (objectstore.Store, closer, error) { return store, func() error { return nil }, nil }, nil
	case u.Scheme == "file" && u.Host == "" && u.Path != "":
		return o.directory(u.Path), nil
	case o.ObjectStore.URL != "":
		return nil, fmt.Errorf("the object store %q is neither http:, https: nor file:///DIR", o.ObjectStore.URL)
	case o.Data != "":
		return o.directory(filepath.Join(o.Data, objectsDir)), nil
	}
	return o.temporaryDirectory, nil
}

// directory opens a directory as the object store.
func (o *Options) directory(dir string) openObjects {
	return func(key *seal.Key) (objectstore.Store, closer, error) {
		store, err := directory.Open(dir, key.Derive("object store"), o.Clock.Now)
		if err != nil {
			return nil, nil, err
		}
		return store, store.Close, nil
	}
}

// temporaryDirectory opens a directory that is removed when the store is
// closed.
func (o *Options) temporaryDirectory(key *seal.Key) (objectstore.Store, closer, error) {
	dir, err := os.MkdirTemp("", "bastide-objects-")
	if err != nil {
		return nil, nil, err
	}
	store, end, err := o.directory(dir)(key)
	if err != nil {
		return nil, nil, errors.Join(err, os.Remove(dir))
	}
	return store, func() error { return errors.Join(end(), os.RemoveAll(dir)) }, nil
}

// exportingDir returns the directory of temporary files for exports; empty: the
// system's. Files that a killed process has left there are removed, unless
// another node may use them.
func (o *Options) exportingDir() (string, error) {
	if o.Data == "" {
		return "", nil
	}
	dir := filepath.Join(o.Data, "exporting")
	if o.Postgres == "" {
		if err := os.RemoveAll(dir); err != nil {
			return "", err
		}
	}
	return dir, os.MkdirAll(dir, 0o700)
}

// closer implements [io.Closer].
type closer func() error

// Close implements [io.Closer].
func (c closer) Close() error { return c() }
