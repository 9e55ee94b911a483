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

// ObjectStore says where exports are written to.
type ObjectStore struct {
	// URL is that of an endpoint that speaks S3, with the region in its query if
	// it is not this one's name, or file:///DIR. Empty: a directory in the data
	// directory, or one that ends with the process.
	URL string
	// The operator's credentials at an endpoint; empty: there are none, and
	// every export needs its own.
	AccessKey, SecretKey string
}

// objectsDir is where the data directory has the objects.
const objectsDir = "objects"

// openObjects opens an object store with the region's key, and returns how to
// close it.
type openObjects func(key *seal.Key) (objectstore.Store, closer, error)

// objects checks where the object store is, before anything is made.
func (o *Options) objects() (openObjects, error) {
	u, err := url.Parse(o.ObjectStore.URL)
	if err != nil {
		// The whole text may hold a password.
		return nil, errors.New("the URL of the object store cannot be read")
	}
	switch {
	case u.User != nil:
		return nil, errors.New("the URL of the object store has credentials in it, where others can see them: they belong in the environment")
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

// temporaryDirectory opens a directory that is removed in the end.
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

// exportingDir is where files are made that are to be put into the object store,
// and where the data directory has them; empty: where the system has such files.
// What a process left there that was killed is taken away, unless another node
// may be at it.
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

// closer is a function that closes something.
type closer func() error

// Close implements [io.Closer].
func (c closer) Close() error { return c() }
