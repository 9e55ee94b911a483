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
	facts := k.Facts()
	field, ok := facts.Type.FieldByName("Generation")
	if !ok {
		panic(fmt.Sprintf("kind: the world is told nothing of a %s", facts.Name))
	}
	o, ok := tx.snapshot().Get(facts.Name, id.String())
	if !ok || o.Gone != 0 {
		return
	}
	copied := reflect.New(facts.Type)
	copied.Elem().Set(reflect.ValueOf(o.Value).Elem())
	generation := copied.Elem().FieldByIndex(field.Index)
	generation.SetUint(generation.Uint() + 1)
	tx.draft().Put(facts.Name, o.ID, copied.Interface())
}
