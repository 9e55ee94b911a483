package resource

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/bastide-cloud/bastide/internal/store"
)

// The methods that a stored struct may have. [Open] checks each against the
// kind, and refuses a method of one of these names with another signature.
type (
	// Pending reports whether a loop has work to do for the resource: whether its
	// driver is behind, or a time may have passed. A loop does not look at one that
	// is not pending.
	Pending interface{ Pending() bool }

	// Hidden reports whether the resource is one that the region made for its own
	// needs: no caller is shown it, and to callers it is absent.
	Hidden interface{ Hidden() bool }

	// Summed says what the resource adds to the sums of its kind, such as
	// gibibytes. Each value has the names of the zero value, in the same order.
	Summed interface{ Sums() Sums }
)

// The fields, each a uint64, that a stored struct may have by name: the number
// of its last change that the driver must apply, and of the last one applied.
// [Tx.Touch] raises the first, and loops set the second.
const (
	generationField         = "Generation"
	observedGenerationField = "ObservedGeneration"
)

// Sums are named numbers that the living resources of a kind add up to. A kind has
// at most as many as the array; entries without a name come last and count nothing.
type Sums [len(store.Amounts{})]struct {
	Name string
	N    int64
}

// IsPending reports whether a loop has work to do for a resource. See [Pending].
func IsPending(resource any) bool {
	p, ok := resource.(Pending)
	return ok && p.Pending()
}

// IsHidden reports whether no caller is shown a resource. See [Hidden].
func IsHidden(resource any) bool {
	h, ok := resource.(Hidden)
	return ok && h.Hidden()
}

// Sum is what the living resources add up to under one of the names of their
// [Summed], at no cost that grows with their number.
func (k *Kind[T, I]) Sum(tx *Tx, name string) int {
	at := slices.Index(k.layout().sums, name)
	if at < 0 {
		panic(fmt.Sprintf("kind %s: nothing is summed under the name %q", k.Name, name))
	}
	return int(tx.snapshot().Sums(k.Name)[at])
}

// Amounts are the sums of a resource by the positions of their names.
func (c *codec[T]) Amounts(value any) (a store.Amounts) {
	if c.shape.sums == nil {
		return a
	}
	for i, s := range value.(Summed).Sums() {
		if i < len(c.shape.sums) && s.Name == c.shape.sums[i] {
			a[i] = s.N
		} else if s.Name != "" {
			panic(fmt.Sprintf("kind %s: its sum %d is %q and was not declared by the zero value", c.name, i, s.Name))
		}
	}
	return a
}

// inspectMethods checks what the pointer to a stored struct implements, and the
// types of the fields that have a meaning by name.
func inspectMethods(t reflect.Type, sh *shape) error {
	p := reflect.PointerTo(t)
	for name, want := range map[string]reflect.Type{
		"Pending": reflect.TypeFor[Pending](), "Hidden": reflect.TypeFor[Hidden](), "Sums": reflect.TypeFor[Summed](),
	} {
		if m, ok := p.MethodByName(name); ok && !p.Implements(want) {
			return fmt.Errorf("the method %s of %s does not have the signature of %s", m.Name, t, want)
		}
	}
	if _, ok := t.FieldByName(observedGenerationField); ok &&
		!(hasGeneration(t, generationField) && hasGeneration(t, observedGenerationField)) {
		return fmt.Errorf("%s of %s, or the %s that it follows, is not a uint64", observedGenerationField, t, generationField)
	}
	if zero, ok := reflect.New(t).Interface().(Summed); ok {
		return sh.nameSums(zero.Sums())
	}
	return nil
}

// hasGeneration reports whether a struct has a field that counts what its driver
// learns. In a contract, a generation may be something else, and a text.
func hasGeneration(t reflect.Type, name string) bool {
	f, ok := t.FieldByName(name)
	return ok && f.Type.Kind() == reflect.Uint64
}

// nameSums takes the names of the sums from the zero value.
func (sh *shape) nameSums(zero Sums) error {
	sh.sums = []string{}
	for i, s := range zero {
		switch {
		case s.Name == "":
		case len(sh.sums) < i:
			return fmt.Errorf("the sum %q comes after one without a name", s.Name)
		case slices.Contains(sh.sums, s.Name):
			return fmt.Errorf("two sums are called %q", s.Name)
		default:
			sh.sums = append(sh.sums, s.Name)
		}
	}
	return nil
}
