package resource

import (
	"fmt"
	"reflect"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/lifecycle"
)

// Transition applies an event to a resource and writes v: it creates a resource
// that had no state, and deletes one whose life ends. It refuses an event that
// the resource's state does not allow. Rules change a state in no other way:
// Put panics.
func Transition[T any, I ID, S ~string](tx *Tx, k *Kind[T, I], v *T, event lifecycle.Event[S]) error {
	if ok, err := Try(tx, k, v, event); ok || err != nil {
		return err
	}
	return k.forbidden(v, string(event))
}

// Try is [Transition] for an event that may come too late, such as what a driver
// reports: one that the state does not allow changes nothing, and Try returns
// false.
func Try[T any, I ID, S ~string](tx *Tx, k *Kind[T, I], v *T, event lifecycle.Event[S]) (bool, error) {
	state := k.state(v)
	to, ok := tableOf[S](k).Next(S(state.String()), event)
	if !ok {
		return false, nil
	}
	return true, k.move(tx, v, lifecycle.Edge{From: state.String(), Event: string(event), To: string(to)})
}

// Allows reports whether a resource is in a state in which the event may happen.
func Allows[T any, I ID, S ~string](k *Kind[T, I], v *T, event lifecycle.Event[S]) bool {
	_, ok := tableOf[S](k).Next(S(k.state(v).String()), event)
	return ok
}

// Advance applies an event to a state that is a part of a resource, such as the
// state of the link between a volume and a VM, and reports whether it was
// allowed. The caller writes the resource.
func Advance[S ~string](tx *Tx, life lifecycle.Table[S], state *S, event lifecycle.Event[S]) bool {
	to, ok := life.Next(*state, event)
	if ok {
		tx.db.transitioned(reflect.TypeFor[S]().Name(), lifecycle.Edge{From: string(*state), Event: string(event), To: string(to)})
		*state = to
	}
	return ok
}

func tableOf[S ~string, T any, I ID](k *Kind[T, I]) lifecycle.Table[S] {
	table, ok := k.Life.(lifecycle.Table[S])
	if !ok {
		panic(fmt.Sprintf("kind %s: its life has no events of the states %s", k.Name, reflect.TypeFor[S]()))
	}
	return table
}

// state is the field that holds the state of a resource.
func (k *Kind[T, I]) state(v *T) reflect.Value {
	return reflect.ValueOf(v).Elem().FieldByIndex(k.layout().state)
}

// move applies a transition to a resource.
func (k *Kind[T, I]) move(tx *Tx, v *T, e lifecycle.Edge) (err error) {
	state := k.state(v)
	state.SetString(e.To)
	switch {
	case e.From == "" && k.isEnd(e.To):
		if err = k.insert(tx, v); err == nil {
			err = k.remove(tx, v)
		}
	case e.From == "":
		err = k.insert(tx, v)
	case k.isEnd(e.To):
		err = k.remove(tx, v)
	default:
		err = k.put(tx, v)
	}
	if err != nil {
		state.SetString(e.From)
		return err
	}
	tx.db.transitioned(k.Name, e)
	return nil
}

// isEnd reports whether a resource is deleted when it comes to a state. If its
// kind keeps deleted resources readable, that is one from which it is only
// forgotten.
func (k *Kind[T, I]) isEnd(state string) bool { return k.layout().ends[state] }

// inspectLife finds the field of the state, and sorts the edges by where they
// begin.
func (k *Kind[T, I]) inspectLife(sh *shape) error {
	if err := k.Life.Check(); err != nil {
		return err
	}
	found := Paths(reflect.TypeFor[T](), func(f reflect.StructField) bool { return f.Type == k.Life.State() && f.Tag.Get("json") != "-" })
	if len(found) != 1 || found[0].flat == nil {
		return fmt.Errorf("%s has %d fields of the type %s, and one holds the state", reflect.TypeFor[T](), len(found), k.Life.State())
	}
	sh.state, sh.edges, sh.ends = found[0].flat, map[string][]lifecycle.Edge{}, map[string]bool{"": true}
	for _, e := range k.Life.Edges() {
		sh.edges[e.From] = append(sh.edges[e.From], e)
		if e.To == "" && k.Retention > 0 {
			sh.ends[e.From] = true
		}
	}
	return nil
}

// checkState panics if a rule has set the state of a resource past its life: a
// programming error.
func (k *Kind[T, I]) checkState(tx *Tx, v *T) {
	was, is := "", k.state(v).String()
	if o, ok := tx.snapshot().Get(k.Name, reflect.ValueOf(v).Elem().Field(k.layout().id).String()); ok {
		was = k.state(o.Value.(*T)).String()
	}
	if was != is {
		panic(fmt.Sprintf("kind %s: a rule sets the state %q to %q without a Transition", k.Name, was, is))
	}
}

// forget notes the last edge of a resource that was deleted long ago.
func (k *Kind[T, I]) forget(tx *Tx, v *T) {
	for _, e := range k.layout().edges[k.state(v).String()] {
		if e.To == "" {
			tx.db.transitioned(k.Name, e)
		}
	}
}

// begin takes a new resource along the only edge with which its life begins.
func (k *Kind[T, I]) begin(tx *Tx, v *T) error {
	if state := k.state(v).String(); state != "" {
		panic(fmt.Sprintf("kind %s: a rule creates one that is %s already", k.Name, state))
	}
	edges := k.layout().edges[""]
	if len(edges) != 1 {
		panic(fmt.Sprintf("kind %s: its life begins in several ways, so it is created by a Transition", k.Name))
	}
	return k.move(tx, v, edges[0])
}

// end takes a resource along the only edge from its state to the end of its
// life.
func (k *Kind[T, I]) end(tx *Tx, v *T) error {
	var edges []lifecycle.Edge
	for _, e := range k.layout().edges[k.state(v).String()] {
		if k.isEnd(e.To) {
			edges = append(edges, e)
		}
	}
	switch len(edges) {
	case 0:
		return k.forbidden(v, "deleted")
	case 1:
		return k.move(tx, v, edges[0])
	}
	panic(fmt.Sprintf("kind %s: a life that is %s ends in several ways, so it is ended by a Transition", k.Name, k.state(v)))
}

// forbidden is the refusal of an event that the state of a resource does not
// allow.
func (k *Kind[T, I]) forbidden(v *T, event string) error {
	code := k.Forbidden
	if code == 0 {
		code = apierror.InvalidState
	}
	return code.Errorf("The %s %s is %s, so it cannot be %s.", k.Name, reflect.ValueOf(v).Elem().Field(k.layout().id), k.state(v), event)
}
