package metadata

import (
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// versions are the API versions, which are all alike: the one that cloud-init
// asks for, and the newest.
var versions = []string{"2009-04-04", "latest"}

// tags is the directory whose entries may contain slashes.
const tags = "tags"

// Handler serves the values below meta-data/, as [Machine.Paths] returns them,
// and the user data as it was given, if there is any. A path that is a
// directory is served as a list of its entries, one a line, with a slash after
// the names of directories. Trailing slashes do not matter. There are no
// sessions: a request for a token is answered with 404, and clients then
// continue without one.
func Handler(paths map[string]string, userData []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content, kind, ok := find(paths, userData, r.URL.Path)
		switch {
		case !ok:
			http.Error(w, "there is nothing at "+r.URL.Path, http.StatusNotFound)
			return
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "metadata can only be read", http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Content-Type", kind)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.WriteHeader(http.StatusOK)
		_, _ = io.WriteString(w, content) // the guest may hang up
	})
}

// find returns the content at a path and its media type.
func find(paths map[string]string, userData []byte, path string) (content, kind string, ok bool) {
	const plain = "text/plain; charset=utf-8"
	version, rest, _ := strings.Cut(strings.TrimLeft(path, "/"), "/")
	if version == "" {
		return strings.Join(versions, "\n"), plain, true
	}
	if !slices.Contains(versions, version) {
		return "", "", false
	}
	switch top, below, _ := strings.Cut(rest, "/"); {
	case top == "" && len(userData) == 0:
		return "meta-data/", plain, true
	case top == "":
		return "meta-data/\nuser-data", plain, true
	case top == "meta-data":
		content, ok = look(paths, below)
		return content, plain, ok
	case top == "user-data" && strings.Trim(below, "/") == "" && len(userData) > 0:
		return string(userData), "application/octet-stream", true
	}
	return "", "", false
}

// look returns the value at a path, or the list of its entries.
func look(paths map[string]string, path string) (content string, ok bool) {
	trimmed := strings.TrimRight(path, "/")
	for _, p := range []string{path, trimmed} {
		if value, ok := paths[p]; ok {
			return value, true
		}
	}
	below := trimmed + "/"
	switch {
	case trimmed == "":
		below = ""
	case strings.HasPrefix(trimmed, tags+"/"):
		return "", false
	}
	names := map[string]bool{}
	for at := range paths {
		rest, under := strings.CutPrefix(at, below)
		if !under {
			continue
		}
		if name, _, leads := strings.Cut(rest, "/"); leads && trimmed != tags {
			names[name+"/"] = true
		} else {
			names[rest] = true
		}
	}
	for name := range names {
		if names[name+"/"] && trimmed != tags {
			delete(names, name) // it is listed as a directory
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(names)), "\n"), len(names) > 0
}
