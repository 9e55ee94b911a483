package api

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"reflect"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bastide-cloud/bastide/internal/resource"
)

// encoder appends a value as JSON.
type encoder func(b []byte, v reflect.Value) []byte

// shape is a type as one version of the API shows it under a schema's name.
type shape struct {
	t       reflect.Type
	schema  string // empty: the name of the type
	version Version
}

var encoders sync.Map // shape → encoder

// Append appends a value in the form of the version: every field under its Go
// name, except fields tagged `wire:"-"`, fields that the version does not have,
// and empty ones: a nil pointer, an empty id, no time, and an empty value
// tagged `wire:"omitempty"`. A list without that tag is always present.
func Append(b []byte, v reflect.Value, version Version) []byte {
	return AppendAs(b, v, "", version)
}

// AppendAs is Append for a struct whose schema has another name than its type:
// the answer of an action that has no type of its own.
func AppendAs(b []byte, v reflect.Value, schema string, version Version) []byte {
	return encoderAs(shape{v.Type(), schema, version.known()})(b, v)
}

func encoderOf(t reflect.Type, version Version) encoder {
	return encoderAs(shape{t, "", version})
}

func encoderAs(s shape) encoder {
	if enc, ok := encoders.Load(s); ok {
		return enc.(encoder)
	}
	enc := newEncoder(s)
	encoders.Store(s, enc)
	return enc
}

func newEncoder(s shape) encoder {
	t, version := s.t, s.version
	switch {
	case t.Kind() == reflect.Pointer: // which has the methods of what it points to
	case t.Implements(reflect.TypeFor[textual]()):
		return func(b []byte, v reflect.Value) []byte {
			if v.CanAddr() {
				v = v.Addr() // to avoid a copy
			}
			b = append(b, '"')
			b = v.Interface().(textual).AppendWire(b)
			return append(b, '"')
		}
	case t.Implements(reflect.TypeFor[Versioned]()):
		return func(b []byte, v reflect.Value) []byte {
			return appendString(b, v.Interface().(Versioned).At(version))
		}
	}
	switch t.Kind() {
	case reflect.Pointer:
		next := encoderOf(t.Elem(), version)
		return func(b []byte, v reflect.Value) []byte { return next(b, v.Elem()) }
	case reflect.Struct:
		s.schema = cmp.Or(s.schema, SchemaName(t))
		return structEncoder(s)
	case reflect.Slice:
		return sliceEncoder(t, version)
	case reflect.String:
		return func(b []byte, v reflect.Value) []byte { return appendString(b, v.String()) }
	case reflect.Bool:
		return func(b []byte, v reflect.Value) []byte { return strconv.AppendBool(b, v.Bool()) }
	case reflect.Int, reflect.Int64:
		return func(b []byte, v reflect.Value) []byte { return strconv.AppendInt(b, v.Int(), 10) }
	case reflect.Float64:
		return func(b []byte, v reflect.Value) []byte { return strconv.AppendFloat(b, v.Float(), 'f', -1, 64) }
	}
	panic(fmt.Sprintf("api: a response cannot hold a %s", t))
}

// appendString appends a JSON string. Most are plain ASCII and stay as they are.
func appendString(b []byte, s string) []byte {
	start := len(b)
	b = append(b, '"')
	b = append(b, s...)
	if !plainText(b[start+1:]) {
		// Bytes that are no UTF-8 come out as replacement characters.
		b, _ = jsontext.AppendQuote(b[:start], s)
		return b
	}
	return append(b, '"')
}

// plainText reports whether a text is ASCII that a JSON string holds as it is.
// It looks at eight bytes at once: a byte that underflows when the least
// allowed one is taken from it leaves its highest bit set.
func plainText(text []byte) bool {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for len(text) >= 8 {
		x := binary.LittleEndian.Uint64(text)
		quote, backslash := x^ones*'"', x^ones*'\\'
		if (x|(x-ones*' ')|(quote-ones)|(backslash-ones))&highs != 0 {
			return false
		}
		text = text[8:]
	}
	for _, c := range text {
		if c < ' ' || c == '"' || c == '\\' || c >= 0x80 {
			return false
		}
	}
	return true
}

// TextSize returns the maximum number of bytes that a text takes in a response.
func TextSize(s string) int {
	const quotes, escape, short, replacement = len(`""`), len(`\u0000`), len(`\"`), len("\uFFFD")
	if plainText([]byte(s)) {
		return len(s) + quotes
	}
	n, valid := quotes, utf8.ValidString(s)
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ':
			n += escape
		case c == '"' || c == '\\':
			n += short
		case c >= utf8.RuneSelf && !valid:
			n += replacement
		default:
			n++
		}
	}
	return n
}

func sliceEncoder(t reflect.Type, version Version) encoder {
	next := encoderOf(t.Elem(), version)
	return func(b []byte, v reflect.Value) []byte {
		b = append(b, '[')
		for i := range v.Len() {
			if i > 0 {
				b = append(b, ',')
			}
			b = next(b, v.Index(i))
		}
		return append(b, ']')
	}
}

// shown lists the fields of a type that the version shows under a schema's name.
func shown(t reflect.Type, schema string, version Version) []reflect.StructField {
	var fields []reflect.StructField
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous || !f.IsExported() || f.Tag.Get("wire") == "-" || !version.Has(schema, f.Name) {
			continue
		}
		fields = append(fields, f)
	}
	return fields
}

// shownMember is a field of a struct as its encoder shows it.
type shownMember struct {
	first int    // the field, or the embedded struct it is in
	rest  []int  // the way on from there
	name  string // quoted, between a comma and a colon
	omit  func(reflect.Value) bool
	next  encoder
}

func structEncoder(s shape) encoder {
	var members []shownMember
	for _, f := range shown(s.t, s.schema, s.version) {
		members = append(members, shownMember{f.Index[0], f.Index[1:], `,"` + f.Name + `":`, omission(f), encoderOf(f.Type, s.version)})
	}
	if end := endOf(s.t); end > 0 {
		return pageEncoder(members, end, encoderOf(s.t.Field(0).Type.Elem(), s.version))
	}
	return func(b []byte, v reflect.Value) []byte { return closed(appendMembers(b, v, members), len(b)) }
}

// appendMembers appends the fields, each after a comma.
func appendMembers(b []byte, v reflect.Value, members []shownMember) []byte {
	for i := range members {
		m := &members[i]
		f := v.Field(m.first)
		if len(m.rest) > 0 {
			f = f.FieldByIndex(m.rest)
		}
		if m.omit != nil && m.omit(f) {
			continue
		}
		b = append(b, m.name...)
		b = m.next(b, f)
	}
	return b
}

// closed makes an object of the members that were appended from start on.
func closed(b []byte, start int) []byte {
	if len(b) == start {
		return append(b, "{}"...)
	}
	b[start] = '{' // where the comma of the first member is
	return append(b, '}')
}

// pageEncoder appends a page: a list, and the struct that says where it goes on,
// which learns it when the list is cut.
func pageEncoder(members []shownMember, end int, next encoder) encoder {
	return func(b []byte, v reflect.Value) []byte {
		start := len(b)
		cut := cutOf(v.Field(end))
		if cut == nil {
			return closed(appendMembers(b, v, members), start)
		}
		b = append(append(b, members[0].name...), '[')
		list, from := v.Field(members[0].first), len(b)
		for i := range list.Len() {
			before := len(b)
			if i > 0 {
				b = append(b, ',')
			}
			if b = next(b, list.Index(i)); i > 0 && len(b)-from > PageBytes {
				b = b[:before]
				v.Field(end).Set(reflect.ValueOf(cut(i)))
				break
			}
		}
		return closed(appendMembers(append(b, ']'), v, members[1:]), start)
	}
}

// omission says when a field is left out; nil: never.
func omission(f reflect.StructField) func(reflect.Value) bool {
	switch omitempty := f.Tag.Get("wire") == "omitempty"; {
	case omitempty && f.Type.Kind() == reflect.Slice:
		return func(v reflect.Value) bool { return v.Len() == 0 }
	case omitempty:
		return reflect.Value.IsZero
	}
	if f.Type.Kind() == reflect.Pointer {
		return reflect.Value.IsNil
	}
	if _, ok := resource.FormOf(f.Type); ok {
		return func(v reflect.Value) bool { return v.Len() == 0 }
	}
	if f.Type.Implements(reflect.TypeFor[textual]()) {
		return reflect.Value.IsZero
	}
	return nil
}
