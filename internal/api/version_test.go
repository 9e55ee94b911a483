package api

import (
	"slices"
	"strings"
	"testing"
)

func TestParseVersion(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Version{"1.1": {1, 1, 0}, "1.42.0": {1, 42, 0}, "1.28.5": {1, 28, 5}, "0.17": {0, 17, 0},
		"01.02": {1, 2, 0}} {
		if got, err := ParseVersion(text); err != nil || got != want {
			t.Errorf("%s is %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "1", "1.", ".1", "1.2.3.4", "1.-2", "1.2x", "v1.2", "1.65536", "+1.2", "1.٣"} {
		if got, err := ParseVersion(text); err == nil {
			t.Errorf("%q is taken for %v", text, got)
		}
	}
}

func TestVersionsAreOrdered(t *testing.T) {
	t.Parallel()
	order := []Version{{0, 99, 9}, {1, 0, 0}, {1, 1, 0}, {1, 28, 5}, {1, 28, 8}, {1, 42, 0}, {2, 0, 0}}
	for i, v := range order {
		for j, w := range order {
			if v.Before(w) != (i < j) {
				t.Errorf("%v before %v: %v", v, w, v.Before(w))
			}
		}
	}
	if !slices.IsSortedFunc(Versions, func(a, b Version) int {
		if a.Before(b) {
			return -1
		}
		return 1
	}) || Versions[len(Versions)-1] != Latest {
		t.Errorf("the known versions are %v, not in order up to %v", Versions, Latest)
	}
}

func TestVersionStrings(t *testing.T) {
	t.Parallel()
	for _, v := range Versions {
		if again, err := ParseVersion(v.String()); err != nil || again != v {
			t.Errorf("%v is written as %s and read as %v, %v", v, v, again, err)
		}
	}
	if got := (Version{1, 1, 0}).String() + " " + Latest.String(); got != "1.1 1.42.0" {
		t.Errorf("the versions are called %s", got)
	}
}

func TestVersionsBetweenAreTheLastKnown(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"0.17": "1.1", "1.0": "1.1", "1.1": "1.1", "1.28.4": "1.1", "1.28.5": "1.28.5", "1.28.7": "1.28.5", "1.28.8": "1.28.8",
		"1.29.3": "1.29.3", "1.40.0": "1.29.3", "1.40.1": "1.40.1", "1.42.0": "1.42.0", "1.42.1": "1.42.0", "2.0": "1.42.0",
	} {
		v, err := ParseVersion(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := v.known().String(); got != want {
			t.Errorf("%s has the contract of %s, want %s", text, got, want)
		}
	}
}

func TestHas(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		version     Version
		name, field string
		want        bool
	}{
		{Version{1, 1, 0}, "Net", "NetId", true}, // not in the table
		{Version{1, 1, 0}, "AccessKey", "Tag", false},
		{Version{1, 40, 1}, "AccessKey", "Tag", true},
		{Version{1, 1, 0}, "FiltersNic", "LinkNicSortNumbers", true},
		{Version{1, 28, 5}, "FiltersNic", "LinkNicSortNumbers", false},
		{Version{1, 1, 0}, "CreateCa", "", false},
		{Version{1, 28, 5}, "CreateCa", "", true},
		{Version{1, 42, 0}, "ReadSecretAccessKey", "", true}, // actions stay
	} {
		if got := tt.version.Has(tt.name, tt.field); got != tt.want {
			t.Errorf("%s has %s.%s: %v, want %v", tt.version, tt.name, tt.field, got, tt.want)
		}
	}
}

func TestVersionsTable(t *testing.T) {
	t.Parallel()
	var last string
	for line := range strings.Lines(versionsTable) {
		cells := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if strings.HasPrefix(line, "#") {
			continue
		}
		if len(cells) != 4 || cells[0] == "" || cells[2] == "" && cells[3] == "" {
			t.Errorf("the line %q says nothing", line)
			continue
		}
		name := cells[0] + "\t" + cells[1]
		if name <= last {
			t.Errorf("%q stands after %q", name, last)
		}
		last = name
		l := lifetimes[member{cells[0], cells[1]}]
		for _, v := range []Version{l.since, l.until} {
			if v != (Version{}) && !slices.Contains(Versions, v) {
				t.Errorf("%q names %v, which is not a known version", line, v)
			}
		}
		if l.until != (Version{}) && l.until.Before(l.since) {
			t.Errorf("%q ends before it begins", line)
		}
	}
	for _, broken := range []string{"A\tB\tx\t\n", "A\tB\t\t1\n"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("the table %q is accepted", broken)
				}
			}()
			readLifetimes(broken)
		}()
	}
}
