package resource_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// model is what an account should hold, in the plainest form: lists in order of
// creation.
type model struct {
	towns   []town
	houses  []house
	letters []letter
	gone    map[Letter]time.Time // when a letter that is still readable was deleted
}

func (m *model) town(id Town) *town {
	return element(m.towns, func(v town) bool { return v.TownId == id })
}
func (m *model) house(id House) *house {
	return element(m.houses, func(v house) bool { return v.HouseId == id })
}
func (m *model) letter(id Letter) *letter {
	return element(m.letters, func(v letter) bool { return v.LetterId == id })
}

func element[T any](list []T, is func(T) bool) *T {
	if i := slices.IndexFunc(list, is); i >= 0 {
		return &list[i]
	}
	return nil
}

// set replaces the element that is, or adds one.
func set[T any](list *[]T, v T, is func(T) bool) {
	if old := element(*list, is); old != nil {
		*old = v
	} else {
		*list = append(*list, v)
	}
}

func (m *model) living(id Letter) bool {
	_, gone := m.gone[id]
	return !gone && m.letter(id) != nil
}

// wrongTown, wrongHouse and wrongLetter say why a resource may not be written;
// nothing: it may.

func (m *model) wrongHouse(h house) (reasons []apierror.Code) {
	if h.TownId != "" && m.town(h.TownId) == nil {
		reasons = append(reasons, apierror.NetNotFound)
	}
	if h.Name != "" && slices.ContainsFunc(m.houses, func(o house) bool { return o.HouseId != h.HouseId && o.Name == h.Name }) {
		reasons = append(reasons, apierror.UserNameTaken)
	}
	return reasons
}

func (m *model) wrongLetter(l letter) (reasons []apierror.Code) {
	if l.Answers != "" && !m.living(l.Answers) {
		reasons = append(reasons, apierror.ObjectNotFound)
	}
	for _, id := range append(stopsOf(l), l.From) {
		if id != "" && m.house(id) == nil {
			reasons = append(reasons, apierror.SubnetNotFound)
		}
	}
	for _, id := range passedBy(l) {
		if id != "" && m.town(id) == nil {
			reasons = append(reasons, apierror.NetNotFound)
		}
	}
	return reasons
}

func stopsOf(l letter) (ids []House) {
	for _, s := range l.Stops {
		ids = append(ids, s.HouseId)
	}
	return ids
}

func passedBy(l letter) (ids []Town) {
	for _, s := range l.Stops {
		if s.Past != nil {
			ids = append(ids, s.Past.Towns...)
		}
	}
	return ids
}

// held reports whether a living letter refers to something.
func (m *model) held(refers func(letter) bool) bool {
	return slices.ContainsFunc(m.letters, func(l letter) bool { return m.living(l.LetterId) && refers(l) })
}

// country is the system under test beside its model.
type country struct {
	journal  *rows
	now      *clock
	random   *rand.ChaCha8
	db       *resource.DB
	accounts map[string]*model
	seqs     map[string]uint64 // by id, the position at which it was first seen
}

func (c *country) open() {
	c.db = resource.Open(resource.Options{
		Kinds: []resource.Any{towns, houses, letters}, Journal: c.journal, Seal: masterKey(1), Now: c.now.Now, Rand: c.random,
	})
}

// try runs a step that should fail for one of the reasons, or else succeed.
func (c *country) try(t *rapid.T, account string, reasons []apierror.Code, step func(*resource.Tx) error) (done bool) {
	// The transaction is one of the other account, where it writes through In.
	caller := resource.Caller{Account: rapid.SampledFrom([]string{alice, bob}).Draw(t, "caller")}
	err := c.db.Update(context.Background(), caller, func(tx *resource.Tx) error { return step(tx.In(account)) })
	if (err == nil) != (len(reasons) == 0) || err != nil &&
		!slices.ContainsFunc(reasons, func(code apierror.Code) bool { return code.Is(err) }) {
		t.Fatalf("the step answered %v, want one of the codes %v", err, reasons)
	}
	return err == nil
}

// The draws know each id of both accounts, some that never were, and none.

func (c *country) drawAccount(t *rapid.T) (string, *model) {
	account := rapid.SampledFrom([]string{alice, bob}).Draw(t, "account")
	return account, c.accounts[account]
}

func (c *country) drawTown(t *rapid.T) Town {
	ids := []Town{"", "town-0"}
	for _, account := range []string{alice, bob} {
		for _, v := range c.accounts[account].towns {
			ids = append(ids, v.TownId)
		}
	}
	return rapid.SampledFrom(ids).Draw(t, "town")
}

func (c *country) drawHouse(t *rapid.T) House {
	ids := []House{"", "house-0"}
	for _, account := range []string{alice, bob} {
		for _, v := range c.accounts[account].houses {
			ids = append(ids, v.HouseId)
		}
	}
	return rapid.SampledFrom(ids).Draw(t, "house")
}

func (c *country) drawLetter(t *rapid.T) Letter {
	ids := []Letter{"", "letter-0"}
	for _, account := range []string{alice, bob} {
		for _, v := range c.accounts[account].letters {
			ids = append(ids, v.LetterId)
		}
	}
	return rapid.SampledFrom(ids).Draw(t, "letter")
}

func (c *country) drawContents(t *rapid.T) letter {
	l := letter{From: c.drawHouse(t), Answers: c.drawLetter(t), Text: rapid.StringN(0, 3, -1).Draw(t, "text")}
	for range rapid.IntRange(0, 2).Draw(t, "stops") {
		s := stop{HouseId: c.drawHouse(t)}
		if rapid.Bool().Draw(t, "past towns") {
			s.Past = &route{Towns: []Town{c.drawTown(t)}}
		}
		l.Stops = append(l.Stops, s)
	}
	return l
}

func drawName(t *rapid.T) string {
	return rapid.SampledFrom([]string{"", "mill", "barn", "forge"}).Draw(t, "name")
}

// Whatever two accounts do, in whatever order: what is stored is what the model
// says, strong references lead to what lives, unique keys are unique, counts
// count, and positions stay, also over a restart.
func TestAnyHistory(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := &country{
			journal: newRows(), now: &clock{}, random: rand.NewChaCha8([32]byte{}), seqs: map[string]uint64{},
			accounts: map[string]*model{alice: {gone: map[Letter]time.Time{}}, bob: {gone: map[Letter]time.Time{}}},
		}
		c.open()
		defer func() { _ = c.db.Close() }()
		t.Repeat(map[string]func(*rapid.T){
			"":              c.check,
			"found town":    c.foundTown,
			"build house":   c.buildHouse,
			"write letter":  c.writeLetter,
			"change house":  c.changeHouse,
			"change letter": c.changeLetter,
			"delete town":   c.deleteTown,
			"delete house":  c.deleteHouse,
			"delete letter": c.deleteLetter,
			"change mind":   c.changeMind,
			"pass time":     func(t *rapid.T) { c.now.advance(time.Duration(rapid.IntRange(1, 45).Draw(t, "minutes")) * time.Minute) },
			"purge":         c.purge,
			"restart": func(t *rapid.T) {
				if err := c.db.Close(); err != nil {
					t.Fatal(err)
				}
				c.open()
			},
		})
	})
}

func (c *country) foundTown(t *rapid.T) {
	account, m := c.drawAccount(t)
	v := town{Name: drawName(t)}
	c.try(t, account, nil, func(tx *resource.Tx) error { return towns.Insert(tx, &v) })
	m.towns = append(m.towns, v)
}

func (c *country) buildHouse(t *rapid.T) {
	account, m := c.drawAccount(t)
	v := house{TownId: c.drawTown(t), Name: drawName(t)}
	if c.try(t, account, m.wrongHouse(v), func(tx *resource.Tx) error { return houses.Insert(tx, &v) }) {
		m.houses = append(m.houses, v)
	}
}

func (c *country) writeLetter(t *rapid.T) {
	account, m := c.drawAccount(t)
	v := c.drawContents(t)
	if c.try(t, account, m.wrongLetter(v), func(tx *resource.Tx) error { return letters.Insert(tx, &v) }) {
		m.letters = append(m.letters, v)
	}
}

func (c *country) changeHouse(t *rapid.T) {
	account, m := c.drawAccount(t)
	if len(m.houses) == 0 {
		t.Skip("there is none")
	}
	v := rapid.SampledFrom(m.houses).Draw(t, "old house")
	v.TownId, v.Name = c.drawTown(t), drawName(t)
	if c.try(t, account, m.wrongHouse(v), func(tx *resource.Tx) error { return houses.Put(tx, &v) }) {
		set(&m.houses, v, func(o house) bool { return o.HouseId == v.HouseId })
	}
}

func (c *country) changeLetter(t *rapid.T) {
	account, m := c.drawAccount(t)
	id := c.drawLetter(t)
	if !m.living(id) {
		t.Skip("there is none")
	}
	v := c.drawContents(t)
	v.LetterId = id
	if c.try(t, account, m.wrongLetter(v), func(tx *resource.Tx) error { return letters.Put(tx, &v) }) {
		set(&m.letters, v, func(o letter) bool { return o.LetterId == id })
	}
}

func (c *country) deleteTown(t *rapid.T) {
	account, m := c.drawAccount(t)
	id := c.drawTown(t)
	var reasons []apierror.Code
	if m.town(id) == nil {
		reasons = append(reasons, apierror.NetNotFound)
	} else if slices.ContainsFunc(m.houses, func(h house) bool { return h.TownId == id }) ||
		m.held(func(l letter) bool { return slices.Contains(passedBy(l), id) }) {
		reasons = append(reasons, apierror.NetInUse)
	}
	if c.try(t, account, reasons, func(tx *resource.Tx) error { return towns.Delete(tx, &town{TownId: id}) }) {
		m.towns = slices.DeleteFunc(m.towns, func(v town) bool { return v.TownId == id })
	}
}

func (c *country) deleteHouse(t *rapid.T) {
	account, m := c.drawAccount(t)
	id := c.drawHouse(t)
	var reasons []apierror.Code
	if m.house(id) == nil {
		reasons = append(reasons, apierror.SubnetNotFound)
	} else if m.held(func(l letter) bool { return slices.Contains(stopsOf(l), id) }) {
		reasons = append(reasons, apierror.SubnetInUse)
	}
	if c.try(t, account, reasons, func(tx *resource.Tx) error { return houses.Delete(tx, &house{HouseId: id}) }) {
		m.houses = slices.DeleteFunc(m.houses, func(v house) bool { return v.HouseId == id })
	}
}

func (c *country) deleteLetter(t *rapid.T) {
	account, m := c.drawAccount(t)
	v := letter{LetterId: c.drawLetter(t), Text: "read"}
	var reasons []apierror.Code
	if !m.living(v.LetterId) {
		reasons = append(reasons, apierror.ObjectNotFound)
	} else if m.held(func(l letter) bool { return l.Answers == v.LetterId && l.LetterId != v.LetterId }) {
		reasons = append(reasons, apierror.InUse)
	}
	if c.try(t, account, reasons, func(tx *resource.Tx) error { return letters.Delete(tx, &v) }) {
		set(&m.letters, v, func(o letter) bool { return o.LetterId == v.LetterId })
		m.gone[v.LetterId] = c.now.Now()
	}
}

// changeMind writes to both accounts and then fails.
func (c *country) changeMind(t *rapid.T) {
	c.try(t, alice, []apierror.Code{apierror.InvalidState}, func(tx *resource.Tx) error {
		for _, account := range []string{bob, alice} {
			tx := tx.In(account)
			made := town{}
			must(towns.Insert(tx, &made))
			must(houses.Insert(tx, &house{TownId: made.TownId}))
			for l := range letters.All(tx) {
				l.Text = "torn"
				if err := letters.Delete(tx, l); err != nil && !apierror.InUse.Is(err) {
					return err
				}
			}
			letters.Purge(tx)
		}
		return apierror.InvalidState.Bare()
	})
}

func (c *country) purge(t *rapid.T) {
	account, m := c.drawAccount(t)
	var next, want time.Time
	c.try(t, account, nil, func(tx *resource.Tx) error { next = letters.Purge(tx); return nil })
	for id, gone := range m.gone {
		due := gone.Add(letters.Retention)
		if !due.After(c.now.Now()) {
			delete(m.gone, id)
			m.letters = slices.DeleteFunc(m.letters, func(v letter) bool { return v.LetterId == id })
		} else if want.IsZero() || due.Before(want) {
			want = due
		}
	}
	if !next.Equal(want) {
		t.Fatalf("the next letter is due at %v, want %v", next, want)
	}
}

func (c *country) check(t *rapid.T) {
	for account, m := range c.accounts {
		view(t, c.db, account, func(tx *resource.Tx) {
			compare(t, c, tx, towns, m.towns, func(v town) string { return string(v.TownId) }, func(town) bool { return true })
			compare(t, c, tx, houses, m.houses, func(v house) string { return string(v.HouseId) }, func(house) bool { return true })
			compare(t, c, tx, letters, m.letters, func(v letter) string { return string(v.LetterId) },
				func(v letter) bool { return m.living(v.LetterId) })
			names := map[string]bool{}
			for h := range houses.All(tx) {
				if names[h.Name] && h.Name != "" {
					t.Fatalf("two houses are called %s", h.Name)
				}
				names[h.Name] = true
				if h.TownId != "" && !towns.Has(tx, h.TownId) {
					t.Fatalf("%s dangles from %s", h.TownId, h.HouseId)
				}
			}
			for l := range letters.All(tx) {
				dangling := l.Answers != "" && !letters.Has(tx, l.Answers) ||
					slices.ContainsFunc(stopsOf(*l), func(id House) bool { return id != "" && !houses.Has(tx, id) }) ||
					slices.ContainsFunc(passedBy(*l), func(id Town) bool { return id != "" && !towns.Has(tx, id) })
				if dangling {
					t.Fatalf("a reference dangles from %+v", l)
				}
			}
			for _, v := range m.houses {
				got := each(letters.Of(tx, v.HouseId), func(l *letter) Letter { return l.LetterId })
				want := []Letter{}
				for _, l := range m.letters {
					if m.living(l.LetterId) && (l.From == v.HouseId || slices.Contains(stopsOf(l), v.HouseId)) {
						want = append(want, l.LetterId)
					}
				}
				if !slices.Equal(got, want) {
					t.Fatalf("to %s refer %s, want %s", v.HouseId, got, want)
				}
			}
		})
	}
}

// compare checks that an account holds the resources of a kind that the model
// says, in the same order and where they always were.
func compare[T any, I resource.ID](t *rapid.T, c *country, tx *resource.Tx, k *resource.Kind[T, I], want []T, id func(T) string,
	living func(T) bool) {
	var got, alive []T
	var last uint64
	for seq, v := range k.Each(tx, 0) {
		got = append(got, *v)
		if seq <= last {
			t.Fatalf("the position %d comes after %d", seq, last)
		}
		last = seq
		if first, ok := c.seqs[id(*v)]; ok && first != seq {
			t.Fatalf("%s has moved from the position %d to %d", id(*v), first, seq)
		}
		c.seqs[id(*v)] = seq
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("%s holds other %ss (-want +got):\n%s", tx.Account(), k.Name, diff)
	}
	for _, v := range want {
		if living(v) {
			alive = append(alive, v)
		}
		if k.Has(tx, I(id(v))) != living(v) {
			t.Fatalf("Has(%s) answers %t", id(v), !living(v))
		}
	}
	if diff := cmp.Diff(alive, each(k.All(tx), func(v *T) T { return *v }), cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("in %s other %ss live (-want +got):\n%s", tx.Account(), k.Name, diff)
	}
	if n := k.Count(tx); n != len(alive) {
		t.Fatalf("Count answers %d, want %d", n, len(alive))
	}
}
