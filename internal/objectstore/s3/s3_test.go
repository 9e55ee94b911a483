package s3

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/objectstore"
	"github.com/bastide-cloud/bastide/internal/objectstore/objectstoretest"
)

// cellar is an object store with one bucket, called bucket, in memory. It looks
// at who asks and not at how they prove it.
type cellar struct {
	mu      sync.Mutex // guards what follows
	objects map[string][]byte
	uploads map[string]map[string][]byte // the parts of each upload by their numbers
	asked   []string                     // the access keys that were used
	dates   []string                     // when calls say that they were signed
}

func (c *cellar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	query := r.URL.Query()
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	_, credential, signed := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	if !signed {
		credential = query.Get("X-Amz-Credential")
	}
	access, _, _ := strings.Cut(credential, "/")
	c.asked = append(c.asked, access)
	if date := r.Header.Get("X-Amz-Date") + query.Get("X-Amz-Date"); date != "" {
		c.dates = append(c.dates, date)
	}
	switch {
	case access == "":
		refuse(w, http.StatusForbidden, "AccessDenied")
	case access == "STRANGER":
		refuse(w, http.StatusForbidden, "InvalidAccessKeyId")
	case access == "UNLUCKY":
		refuse(w, http.StatusConflict, "OperationAborted")
	case bucket != "bucket":
		refuse(w, http.StatusNotFound, "NoSuchBucket")
	case r.Method == http.MethodHead && key == "":
	case r.Method == http.MethodGet:
		content, ok := c.objects[key]
		if !ok || !isSigned(r) {
			refuse(w, http.StatusNotFound, "NoSuchKey")
			return
		}
		w.Write(content)
	case r.Method == http.MethodPost && query.Has("uploads"):
		id := fmt.Sprint("upload-", len(c.uploads))
		c.uploads[id] = map[string][]byte{}
		xml.NewEncoder(w).Encode(struct {
			XMLName  xml.Name `xml:"InitiateMultipartUploadResult"`
			UploadId string
		}{UploadId: id})
	case r.Method == http.MethodPut && query.Has("partNumber"):
		content, err := io.ReadAll(r.Body)
		if err != nil || int64(len(content)) != r.ContentLength {
			refuse(w, http.StatusBadRequest, "IncompleteBody")
			return
		}
		c.uploads[query.Get("uploadId")][query.Get("partNumber")] = content
		w.Header().Set("ETag", `"`+query.Get("partNumber")+`"`)
	case r.Method == http.MethodPost:
		var complete struct {
			Part []struct{ PartNumber string }
		}
		if err := xml.NewDecoder(r.Body).Decode(&complete); err != nil {
			refuse(w, http.StatusBadRequest, "MalformedXML")
			return
		}
		var content []byte
		for _, part := range complete.Part {
			content = append(content, c.uploads[query.Get("uploadId")][part.PartNumber]...)
		}
		c.objects[key] = content
		delete(c.uploads, query.Get("uploadId"))
		fmt.Fprint(w, "<CompleteMultipartUploadResult/>")
	case r.Method == http.MethodDelete:
		delete(c.uploads, query.Get("uploadId"))
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodPut:
		content, err := io.ReadAll(r.Body)
		if err != nil || int64(len(content)) != r.ContentLength {
			refuse(w, http.StatusBadRequest, "IncompleteBody")
			return
		}
		c.objects[key] = content
	}
}

// isSigned reports whether the URL of a request was signed as it is, for an hour,
// with the operator's secret.
func isSigned(r *http.Request) bool {
	u := *r.URL
	u.Scheme, u.Host = "http", r.Host
	query := u.Query()
	query.Del("X-Amz-Signature")
	u.RawQuery = query.Encode()
	at, err := time.Parse("20060102T150405Z", query.Get("X-Amz-Date"))
	if err != nil || query.Get("X-Amz-Expires") != "3600" {
		return false
	}
	signer := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })
	again, _, err := signer.PresignHTTP(r.Context(), aws.Credentials{AccessKeyID: "OPERATOR", SecretAccessKey: "secret"},
		&http.Request{Method: r.Method, URL: &u, Host: r.Host, Header: http.Header{}}, "UNSIGNED-PAYLOAD", "s3", "eu-west-2", at)
	return err == nil && strings.HasSuffix(again, "X-Amz-Signature="+r.URL.Query().Get("X-Amz-Signature"))
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>No.</Message></Error>", code)
}

func openCellar(t *testing.T, o Options) (*Store, *cellar) {
	t.Helper()
	c := &cellar{objects: map[string][]byte{}, uploads: map[string]map[string][]byte{}}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	o.Endpoint, o.Region, o.Now = server.URL, "eu-west-2", now
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return s, c
}

func TestStore(t *testing.T) {
	t.Parallel()
	objectstoretest.Run(t, func(t *testing.T) (objectstore.Store, objectstore.Bucket) {
		s, c := openCellar(t, Options{AccessKey: "OPERATOR", SecretKey: "secret", Part: objectstoretest.Part})
		t.Cleanup(func() {
			if len(c.uploads) != 0 {
				t.Errorf("%d uploads are neither done nor given up", len(c.uploads))
			}
		})
		return s, objectstore.Bucket{Name: "bucket"}
	})
}

// now is the time of the stores under test: not that of the machine.
func now() time.Time { return time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC) }

// Calls and URLs are signed by the clock that the store was given.
func TestClock(t *testing.T) {
	t.Parallel()
	s, c := openCellar(t, Options{AccessKey: "OPERATOR", SecretKey: "secret", Part: 5 << 20})
	b := objectstore.Bucket{Name: "bucket"}
	if err := errors.Join(s.CheckBucket(t.Context(), b),
		s.Put(t.Context(), b, "one", bytes.NewReader(make([]byte, 6<<20)), 6<<20)); err != nil {
		t.Fatal(err)
	}
	url, err := s.Sign(t.Context(), b, "one", time.Hour)
	if err != nil || !strings.Contains(url, "X-Amz-Date=20310203T040506Z") {
		t.Errorf("the URL is %s, %v", url, err)
	}
	if len(c.dates) != 5 || strings.Join(slices.Compact(c.dates), " ") != "20310203T040506Z" {
		t.Errorf("calls were signed at %v", c.dates)
	}
}

// A large object has larger parts: S3 takes no more than 10,000.
func TestPartOf(t *testing.T) {
	t.Parallel()
	s, _ := openCellar(t, Options{})
	for size, want := range map[int64]int64{65 << 20: 64 << 20, 625 << 30: 64 << 20, 14901 << 30: 1599982692} {
		if got := s.partOf(size); got != want || (size+got-1)/got > 10_000 {
			t.Errorf("the parts of %d bytes have %d, want %d", size, got, want)
		}
	}
}

// A store that takes calls and never answers is given up.
func TestSilence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, size := range []int64{7, 3 << 20} {
			s, err := Open(Options{Endpoint: "http://oos.example.com", Region: "eu-west-2", AccessKey: "OPERATOR", SecretKey: "secret", Now: now,
				Part: 1 << 20})
			if err != nil {
				t.Fatal(err)
			}
			silent := func(o *s3.Options) { o.HTTPClient = silence{} }
			s.client = s3.New(s.client.Options(), silent)
			asked := time.Now()
			err = s.Put(t.Context(), objectstore.Bucket{Name: "bucket"}, "one", bytes.NewReader(make([]byte, size)), size)
			if took := time.Since(asked); !apierror.StoreUnreachable.Is(err) || took != 10*time.Second {
				t.Errorf("%d bytes: after %s it says %v", size, took, err)
			}
		}
	})
}

// silence answers when it is told to end.
type silence struct{}

func (silence) Do(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// A bucket is used with its own credentials, or with the operator's.
func TestCredentials(t *testing.T) {
	t.Parallel()
	s, c := openCellar(t, Options{AccessKey: "OPERATOR", SecretKey: "secret"})
	put := func(b objectstore.Bucket) error {
		return s.Put(t.Context(), b, "one", strings.NewReader("content"), 7)
	}
	for _, b := range []objectstore.Bucket{{Name: "bucket"}, {Name: "bucket", AccessKey: "CUSTOMER", SecretKey: "other"}} {
		if err := put(b); err != nil {
			t.Fatal(err)
		}
		if err := s.CheckBucket(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := strings.Join(c.asked, " "), "OPERATOR OPERATOR CUSTOMER CUSTOMER"; got != want {
		t.Errorf("asked with %s, want %s", got, want)
	}
	url, err := s.Sign(t.Context(), objectstore.Bucket{Name: "bucket", AccessKey: "CUSTOMER", SecretKey: "other"}, "one", 1<<62)
	if err != nil || !strings.Contains(url, "X-Amz-Credential=CUSTOMER%2F") || !strings.Contains(url, "X-Amz-Expires=604800") ||
		strings.Contains(url, "other") {
		t.Errorf("the URL is %s, %v", url, err)
	}
}

// What the store refuses is explained without its own words.
func TestRefusals(t *testing.T) {
	t.Parallel()
	s, _ := openCellar(t, Options{})
	away, err := Open(Options{Endpoint: "http://127.0.0.1:1", Region: "eu-west-2", AccessKey: "OPERATOR", SecretKey: "secret", Now: now})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name   string
		store  *Store
		bucket objectstore.Bucket
		code   apierror.Code
		says   string
	}{
		{"no credentials", s, objectstore.Bucket{Name: "bucket"}, apierror.StoreUnreachable, "no credentials of its own"},
		{"unknown credentials", s, objectstore.Bucket{Name: "bucket", AccessKey: "STRANGER", SecretKey: "x"}, apierror.StoreUnreachable,
			"with these credentials"},
		{"no bucket", s, objectstore.Bucket{Name: "barrel", AccessKey: "CUSTOMER", SecretKey: "x"}, apierror.BucketNotFound,
			"'barrel' doesn't exist"},
		{"something else", s, objectstore.Bucket{Name: "bucket", AccessKey: "UNLUCKY", SecretKey: "x"}, apierror.StoreUnreachable,
			"OperationAborted"},
		{"nobody there", away, objectstore.Bucket{Name: "bucket"}, apierror.StoreUnreachable, "does not respond"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			err := test.store.Put(t.Context(), test.bucket, "one", strings.NewReader("content"), 7)
			if !test.code.Is(err) || !strings.Contains(apierror.From(err).Details, test.says) {
				t.Errorf("it says %v", err)
			}
		})
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	for _, endpoint := range []string{"", "oos.example.com", "ftp://oos.example.com", "https://", "http://[::1"} {
		if s, err := Open(Options{Endpoint: endpoint}); err == nil {
			t.Errorf("%q makes %v", endpoint, s)
		}
	}
}
