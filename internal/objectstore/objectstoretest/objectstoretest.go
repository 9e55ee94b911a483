// Package objectstoretest has the tests that every object store passes.
package objectstoretest

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/objectstore"
)

// Run tests a store. open returns an empty store that sends parts of at most
// [Part] bytes, and a bucket that can be written to.
func Run(t *testing.T, open func(t *testing.T) (objectstore.Store, objectstore.Bucket)) {
	for name, content := range map[string][]byte{
		"empty":          {},
		"small":          []byte("a manifest"),
		"exactly a part": bytes.Repeat([]byte("p"), Part),
		"in parts":       bytes.Repeat([]byte("0123456789"), Part/4),
		"mostly zeroes":  append(make([]byte, 3<<20), "the end"...),
	} {
		t.Run("an object is read as it was put: "+name, func(t *testing.T) {
			t.Parallel()
			s, b := open(t)
			put(t, s, b, "exports/2026/one.raw", content)
			if got := fetch(t, s, sign(t, s, b, "exports/2026/one.raw"), int64(len(content))); !bytes.Equal(got, content) {
				t.Errorf("%d bytes were put and %d are read, or others", len(content), len(got))
			}
		})
	}
	t.Run("an object takes the place of the one before", func(t *testing.T) {
		t.Parallel()
		s, b := open(t)
		put(t, s, b, "one", []byte("the first one, which is long"))
		put(t, s, b, "one", []byte("the second"))
		if got := fetch(t, s, sign(t, s, b, "one"), 100); string(got) != "the second" {
			t.Errorf("it is %q", got)
		}
	})
	t.Run("a URL is signed before there is anything", func(t *testing.T) {
		t.Parallel()
		s, b := open(t)
		url := sign(t, s, b, "one")
		refused(t, s, url, 100, apierror.ManifestNotFound)
		put(t, s, b, "one", []byte("content"))
		if got := fetch(t, s, url, 100); string(got) != "content" {
			t.Errorf("it is %q", got)
		}
	})
	t.Run("what was signed for is what is read", func(t *testing.T) {
		t.Parallel()
		s, b := open(t)
		put(t, s, b, "one", []byte("content"))
		put(t, s, b, "two", []byte("secret"))
		url := sign(t, s, b, "one")
		refused(t, s, strings.Replace(url, "/one?", "/two?", 1), 100, apierror.ManifestNotFound)
		plain, _, _ := strings.Cut(url, "?")
		refused(t, s, plain, 100, apierror.ManifestNotFound)
	})
	t.Run("an object that is too large is not read", func(t *testing.T) {
		t.Parallel()
		s, b := open(t)
		put(t, s, b, "one", []byte("content"))
		refused(t, s, sign(t, s, b, "one"), 6, apierror.InvalidManifest)
	})
	t.Run("a bucket is there or not", func(t *testing.T) {
		t.Parallel()
		s, b := open(t)
		if err := s.CheckBucket(t.Context(), b); err != nil {
			t.Errorf("the bucket %s: %v", b.Name, err)
		}
		b.Name = "../elsewhere"
		if err := s.CheckBucket(t.Context(), b); !apierror.BucketNotFound.Is(err) {
			t.Errorf("the bucket %s: %v", b.Name, err)
		}
		if err := s.Put(t.Context(), b, "one", strings.NewReader("content"), 7); !apierror.BucketNotFound.Is(err) {
			t.Errorf("putting an object into the bucket %s: %v", b.Name, err)
		}
	})
	t.Run("an object that cannot be read to its end is not there", func(t *testing.T) {
		t.Parallel()
		s, b := open(t)
		broken := errors.New("the disk is on fire")
		for _, size := range []int64{10, 3 * Part} {
			if err := s.Put(t.Context(), b, "one", burning{broken}, size); err == nil {
				t.Errorf("%d bytes that cannot be read were put", size)
			}
			refused(t, s, sign(t, s, b, "one"), 100, apierror.ManifestNotFound)
		}
	})
}

// Part is how many bytes a store under test sends at once.
const Part = 5 << 20

// burning is content that cannot be read.
type burning struct{ error }

func (b burning) ReadAt(p []byte, _ int64) (int, error) { return 0, b.error }

func put(t *testing.T, s objectstore.Store, b objectstore.Bucket, key string, content []byte) {
	t.Helper()
	var from io.ReaderAt = bytes.NewReader(content)
	if err := s.Put(t.Context(), b, key, from, int64(len(content))); err != nil {
		t.Fatalf("putting %s: %v", key, err)
	}
}

func sign(t *testing.T, s objectstore.Store, b objectstore.Bucket, key string) string {
	t.Helper()
	url, err := s.Sign(t.Context(), b, key, time.Hour)
	if err != nil {
		t.Fatalf("signing a URL for %s: %v", key, err)
	}
	return url
}

func fetch(t *testing.T, s objectstore.Store, url string, limit int64) []byte {
	t.Helper()
	content, err := s.Fetch(t.Context(), url, limit)
	if err != nil {
		t.Fatalf("reading %s: %v", url, err)
	}
	return content
}

func refused(t *testing.T, s objectstore.Store, url string, limit int64, code apierror.Code) {
	t.Helper()
	if content, err := s.Fetch(t.Context(), url, limit); !code.Is(err) {
		t.Errorf("reading %s returns %q, %v", url, content, err)
	}
}
