package metadata

import (
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// versions are the names under which everything is found: the newest, and the
// one that cloud-init asks for.
var versions = []string{"2009-04-04", "latest"}

// tags are listed with all that is in their keys, slashes included.
const tags = "tags"

// Handler serves the values below meta-data/, as [Machine.Paths] makes them, and
// user data as it was given, if there is any. A path that only leads to others
// lists them, one a line, those that lead on with a slash behind their name.
// Slashes at the end of a path do not matter. There are no sessions: whoever
// asks for a token is told that there is no such path, and clients then go on
// without.
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
		_, _ = io.WriteString(w, content) // a guest that hangs up has what it wanted
	})
}

// find is what is at a path.
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

// look is the value at a path, or the list of what is below it.
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
			delete(names, name) // it is listed as what leads on
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(names)), "\n"), len(names) > 0
}
