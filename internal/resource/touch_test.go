package resource_test

import (
	"testing"

	"github.com/bastide-cloud/bastide/internal/resource"
)

// Bell is the ID of a bell, of whose every change the driver hears.
type Bell string

func (Bell) Form() resource.Form { return hex("bell-") }

type bell struct {
	BellId     Bell
	Names      []string
	Tags       []resource.ResourceTag
	Generation uint64
}

var bells = &resource.Kind[bell, Bell]{Name: "Bell", Tag: "bell", ToldTags: true}

func TestTouch(t *testing.T) {
	t.Parallel()
	db := open(t, func(o *resource.Options) { o.Kinds = append(o.Kinds, bells) })
	rung := insert(t, db, alice, bells, bell{Names: []string{"Emmanuel"}})
	gone := insert(t, db, alice, bells, bell{})
	silent := insert(t, db, alice, towns, town{})
	remove := func(tx *resource.Tx) error { return bells.Delete(tx, gone) }
	update(t, db, alice, remove)
	update(t, db, alice, func(tx *resource.Tx) error {
		before, err := bells.Get(tx, rung.BellId)
		if err != nil {
			return err
		}
		tx.Touch(rung.BellId)
		tx.Touch(rung.BellId)
		tx.Touch(gone.BellId)
		tx.Touch(Bell(""))
		if before.Generation != 2 {
			t.Errorf("what the rule has got before it touched it is %+v, not what it has become", before)
		}
		return nil
	})
	update(t, db, bob, func(tx *resource.Tx) error {
		tx.Touch(rung.BellId)
		return nil
	})
	view(t, db, alice, func(tx *resource.Tx) {
		after, err := bells.Get(tx, rung.BellId)
		if err != nil || after.Generation != 2 || len(after.Names) != 1 {
			t.Errorf("touched twice, the bell is %+v, %v", after, err)
		}
		if left := each(bells.All(tx), func(b *bell) Bell { return b.BellId }); len(left) != 1 {
			t.Errorf("the bells are %v, want the one that was not deleted", left)
		}
	})
	update(t, db, alice, func(tx *resource.Tx) error {
		defer func() {
			if recover() == nil {
				t.Error("a town can be touched, of which the driver is told nothing")
			}
		}()
		tx.Touch(silent.TownId)
		return nil
	})
}

// The driver hears of other tags where it is told of them.
func TestTagsAreTold(t *testing.T) {
	t.Parallel()
	db := open(t, func(o *resource.Options) { o.Kinds = append(o.Kinds, bells) })
	b := insert(t, db, alice, bells, bell{Names: []string{"Emmanuel"}})
	update(t, db, alice, func(tx *resource.Tx) error {
		tagged, ok := tx.Tagged(string(b.BellId))
		if !ok {
			t.Fatal("a bell can have no tags")
		}
		tx.SetTags(tagged, []resource.ResourceTag{{Key: "tone", Value: "f"}})
		if before := tagged.Tags(); len(before) != 0 {
			t.Errorf("what was read before has the tags %v", before)
		}
		return nil
	})
	view(t, db, alice, func(tx *resource.Tx) {
		after, err := bells.Get(tx, b.BellId)
		if err != nil || after.Generation != 1 || len(after.Tags) != 1 || len(after.Names) != 1 {
			t.Errorf("tagged, the bell is %+v, %v", after, err)
		}
	})
}
