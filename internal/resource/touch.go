package resource

import (
	"fmt"
	"reflect"
)

// Touch makes the driver hear of a change of a resource of whatever kind, given by
// its id: the Generation of the resource grows. So a rule can tell of what it
// changed for a resource of a domain above its own. An id that no living
// resource has changes nothing.
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

// touch takes a resource one generation further.
func touch(resource reflect.Value) {
	if !hasGeneration(resource.Type(), generationField) {
		panic(fmt.Sprintf("kind: the driver is told nothing of a %s", resource.Type()))
	}
	generation := resource.FieldByName(generationField)
	generation.SetUint(generation.Uint() + 1)
}
