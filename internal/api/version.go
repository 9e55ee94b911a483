package api

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bastide-cloud/bastide/internal/apierror"
)

// Version is a version of the API's contract, ordered as versions are.
type Version struct{ Major, Minor, Patch int }

// Latest is the version this program was built from. Unversioned paths mean it.
var Latest = Version{1, 42, 0}

// Versions are those whose contract is known; a call for one in between has
// the shape of the last one before it.
var Versions = []Version{{1, 1, 0}, {1, 28, 5}, {1, 28, 8}, {1, 29, 3}, {1, 40, 1}, {1, 42, 0}}

// ParseVersion reads two or three numbers with dots.
func ParseVersion(s string) (Version, error) {
	var v Version
	parts := strings.Split(s, ".")
	if len(parts) < 2 || len(parts) > 3 {
		return v, fmt.Errorf("'%s' is not a version", s)
	}
	for i, to := range []*int{&v.Major, &v.Minor, &v.Patch}[:len(parts)] {
		n, err := strconv.ParseUint(parts[i], 10, 16)
		if err != nil {
			return v, fmt.Errorf("'%s' is not a version", s)
		}
		*to = int(n)
	}
	return v, nil
}

// Before reports whether v is older than w.
func (v Version) Before(w Version) bool {
	if v.Major != w.Major {
		return v.Major < w.Major
	}
	if v.Minor != w.Minor {
		return v.Minor < w.Minor
	}
	return v.Patch < w.Patch
}

// known is the version whose contract v has: the last of those known that is
// not newer, or the oldest.
func (v Version) known() Version {
	for _, k := range slices.Backward(Versions) {
		if !v.Before(k) {
			return k
		}
	}
	return Versions[0]
}

func (v Version) String() string {
	text := strconv.Itoa(v.Major) + "." + strconv.Itoa(v.Minor)
	if v.Patch == 0 && v.Minor < 20 { // 1.1 was published so, 1.42.0 was not
		return text
	}
	return text + "." + strconv.Itoa(v.Patch)
}

//go:embed actions.txt
var actionsList string

// published are the actions of the API, those included that are not built yet, by
// their names in lower case.
var published = readActions(actionsList)

func readActions(list string) map[string]string {
	names := map[string]string{}
	for line := range strings.Lines(list) {
		if name := strings.TrimSpace(line); !strings.HasPrefix(name, "#") {
			names[strings.ToLower(name)] = name
		}
	}
	return names
}

// unknown says why a call of an action that is not built, or that the version does
// not have, is refused.
func unknown(name string, version Version) error {
	switch is := published[strings.ToLower(name)]; {
	case is == "":
		return apierror.UnknownAction.Errorf("The action '%.100s' does not exist in any version of the API.", name)
	case is != name:
		return apierror.UnknownAction.Errorf("The action '%s' does not exist: it is called %s, and the case of letters matters.", name, is)
	case !version.known().Has(name, ""):
		return apierror.UnknownAction.Errorf("The action '%s' does not exist in version %s of the API, but since version %s.", name, version,
			lifetimes[member{name, ""}].since)
	}
	return apierror.UnknownAction.Errorf("%s is an action of the API that Bastide does not have yet.", name)
}

//go:embed versions.tsv
var versionsTable string

// lifetimes says for an action, or for a field of a schema, which versions have
// it. What is not in it, all versions have.
var lifetimes = readLifetimes(versionsTable)

type member struct{ name, field string }

type lifetime struct{ since, until Version }

func readLifetimes(table string) map[member]lifetime {
	m := map[member]lifetime{}
	for line := range strings.Lines(table) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		cells := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		var l lifetime
		for i, to := range []*Version{&l.since, &l.until} {
			if text := cells[2+i]; text != "" {
				v, err := ParseVersion(text)
				if err != nil {
					panic(fmt.Sprintf("versions.tsv: %v", err))
				}
				*to = v
			}
		}
		m[member{cells[0], cells[1]}] = l
	}
	return m
}

// Has reports whether the version has the field of the schema; an empty field
// stands for the action or schema itself. What a version had until it was
// dropped is kept in the newest, unless a field replaced it: clients of the
// unversioned path may still use it.
func (v Version) Has(name, field string) bool {
	l, ok := lifetimes[member{name, field}]
	if !ok {
		return true
	}
	if v.Before(l.since) {
		return false
	}
	return l.until == Version{} || !l.until.Before(v) || field == ""
}
