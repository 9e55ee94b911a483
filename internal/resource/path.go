package resource

import (
	"fmt"
	"reflect"
	"strings"
)

// Path leads from a struct to the values of a field, through structs, pointers
// and slices. `Nics.SubnetId` names one value per NIC.
type Path struct {
	Name     string
	Type     reflect.Type // of the values at its end
	Computed bool         // it leads through a field that is never stored
	steps    []int        // field numbers; slices and pointers are passed on the way
	flat     []int        // the steps, if only structs are on the way
}

// ParsePath finds a field by its dotted name.
func ParsePath(t reflect.Type, name string) (Path, error) {
	p := Path{Name: name}
	through, at := false, t
	for part := range strings.SplitSeq(name, ".") {
		var passed bool
		at, passed = element(at)
		through = through || passed
		if at.Kind() != reflect.Struct {
			return Path{}, fmt.Errorf("%s: %s has no fields", name, at)
		}
		f, ok := at.FieldByName(part)
		if !ok || len(f.Index) != 1 {
			return Path{}, fmt.Errorf("%s: %s has no field %s", name, at, part)
		}
		p.steps = append(p.steps, f.Index[0])
		p.Computed = p.Computed || f.Tag.Get("json") == "-"
		at = f.Type
	}
	end, passed := element(at)
	p.Type = end
	if !through && !passed {
		p.flat = p.steps
	}
	return p, nil
}

// element passes through pointers and slices.
func element(t reflect.Type) (reflect.Type, bool) {
	passed := false
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t, passed = t.Elem(), true
	}
	return t, passed
}

// Each calls fn with every value at the path's end until fn returns false. It
// reports whether all calls returned true.
func (p Path) Each(v reflect.Value, fn func(reflect.Value) bool) bool {
	if p.flat != nil {
		return fn(v.FieldByIndex(p.flat))
	}
	return each(v, p.steps, fn)
}

func each(v reflect.Value, steps []int, fn func(reflect.Value) bool) bool {
	switch v.Kind() {
	case reflect.Pointer:
		return v.IsNil() || each(v.Elem(), steps, fn)
	case reflect.Slice:
		for i := range v.Len() {
			if !each(v.Index(i), steps, fn) {
				return false
			}
		}
		return true
	}
	if len(steps) == 0 {
		return fn(v)
	}
	return each(v.Field(steps[0]), steps[1:], fn)
}

// Paths lists the paths of all fields of t, and of the structs in it, that
// satisfy want.
func Paths(t reflect.Type, want func(reflect.StructField) bool) []Path {
	var found []Path
	var visit func(at reflect.Type, prefix string)
	visit = func(at reflect.Type, prefix string) {
		for i := range at.NumField() {
			f := at.Field(i)
			if !f.IsExported() {
				continue
			}
			if want(f) {
				p, err := ParsePath(t, prefix+f.Name)
				if err != nil {
					panic(err) // the name was just read from the type
				}
				found = append(found, p)
			}
			if e, _ := element(f.Type); e.Kind() == reflect.Struct {
				visit(e, prefix+f.Name+".")
			}
		}
	}
	visit(t, "")
	return found
}
