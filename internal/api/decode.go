package api

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// decoding is the decoding of one request. It tracks its position, so that a
// refusal names the parameter.
type decoding struct {
	*jsontext.Decoder
	version Version
	path    []string // from the request to the value being read
	lenient int      // inside filters, where an id of the wrong form selects nothing
}

// decodings are pooled, because creating a JSON decoder costs as much as
// decoding a small request.
var decodings = sync.Pool{New: func() any { return &decoding{Decoder: new(jsontext.Decoder)} }}

// decoder reads one value of a type.
type decoder func(d *decoding, v reflect.Value) error

// decoders are made once per type.
var decoders sync.Map // reflect.Type → decoder

// decode reads a JSON document strictly: no unknown names, no names twice, no
// value of another type, nothing after it. No body, null and {} are the same.
func decode(body []byte, version Version, v reflect.Value) (dryRun bool, err error) {
	body = bytes.Trim(body, " \t\r\n") // JSON's own white space, no other
	if len(body) == 0 || string(body) == "null" {
		body = []byte("{}")
	}
	d := decodings.Get().(*decoding)
	defer decodings.Put(d)
	d.Reset(bytes.NewBuffer(body))
	d.version, d.path, d.lenient = version, d.path[:0], 0
	err = structDecoder(v.Type(), &dryRun)(d, v)
	if err == nil {
		if _, end := d.ReadToken(); end != io.EOF {
			err = errors.New("something follows the JSON object")
		}
	}
	return dryRun, d.explain(err)
}

// explain turns an error of the JSON decoder into an error for the caller.
func (d *decoding) explain(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*apierror.Error](err); ok {
		return err
	}
	if errors.Is(err, jsontext.ErrDuplicateName) {
		return apierror.UnknownParameter.Errorf("%s is given twice.",
			strings.TrimPrefix(strings.ReplaceAll(string(d.StackPointer()), "/", "."), "."))
	}
	return apierror.InvalidType.Errorf("The body is not a JSON object: near byte %d, %s.", d.InputOffset(), plain(err))
}

// plain returns the decoder's message without its package name.
func plain(err error) string {
	text := strings.TrimPrefix(err.Error(), "jsontext: ")
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		text = "the document ends too early"
	}
	return text
}

func (d *decoding) here() string { return strings.Join(d.path, ".") }

func (d *decoding) mismatch(want string) error {
	return apierror.InvalidType.Errorf("%s must be %s.", d.here(), want)
}

func decoderOf(t reflect.Type) decoder {
	if dec, ok := decoders.Load(t); ok {
		return dec.(decoder)
	}
	dec := newDecoder(t)
	decoders.Store(t, dec)
	return dec
}

func newDecoder(t reflect.Type) decoder {
	if reflect.PointerTo(t).Implements(reflect.TypeFor[parser]()) {
		return checked(t, parsed)
	}
	switch t.Kind() {
	case reflect.Pointer:
		return func(d *decoding, v reflect.Value) error {
			v.Set(reflect.New(t.Elem()))
			return decoderOf(t.Elem())(d, v.Elem())
		}
	case reflect.Struct:
		return checked(t, structDecoder(t, nil))
	case reflect.Slice:
		return decodeSlice
	case reflect.String:
		return checked(t, decodeString)
	case reflect.Bool:
		return decodeBool
	case reflect.Int, reflect.Int64:
		return checked(t, decodeInt)
	case reflect.Float64:
		return decodeFloat
	}
	panic(fmt.Sprintf("api: a request cannot hold a %s", t))
}

// checked validates values that implement [Checker] after they were decoded.
func checked(t reflect.Type, next decoder) decoder {
	form, isID := resource.FormOf(t)
	zero := reflect.Zero(t).Interface()
	enum, isEnum := zero.(Enum)
	bounded, isBounded := zero.(Bounded)
	isChecker := t.Implements(reflect.TypeFor[Checker]())
	if !isID && !isEnum && !isBounded && !isChecker {
		return next
	}
	return func(d *decoding, v reflect.Value) error {
		if err := next(d, v); err != nil || d.lenient > 0 {
			return err
		}
		switch {
		case isChecker:
			if err := v.Interface().(Checker).Check(); err != nil {
				return apierror.In(d.here(), err)
			}
		case isBounded:
			if low, high := bounded.Bounds(); v.Int() < low || v.Int() > high {
				return apierror.InvalidValue.Errorf("%s: %d is not between %d and %d.", d.here(), v.Int(), low, high)
			}
		case isEnum && !slices.Contains(enum.Literals(), v.String()):
			return apierror.InvalidValue.Errorf("%s: '%s' is none of %s.", d.here(), v, strings.Join(enum.Literals(), ", "))
		case isID && v.Len() > 0:
			// An empty id counts as absent, because clients send it for fields that they leave out.
			if err := form.Check(v.String()); err != nil {
				return apierror.In(d.here(), err)
			}
		}
		return nil
	}
}

func parsed(d *decoding, v reflect.Value) error {
	token, err := d.scalar('"', "a string")
	if err != nil {
		return err
	}
	if err := v.Addr().Interface().(parser).ParseWire(token.String()); err != nil {
		return apierror.In(d.here(), err)
	}
	return nil
}

// scalar reads a token of a kind.
func (d *decoding) scalar(kind jsontext.Kind, want string) (jsontext.Token, error) {
	if got := d.PeekKind(); got != kind && (kind != 't' || got != 'f') {
		if got == 0 {
			_, err := d.ReadToken()
			return jsontext.Token{}, err
		}
		return jsontext.Token{}, d.mismatch(want)
	}
	return d.ReadToken()
}

func decodeString(d *decoding, v reflect.Value) error {
	token, err := d.scalar('"', "a string")
	if err == nil {
		v.SetString(token.String())
	}
	return err
}

func decodeBool(d *decoding, v reflect.Value) error {
	token, err := d.scalar('t', "true or false")
	if err == nil {
		v.SetBool(token.Bool())
	}
	return err
}

func decodeInt(d *decoding, v reflect.Value) error {
	token, err := d.scalar('0', "an integer")
	if err != nil {
		return err
	}
	n, err := strconv.ParseInt(token.String(), 10, 64)
	if err != nil {
		return d.mismatch("an integer")
	}
	v.SetInt(n)
	return nil
}

func decodeFloat(d *decoding, v reflect.Value) error {
	token, err := d.scalar('0', "a number")
	if err != nil {
		return err
	}
	n, err := strconv.ParseFloat(token.String(), 64)
	if err != nil { // it is too large
		return d.mismatch("a number")
	}
	v.SetFloat(n)
	return nil
}

// maxItems is the maximum length of a list in a request, which also bounds the
// product of two lists. AWS takes as many ids in a call.
const maxItems = 1000

func decodeSlice(d *decoding, v reflect.Value) error {
	if _, err := d.scalar('[', "a list"); err != nil {
		return err
	}
	next := decoderOf(v.Type().Elem())
	list := reflect.MakeSlice(v.Type(), 0, 1)
	d.path = append(d.path, "")
	for d.PeekKind() != ']' {
		if list.Len() == maxItems {
			return d.tooLong()
		}
		d.path[len(d.path)-1] = strconv.Itoa(list.Len())
		item := reflect.New(v.Type().Elem()).Elem()
		if err := next(d, item); err != nil {
			return err
		}
		list = reflect.Append(list, item)
	}
	d.path = d.path[:len(d.path)-1]
	v.Set(list)
	_, err := d.ReadToken()
	return err
}

// tooLong refuses the list that is being read, once it has counted the rest.
func (d *decoding) tooLong() error {
	n := maxItems
	for ; d.PeekKind() != ']'; n++ {
		if err := d.SkipValue(); err != nil {
			return err
		}
	}
	d.path = d.path[:len(d.path)-1]
	return apierror.InvalidCount.Errorf("%s has %d elements: a list has at most %d.", d.here(), n, maxItems)
}

// parameters are the fields of a request, or of a struct in one.
type parameters struct {
	schema   string // the name of the struct in the contract
	byName   map[string]*parameter
	required uint64      // the bits of the required ones
	presets  []parameter // those that have a value when they are not given
}

// parameter is a field of a request.
type parameter struct {
	index    []int
	required uint64        // its bit among the required ones, or 0
	preset   reflect.Value // what its `default:` tag says
	strict   bool          // `api:"strict"`: checked even in filters
}

// parametersOf lists the fields of a struct, including the fields of embedded
// structs.
func parametersOf(t reflect.Type) *parameters {
	if all, ok := requests.Load(t); ok {
		return all.(*parameters)
	}
	all, bits := &parameters{schema: SchemaName(t), byName: map[string]*parameter{}}, 0
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous || !f.IsExported() {
			continue
		}
		p := &parameter{index: f.Index, strict: f.Tag.Get("api") == "strict"}
		if f.Tag.Get("api") == "required" {
			p.required = 1 << bits
			bits++
		}
		if text, ok := f.Tag.Lookup("default"); ok {
			p.preset = preset(f, text)
			all.presets = append(all.presets, *p)
		}
		all.byName[f.Name] = p
		all.required |= p.required
	}
	requests.Store(t, all)
	return all
}

// requests holds the parameters of each struct.
var requests sync.Map // reflect.Type → *parameters

// preset reads the default of a field, a text without quotes. It panics if the
// field cannot hold it, or is a pointer: with a default it needs no nil.
func preset(f reflect.StructField, text string) reflect.Value {
	switch f.Type.Kind() {
	case reflect.Pointer:
		panic(fmt.Sprintf("api: %s has a default and is a pointer", f.Name))
	case reflect.String:
		text = strconv.Quote(text)
	}
	d := &decoding{Decoder: jsontext.NewDecoder(strings.NewReader(text)), version: Latest, path: []string{f.Name}}
	v := reflect.New(f.Type).Elem()
	if err := decoderOf(f.Type)(d, v); err != nil {
		panic(fmt.Sprintf("api: the default of %s: %v", f.Name, err))
	}
	return v
}

// structDecoder reads an object. For a request, dryRun receives the parameter
// that all requests have.
func structDecoder(t reflect.Type, dryRun *bool) decoder {
	all := parametersOf(t)
	schema := all.schema
	filters := strings.HasPrefix(schema, "Filters")
	return func(d *decoding, v reflect.Value) error {
		if len(d.path) == 0 && d.PeekKind() != '{' {
			if d.PeekKind() != 0 {
				return apierror.InvalidType.Errorf("The body must be a JSON object.")
			}
		}
		if _, err := d.scalar('{', "an object"); err != nil {
			return err
		}
		if filters {
			d.lenient++
			defer func() { d.lenient-- }()
		}
		for _, p := range all.presets {
			v.FieldByIndex(p.index).Set(p.preset)
		}
		seen := uint64(0)
		d.path = append(d.path, "")
		for d.PeekKind() != '}' {
			token, err := d.ReadToken()
			if err != nil {
				return err
			}
			name := token.String()
			d.path[len(d.path)-1] = name
			p := all.byName[name]
			switch {
			case dryRun != nil && name == "DryRun":
				if d.PeekKind() == 'n' {
					err = d.SkipValue()
				} else if token, err = d.scalar('t', "true or false"); err == nil {
					*dryRun = token.Bool()
				}
			case p == nil || !d.version.Has(schema, name):
				return apierror.UnknownParameter.Errorf("%s is not a parameter of %s.", d.here(), strings.TrimSuffix(schema, "Request"))
			case d.PeekKind() == 'n':
				err = d.SkipValue()
			default:
				seen |= p.required
				f, lenient := v.FieldByIndex(p.index), d.lenient
				if p.strict {
					d.lenient = 0
				}
				err = decoderOf(f.Type())(d, f)
				d.lenient = lenient
			}
			if err != nil {
				return err
			}
		}
		d.path = d.path[:len(d.path)-1]
		if _, err := d.ReadToken(); err != nil {
			return err
		}
		if seen != all.required {
			return d.missing(all, seen)
		}
		return nil
	}
}

// missing names the first required parameter, by name, that was not given.
func (d *decoding) missing(all *parameters, seen uint64) error {
	var absent []string
	for name, p := range all.byName {
		if p.required&^seen != 0 {
			absent = append(absent, name)
		}
	}
	return apierror.MissingParameter.Errorf("%s is required.", strings.Join(append(slices.Clone(d.path), slices.Min(absent)), "."))
}

// SchemaName returns the name of a type in the contract: the name of the Go type,
// unless the first field says another one: _ struct{} `schema:"VmsStopHistory"`.
func SchemaName(t reflect.Type) string {
	if t.Kind() == reflect.Struct && t.NumField() > 0 {
		if f := t.Field(0); f.Name == "_" && f.Tag.Get("schema") != "" {
			return f.Tag.Get("schema")
		}
	}
	return t.Name()
}
