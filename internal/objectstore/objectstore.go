// Package objectstore defines what a region asks of an object store, and writes
// exports of disks to one, in various formats.
package objectstore

import (
	"context"
	"io"
	"time"
)

// Store keeps objects in buckets. It is safe for concurrent use. Its errors of
// package apierror have sentences for the caller; any other error is for the
// operator.
type Store interface {
	// CheckBucket returns an error if objects cannot be put into a bucket.
	CheckBucket(ctx context.Context, b Bucket) error

	// Put writes an object of size bytes, replacing one of the same key. No
	// reader sees a part of it.
	Put(ctx context.Context, b Bucket, key string, content io.ReaderAt, size int64) error

	// Sign returns a URL with which an object can be read without credentials
	// for a time, up to [MaxLifetime]. The object need not exist yet.
	Sign(ctx context.Context, b Bucket, key string, lifetime time.Duration) (string, error)

	// Fetch reads the object at a URL, if it has at most limit bytes: a URL
	// returned by Sign, or one of an object store elsewhere.
	Fetch(ctx context.Context, url string, limit int64) ([]byte, error)
}

// Bucket is a bucket, the account that uses it, and the credentials to use it
// with.
type Bucket struct {
	Name                 string
	Account              string // for stores without credentials
	AccessKey, SecretKey string // empty: the operator's; not disclosed to other parties
}

// Scheme is the scheme of signed URLs that work in the region only.
const Scheme = "object"

// MaxLifetime is the maximum lifetime of a signed URL: the maximum in S3.
const MaxLifetime = 7 * 24 * time.Hour
