// Package objectstore says what a region asks of an object store, and writes
// exports of disks to one, in the formats that machines read.
package objectstore

import (
	"context"
	"io"
	"time"
)

// Store keeps objects in buckets. It may be used from many goroutines at once.
// Its errors are faults, whose sentences are for whoever asked for the object;
// any other error is the operator's.
type Store interface {
	// CheckBucket refuses a bucket that objects cannot be put into.
	CheckBucket(ctx context.Context, b Bucket) error

	// Put writes an object of so many bytes, in place of one of the same key.
	// Nobody sees a part of it.
	Put(ctx context.Context, b Bucket, key string, content io.ReaderAt, size int64) error

	// Sign answers a URL with which anybody can read an object for a time, up
	// to [MaxLifetime]. The object need not be there yet.
	Sign(ctx context.Context, b Bucket, key string, lifetime time.Duration) (string, error)

	// Fetch reads what a URL leads to, if it is at most so many bytes: a URL
	// that Sign has answered, or one of an object store elsewhere.
	Fetch(ctx context.Context, url string, most int64) ([]byte, error)
}

// Bucket is a bucket, the account that uses it, and the credentials that it is
// used with: the operator's if there are none.
type Bucket struct {
	Name                 string
	Account              string // where the store itself knows no owners of buckets
	AccessKey, SecretKey string // nobody else may learn the secret
}

// Scheme is that of signed URLs that work in the region only.
const Scheme = "object"

// MaxLifetime is how long a signed URL works at most: what S3 allows.
const MaxLifetime = 7 * 24 * time.Hour
