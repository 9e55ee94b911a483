// Package s3 keeps objects in any object store that speaks S3, such as
// OUTSCALE's, MinIO or Ceph.
//
// The SDK of AWS spares us the signatures, the retries and the ways in which
// answers can fail. It goes by the clock of the machine, as the store does.
package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"

	"github.com/bastide-cloud/bastide/internal/fault"
	"github.com/bastide-cloud/bastide/internal/objectstore"
	"github.com/bastide-cloud/bastide/internal/objectstore/web"
)

// Options says where an object store is.
type Options struct {
	Endpoint             string // its URL
	Region               string // what the store takes itself to be in
	AccessKey, SecretKey string // the operator's credentials; empty: there are none

	// Part is how many bytes are sent at once at most; 64 MiB if zero. S3 wants
	// 5 MiB or more, and an object of 10,000 parts or fewer.
	Part int64
}

// Store implements [objectstore.Store].
type Store struct {
	Options
	client *s3.Client
	web    *web.Client
}

// Open makes the store. It does not ask whether anybody is there.
func Open(o Options) (*Store, error) {
	endpoint, err := url.Parse(o.Endpoint)
	if err != nil || endpoint.Host == "" || endpoint.Scheme != "https" && endpoint.Scheme != "http" {
		return nil, errors.New("the object store is not a URL such as https://oos.example.com")
	}
	if o.Part == 0 {
		o.Part = 64 << 20
	}
	s := &Store{Options: o, web: web.New(withPort(endpoint))}
	s.client = s3.New(s3.Options{
		BaseEndpoint: &o.Endpoint, Region: o.Region, UsePathStyle: true, Credentials: s.credentials(objectstore.Bucket{}),
		// Not all stores know the checksums that AWS has added later.
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired,
		ResponseChecksumValidation: aws.ResponseChecksumValidationWhenRequired,
	})
	return s, nil
}

// withPort is the host and port that a URL is asked at.
func withPort(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Host
	case u.Scheme == "https":
		return u.Host + ":443"
	}
	return u.Host + ":80"
}

var errNoCredentials = errors.New("the region has no credentials of its own")

// credentials are those that a bucket is used with.
func (s *Store) credentials(b objectstore.Bucket) aws.CredentialsProvider {
	if b.AccessKey == "" {
		b.AccessKey, b.SecretKey = s.AccessKey, s.SecretKey
	}
	return aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		if b.AccessKey == "" {
			return aws.Credentials{}, errNoCredentials
		}
		return aws.Credentials{AccessKeyID: b.AccessKey, SecretAccessKey: b.SecretKey}, nil
	})
}

// with makes a call use the credentials of a bucket.
func (s *Store) with(b objectstore.Bucket) func(*s3.Options) {
	return func(o *s3.Options) { o.Credentials = s.credentials(b) }
}

// CheckBucket implements [objectstore.Store].
func (s *Store) CheckBucket(ctx context.Context, b objectstore.Bucket) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err := s.client.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: &b.Name}, s.with(b))
	return explain(b, err)
}

// Put implements [objectstore.Store].
func (s *Store) Put(ctx context.Context, b objectstore.Bucket, key string, content io.ReaderAt, size int64) error {
	if size > s.Part {
		return explain(b, s.putParts(ctx, b, key, content, size))
	}
	_, err := s.client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &b.Name, Key: &key, Body: io.NewSectionReader(content, 0, size), ContentLength: &size,
	}, s.with(b))
	return explain(b, err)
}

// putParts sends an object part by part. The store has none of it until all are
// there.
func (s *Store) putParts(ctx context.Context, b objectstore.Bucket, key string, content io.ReaderAt, size int64) (err error) {
	upload, err := s.client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: &b.Name, Key: &key}, s.with(b))
	if err != nil {
		return err
	}
	defer func() {
		if err == nil {
			return
		}
		// What was sent takes room until it is given up, also when we were
		// told to end.
		_, failure := s.client.AbortMultipartUpload(context.WithoutCancel(ctx),
			&s3.AbortMultipartUploadInput{Bucket: &b.Name, Key: &key, UploadId: upload.UploadId}, s.with(b))
		err = errors.Join(err, failure)
	}()
	var parts []types.CompletedPart
	for at := int64(0); at < size; at += s.Part {
		number, length := int32(len(parts)+1), min(s.Part, size-at)
		sent, err := s.client.UploadPart(ctx, &s3.UploadPartInput{
			Bucket: &b.Name, Key: &key, UploadId: upload.UploadId, PartNumber: &number,
			Body: io.NewSectionReader(content, at, length), ContentLength: &length,
		}, s.with(b))
		if err != nil {
			return err
		}
		parts = append(parts, types.CompletedPart{ETag: sent.ETag, PartNumber: &number})
	}
	_, err = s.client.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
		Bucket: &b.Name, Key: &key, UploadId: upload.UploadId, MultipartUpload: &types.CompletedMultipartUpload{Parts: parts},
	}, s.with(b))
	return err
}

// Sign implements [objectstore.Store].
func (s *Store) Sign(ctx context.Context, b objectstore.Bucket, key string, lifetime time.Duration) (string, error) {
	signed, err := s3.NewPresignClient(s.client).PresignGetObject(ctx, &s3.GetObjectInput{Bucket: &b.Name, Key: &key},
		s3.WithPresignExpires(min(lifetime, objectstore.MaxLifetime)), s3.WithPresignClientFromClientOptions(s.with(b)))
	if err != nil {
		return "", explain(b, err)
	}
	return signed.URL, nil
}

// Fetch implements [objectstore.Store].
func (s *Store) Fetch(ctx context.Context, url string, most int64) ([]byte, error) {
	return s.web.Fetch(ctx, url, most)
}

// explain makes of what the store says a sentence for whoever named the bucket.
func explain(b objectstore.Bucket, err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	if errors.Is(err, errNoCredentials) {
		return fault.StoreUnreachable.Errorf("The region has no credentials of its own for the object store: give those of the bucket in OsuApiKey.")
	}
	answer, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return errors.Join(fault.StoreUnreachable.Errorf("The object store does not answer."), err)
	}
	switch code := answer.ErrorCode(); code {
	case "NoSuchBucket", "NotFound", "InvalidBucketName":
		return fault.BucketNotFound.Errorf("The bucket '%.100s' doesn't exist.", b.Name)
	case "AccessDenied", "Forbidden", "InvalidAccessKeyId", "SignatureDoesNotMatch", "AllAccessDisabled":
		return fault.StoreUnreachable.Errorf("The object store does not let the region use the bucket '%.100s' with these credentials.", b.Name)
	default:
		return fmt.Errorf("%w %w", fault.StoreUnreachable.Errorf("The object store answers with the error %.100s.", code), err)
	}
}
