// Package s3 keeps objects in any object store that speaks S3, such as
// OUTSCALE's, MinIO or Ceph.
//
// The SDK of AWS spares us the signatures, the retries and the variety of error
// responses. It signs by the clock that it is given, but measures its network
// timeouts by the machine's.
package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/objectstore"
	"github.com/bastide-cloud/bastide/internal/objectstore/web"
)

// Options configures a Store.
type Options struct {
	Endpoint             string // its URL
	Region               string // the region's name in signatures
	AccessKey, SecretKey string // the operator's credentials; empty: none
	Now                  func() time.Time

	// Part is the size of the parts that large objects are sent in; 64 MiB if
	// zero. S3 requires 5 MiB or more. An object of more than 10,000 parts has
	// larger ones.
	Part int64
}

// maxParts is the maximum number of parts of an object: the maximum in S3.
const maxParts = 10_000

// The timeout of a call, with an allowance for each MiB sent, because the
// network may be slow.
const patience, patiencePerMiB = 10 * time.Second, 10 * time.Second

// allow returns a context for a call that sends size bytes.
func allow(ctx context.Context, size int64) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, patience+time.Duration(size>>20)*patiencePerMiB)
}

// Store implements [objectstore.Store].
type Store struct {
	Options
	client *s3.Client
	signer signer
	web    *web.Client
}

// signer signs by the given clock instead of the machine's.
type signer struct {
	by  *v4.Signer
	now func() time.Time
}

// SignHTTP implements [s3.HTTPSignerV4].
func (s signer) SignHTTP(ctx context.Context, with aws.Credentials, r *http.Request, payload, service, region string, _ time.Time,
	how ...func(*v4.SignerOptions)) error {
	return s.by.SignHTTP(ctx, with, r, payload, service, region, s.now(), how...)
}

// PresignHTTP implements [s3.HTTPPresignerV4].
func (s signer) PresignHTTP(ctx context.Context, with aws.Credentials, r *http.Request, payload, service, region string, _ time.Time,
	how ...func(*v4.SignerOptions)) (string, http.Header, error) {
	return s.by.PresignHTTP(ctx, with, r, payload, service, region, s.now(), how...)
}

// Open returns the store. It does not connect to it.
func Open(o Options) (*Store, error) {
	endpoint, err := url.Parse(o.Endpoint)
	if err != nil || endpoint.Host == "" || endpoint.Scheme != "https" && endpoint.Scheme != "http" {
		return nil, errors.New("the object store is not a URL such as https://oos.example.com")
	}
	if o.Part == 0 {
		o.Part = 64 << 20
	}
	s := &Store{
		Options: o, web: web.New(withPort(endpoint)),
		signer: signer{v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true }), o.Now},
	}
	s.client = s3.New(s3.Options{
		BaseEndpoint: &o.Endpoint, Region: o.Region, UsePathStyle: true, Credentials: s.credentials(objectstore.Bucket{}), HTTPSignerV4: s.signer,
		// Not all stores support the checksums that AWS has added later.
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired,
		ResponseChecksumValidation: aws.ResponseChecksumValidationWhenRequired,
	})
	return s, nil
}

// withPort returns the host and port of a URL.
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

// credentials returns the credentials for a bucket.
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
	ctx, cancel := allow(ctx, 0)
	defer cancel()
	_, err := s.client.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: &b.Name}, s.with(b))
	return explain(b, err)
}

// Put implements [objectstore.Store].
func (s *Store) Put(ctx context.Context, b objectstore.Bucket, key string, content io.ReaderAt, size int64) error {
	if size > s.Part {
		return explain(b, s.putParts(ctx, b, key, content, size))
	}
	ctx, cancel := allow(ctx, size)
	defer cancel()
	_, err := s.client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &b.Name, Key: &key, Body: io.NewSectionReader(content, 0, size), ContentLength: &size,
	}, s.with(b))
	return explain(b, err)
}

// putParts sends an object in parts. The object does not exist before the last
// one.
func (s *Store) putParts(ctx context.Context, b objectstore.Bucket, key string, content io.ReaderAt, size int64) (err error) {
	beginning, cancel := allow(ctx, 0)
	defer cancel()
	upload, err := s.client.CreateMultipartUpload(beginning, &s3.CreateMultipartUploadInput{Bucket: &b.Name, Key: &key}, s.with(b))
	if err != nil {
		return err
	}
	defer func() {
		if err == nil {
			return
		}
		// Parts take space until the upload is aborted, even if the context has
		// ended.
		ending, cancel := allow(context.WithoutCancel(ctx), 0)
		defer cancel()
		_, failure := s.client.AbortMultipartUpload(ending,
			&s3.AbortMultipartUploadInput{Bucket: &b.Name, Key: &key, UploadId: upload.UploadId}, s.with(b))
		err = errors.Join(err, failure)
	}()
	var parts []types.CompletedPart
	for at, part := int64(0), s.partOf(size); at < size; at += part {
		number, length := int32(len(parts)+1), min(part, size-at)
		etag, err := s.putPart(ctx, b, &s3.UploadPartInput{
			Bucket: &b.Name, Key: &key, UploadId: upload.UploadId, PartNumber: &number,
			Body: io.NewSectionReader(content, at, length), ContentLength: &length,
		})
		if err != nil {
			return err
		}
		parts = append(parts, types.CompletedPart{ETag: etag, PartNumber: &number})
	}
	// Joining the parts may take minutes.
	joining, cancel := allow(ctx, s.Part)
	defer cancel()
	_, err = s.client.CompleteMultipartUpload(joining, &s3.CompleteMultipartUploadInput{
		Bucket: &b.Name, Key: &key, UploadId: upload.UploadId, MultipartUpload: &types.CompletedMultipartUpload{Parts: parts},
	}, s.with(b))
	return err
}

// partOf returns the size of the parts of an object.
func (s *Store) partOf(size int64) int64 { return max(s.Part, (size+maxParts-1)/maxParts) }

func (s *Store) putPart(ctx context.Context, b objectstore.Bucket, part *s3.UploadPartInput) (etag *string, err error) {
	ctx, cancel := allow(ctx, *part.ContentLength)
	defer cancel()
	sent, err := s.client.UploadPart(ctx, part, s.with(b))
	if err != nil {
		return nil, err
	}
	return sent.ETag, nil
}

// Sign implements [objectstore.Store].
func (s *Store) Sign(ctx context.Context, b objectstore.Bucket, key string, lifetime time.Duration) (string, error) {
	signed, err := s3.NewPresignClient(s.client).PresignGetObject(ctx, &s3.GetObjectInput{Bucket: &b.Name, Key: &key},
		s3.WithPresignExpires(min(lifetime, objectstore.MaxLifetime)), s3.WithPresignClientFromClientOptions(s.with(b)),
		func(o *s3.PresignOptions) { o.Presigner = s.signer })
	if err != nil {
		return "", explain(b, err)
	}
	return signed.URL, nil
}

// Fetch implements [objectstore.Store].
func (s *Store) Fetch(ctx context.Context, url string, limit int64) ([]byte, error) {
	return s.web.Fetch(ctx, url, limit)
}

// explain turns an error of the store into a sentence for the caller that named
// the bucket.
func explain(b objectstore.Bucket, err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	if errors.Is(err, errNoCredentials) {
		return apierror.StoreUnreachable.Errorf("The region has no credentials of its own for the object store: give the credentials of the " +
			"bucket in OsuApiKey.")
	}
	answer, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return errors.Join(apierror.StoreUnreachable.Errorf("The object store does not respond."), err)
	}
	switch code := answer.ErrorCode(); code {
	case "NoSuchBucket", "NotFound", "InvalidBucketName":
		return apierror.BucketNotFound.Errorf("The bucket '%.100s' doesn't exist.", b.Name)
	case "AccessDenied", "Forbidden", "InvalidAccessKeyId", "SignatureDoesNotMatch", "AllAccessDisabled":
		return apierror.StoreUnreachable.Errorf("The object store does not let the region use the bucket '%.100s' with these credentials.",
			b.Name)
	default:
		return fmt.Errorf("%w %w", apierror.StoreUnreachable.Errorf("The object store returned the error %.100s.", code), err)
	}
}
