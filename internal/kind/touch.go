package kind

import (
	"fmt"
	"reflect"
)

// Touch makes the world hear of a change of a resource of whatever kind, given by
// its id: the Generation of the resource grows. So a rule can tell of what it
// changed for a resource of a domain above its own. An id that no living
// resource has changes nothing.
func (tx *Tx) Touch(target any) {
	id := reflect.ValueOf(target)
	k := tx.db.byID[id.Type()]
	if k == nil || id.Len() == 0 {
		return
	}
	name := k.Facts().Name
	o, ok := tx.snapshot().Get(name, id.String())
	if !ok || o.Gone != 0 {
		return
	}
	tx.draft().Put(name, o.ID, touched(reflect.ValueOf(o.Value)).Interface())
}

// touched is a copy of a resource, one generation further.
func touched(resource reflect.Value) reflect.Value {
	copied := reflect.New(resource.Type().Elem())
	copied.Elem().Set(resource.Elem())
	generation := copied.Elem().FieldByName("Generation")
	if !generation.IsValid() {
		panic(fmt.Sprintf("kind: the world is told nothing of a %s", copied.Elem().Type()))
	}
	generation.SetUint(generation.Uint() + 1)
	return copied
}
