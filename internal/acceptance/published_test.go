package acceptance

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"

	"regexp"
	"slices"
	"strings"

	"github.com/bastide-cloud/bastide/internal/api"
)

//go:embed testdata/oapi.json
var publishedText string

// published is the contract: the names, types and literals of the API, in all
// its versions, as they were published.
var published = func() (c contract) {
	if err := json.Unmarshal([]byte(publishedText), &c); err != nil {
		panic(err)
	}
	for name := range stillServed {
		for _, schema := range []string{c.Actions[name].Request, c.Actions[name].Response} {
			for name, f := range c.Schemas[schema].Fields {
				f.Until = ""
				c.Schemas[schema].Fields[name] = f
			}
		}
	}
	return c
}()

type contract struct {
	Actions map[string]struct {
		span
		Family, Request, Response, Auth string
	}
	Schemas map[string]schema
}

// span is which versions have something: all of them if it says nothing.
type span struct{ Since, Until string }

type schema struct {
	span
	Required []string
	Fields   map[string]field

	// Of one that is no object, but a text that is one of a few.
	Type string
	Enum []any
}

type field struct {
	span
	Type, Format string
	Enum         []any
	Default      any
}

// in reports whether a version has it.
func (s span) in(v api.Version) bool {
	return (s.Since == "" || !v.Before(version(s.Since))) && (s.Until == "" || !version(s.Until).Before(v))
}

func version(text string) api.Version {
	v, err := api.ParseVersion(text)
	if err != nil {
		panic(err)
	}
	return v
}

// versionOf is the version that a path asks for.
func versionOf(path string) api.Version {
	parts := strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
	if len(parts) < 2 {
		return api.Latest
	}
	asked, err := api.ParseVersion(strings.TrimPrefix(parts[len(parts)-2], "v"))
	if err != nil { // it is latest, v1, or a part of somebody's prefix
		return api.Latest
	}
	i := len(api.Versions) - 1
	for i > 0 && asked.Before(api.Versions[i]) {
		i--
	}
	return api.Versions[i]
}

// stillServed are the actions that are served after the version that had them
// last, each with its reason.
var stillServed = map[string]string{
	"ReadSecretAccessKey": "old clients of the unversioned path call it",
}

// answers says how the answer of an action contradicts the contract of a
// version: fields that the version lacks, wrong types, lists that are missing.
func (c contract) answers(action string, v api.Version, body map[string]any) (faults []string) {
	a, ok := c.Actions[action]
	if !ok {
		return []string{"it has no such action"}
	}
	return c.faults(v, a.Response, action, body)
}

// dates are how times look, by the format that the contract gives them.
var dates = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(Z|\+0000)$`)

// faults says how a value differs from a type of the contract.
func (c contract) faults(v api.Version, typ, at string, value any) (faults []string) {
	wrong := func(format string, args ...any) []string {
		return append(faults, at+" "+fmt.Sprintf(format, args...))
	}
	if item, ok := strings.CutPrefix(typ, "[]"); ok {
		list, ok := value.([]any)
		if !ok {
			return wrong("is no list")
		}
		for i, member := range list {
			faults = append(faults, c.faults(v, item, fmt.Sprintf("%s.%d", at, i), member)...)
		}
		return faults
	}
	if s := c.Schemas[typ]; s.Type != "" {
		if s.Enum != nil && !slices.Contains(s.Enum, value) {
			faults = append(faults, fmt.Sprintf("%s is none of %v: %v", at, s.Enum, value))
		}
		typ = s.Type
	}
	switch value := value.(type) {
	case string:
		if typ != "string" {
			return wrong("is a text and no %s", typ)
		}
	case bool:
		if typ != "boolean" {
			return wrong("is a boolean and no %s", typ)
		}
	case json.Number:
		if typ != "number" && (typ != "integer" || strings.ContainsAny(textOf(value), ".eE")) {
			return wrong("is a number and no %s", typ)
		}
	case map[string]any:
		return c.objectFaults(v, typ, at, value)
	default:
		return wrong("is %v", value)
	}
	return faults
}

// formerly are the names that schemas had before they got their own ones.
var formerly = map[string]string{
	"FiltersReadImageExportTask":  "FiltersExportTask",
	"FiltersSnapshotExportTask":   "FiltersExportTask",
	"OsuExportImageExportTask":    "OsuExport",
	"OsuExportSnapshotExportTask": "OsuExport",
	"OsuExportToCreate":           "OsuExport",
}

// schema is what a version has under the newest name of a schema.
func (c contract) schema(v api.Version, name string) schema {
	if s := c.Schemas[name]; s.in(v) || formerly[name] == "" {
		return s
	}
	return c.Schemas[formerly[name]]
}

// plain is a type as a document shows it that has no schemas but of objects.
func (c contract) plain(typ string) string {
	item, isList := strings.CutPrefix(typ, "[]")
	if s := c.Schemas[item]; s.Type != "" {
		item = s.Type
	}
	if isList {
		return "[]" + item
	}
	return item
}

// omitted are the lists that answers leave out when they are empty, as the real
// service was seen to do. Clients expect all others to be there.
var omitted = []string{
	"Account.AdditionalEmails",
	"DhcpOptionsSet.LogServers", "DhcpOptionsSet.NtpServers",
	"NatService.PublicIps",
	"PublicIp.NetAccessPointIds",
	"Listener.PolicyNames",
	"SecurityGroupRule.IpRanges", "SecurityGroupRule.SecurityGroupsMembers", "SecurityGroupRule.ServiceIds",
	"Vm.Nics", "Vm.SecurityGroups",
}

func (c contract) objectFaults(v api.Version, typ, at string, object map[string]any) (faults []string) {
	s := c.schema(v, typ)
	if s.Fields == nil {
		return []string{at + " is an object and no " + typ}
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		f, ok := s.Fields[name]
		if !ok || !f.in(v) {
			faults = append(faults, fmt.Sprintf("%s.%s is not in it", at, name))
			continue
		}
		faults = append(faults, c.faults(v, f.Type, at+"."+name, object[name])...)
		text, ok := object[name].(string)
		if ok && strings.HasPrefix(f.Format, "date") && !dates.MatchString(text) {
			faults = append(faults, fmt.Sprintf("%s.%s is no date: %s", at, name, text))
		}
		if ok && f.Enum != nil && !slices.Contains(f.Enum, any(text)) {
			faults = append(faults, fmt.Sprintf("%s.%s is none of %v: %s", at, name, f.Enum, text))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Fields)) {
		if f := s.Fields[name]; strings.HasPrefix(f.Type, "[]") && f.in(v) && object[name] == nil && !slices.Contains(omitted, typ+"."+name) {
			faults = append(faults, fmt.Sprintf("%s.%s is a list and absent: clients look into it unasked", at, name))
		}
	}
	return faults
}
