package server

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"time"
)

// document is a text that is served plain and compressed.
type document struct {
	plain, zipped []byte
	tag           string // of the content
}

func newDocument(text []byte) *document {
	sum := sha256.Sum256(text)
	var zipped bytes.Buffer
	w, _ := gzip.NewWriterLevel(&zipped, gzip.BestCompression) // the level is valid
	_, _ = w.Write(text)                                       // a buffer takes everything
	_ = w.Close()
	return &document{text, zipped.Bytes(), hex.EncodeToString(sum[:16])}
}

// serve responds to a request for the document. Each encoding has its own tag,
// because caches distinguish them by it.
func (d *document) serve(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Vary", "Accept-Encoding")
	text, tag := d.plain, d.tag
	if acceptsGzip(strings.Join(r.Header.Values("Accept-Encoding"), ",")) {
		text, tag = d.zipped, d.tag+"-gzip"
		header.Set("Content-Encoding", "gzip")
	}
	header.Set("ETag", `"`+tag+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
}

// acceptsGzip reads an Accept-Encoding header.
func acceptsGzip(header string) bool {
	others := false // the value of *, for encodings that are not listed
	for coding := range strings.SplitSeq(header, ",") {
		name, weight, _ := strings.Cut(strings.ReplaceAll(coding, " ", ""), ";")
		zero, isWeight := strings.CutPrefix(strings.ToLower(weight), "q=0")
		accepted := !isWeight || strings.Trim(zero, ".0") != ""
		switch strings.ToLower(name) {
		case "gzip", "x-gzip":
			return accepted
		case "*":
			others = accepted
		}
	}
	return others
}
