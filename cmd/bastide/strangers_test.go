package main

import (
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// Strangers that flood a region do not fill its API log.
func TestStrangersAreRecordedAtAPace(t *testing.T) {
	t.Parallel()
	p := start(t, filepath.Join(t.TempDir(), "data"))
	for range 300 {
		response, err := http.Post(p.url+"/api/v1/ReadNets", "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		response.Body.Close()
		if response.StatusCode != http.StatusUnauthorized {
			t.Fatalf("an unsigned call is answered %s", response.Status)
		}
	}
	response, err := http.Get(p.admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	_, count, ok := strings.Cut(string(text), "\nbastide_calls_unrecorded_total ")
	if count, _, _ = strings.Cut(count, "\n"); !ok || count == "0" {
		t.Errorf("%q of 300 calls of strangers are left out of the API log", count)
	}
	p.stop(t)
}
