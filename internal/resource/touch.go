package resource

import (
	"fmt"
	"reflect"
)

// Touch raises the Generation of a resource of any kind, given by its id, so
// that the driver applies a change. So a rule can report a change of a resource
// that belongs to a higher domain. An id that no resource has changes nothing.
func (tx *Tx) Touch(target any) {
	id := reflect.ValueOf(target)
	if k := tx.db.byID[id.Type()]; k != nil && id.Len() > 0 {
		k.change(tx, id.String(), touch)
	}
}

// change changes the living resource of an id, if there is one, without a check
// of what it refers to.
func (k *Kind[T, I]) change(tx *Tx, id string, change func(resource reflect.Value)) {
	if v := k.Find(tx, I(id)); v != nil {
		change(reflect.ValueOf(v).Elem())
		tx.draft().Put(k.Name, id, k.stored(v))
	}
}

// touch raises the generation of a resource.
func touch(resource reflect.Value) {
	if !hasGeneration(resource.Type(), generationField) {
		panic(fmt.Sprintf("resource: a %s has no generation for the driver", resource.Type()))
	}
	generation := resource.FieldByName(generationField)
	generation.SetUint(generation.Uint() + 1)
}
