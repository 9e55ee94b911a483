package server_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bastide-cloud/bastide/internal/server"
)

// The document is compressed for those who take that, and not sent to those who
// have it.
func TestTheDocumentIsSentOnceAndSmall(t *testing.T) {
	t.Parallel()
	text := `{"openapi": "` + strings.Repeat("3", 1<<20) + `"}`
	h := server.New(server.Options{OpenAPI: []byte(text)})
	get := func(method, encoding, known string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, "/openapi.json", nil)
		if encoding != "" {
			r.Header.Set("Accept-Encoding", encoding)
		}
		if known != "" {
			r.Header.Set("If-None-Match", known)
		}
		return serve(h, r)
	}
	tags := map[string]bool{}
	for _, test := range []struct {
		encoding string
		zipped   bool
	}{
		{"", false}, {"gzip", true}, {"deflate, gzip;q=0.5", true}, {"*", true}, {"br, GZIP ; q=1", true}, {"x-gzip", true},
		{"gzip;q=0", false}, {"gzip; q=0.000, *", false}, {"*;q=0", false}, {"identity", false}, {"br", false},
	} {
		answer := get(http.MethodGet, test.encoding, "")
		if answer.Header().Get("Vary") != "Accept-Encoding" || answer.Header().Get("Content-Type") != "application/json" {
			t.Errorf("Accept-Encoding %q: the header is %v", test.encoding, answer.Header())
		}
		tag := answer.Header().Get("ETag")
		tags[tag] = true
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			if again := get(method, test.encoding, tag); again.Code != http.StatusNotModified || again.Body.Len() > 0 {
				t.Errorf("Accept-Encoding %q: %s with the tag %s: got %d and %d bytes, want 304 and none",
					test.encoding, method, tag, again.Code, again.Body.Len())
			}
		}
		if other := get(http.MethodGet, test.encoding, `"another"`); other.Code != http.StatusOK {
			t.Errorf("Accept-Encoding %q: another tag: got %d, want 200", test.encoding, other.Code)
		}
		head := get(http.MethodHead, test.encoding, "")
		if head.Code != http.StatusOK || head.Body.Len() > 0 || head.Header().Get("ETag") != tag {
			t.Errorf("Accept-Encoding %q: HEAD: got %d, %d bytes, %v", test.encoding, head.Code, head.Body.Len(), head.Header())
		}
		var body io.Reader = answer.Body
		if zipped := answer.Header().Get("Content-Encoding") == "gzip"; zipped != test.zipped {
			t.Errorf("Accept-Encoding %q: zipped: %v, want %v", test.encoding, zipped, test.zipped)
		} else if zipped {
			if answer.Body.Len() > len(text)/100 {
				t.Errorf("Accept-Encoding %q: %d bytes", test.encoding, answer.Body.Len())
			}
			var err error
			if body, err = gzip.NewReader(answer.Body); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := io.ReadAll(body); err != nil || string(got) != text {
			t.Errorf("Accept-Encoding %q: got %d bytes, %v, want the document", test.encoding, len(got), err)
		}
	}
	if len(tags) != 2 {
		t.Errorf("the encodings have the tags %v, want one each", tags)
	}
	other := serve(server.New(server.Options{OpenAPI: []byte("{}")}), httptest.NewRequest(http.MethodGet, "/openapi.json", nil))
	if tags[other.Header().Get("ETag")] {
		t.Error("another document has the same tag")
	}
}
