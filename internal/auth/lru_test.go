package auth

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The table holds what a list does that is cut to size after each use.
func TestLRU(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 5).Draw(t, "size")
		table := newLRU[int, int](size)
		var used []int // the one used last comes last
		values := map[int]int{}
		use := func(key int) {
			used = append(slices.DeleteFunc(used, func(k int) bool { return k == key }), key)
			if len(used) > size {
				delete(values, used[0])
				used = used[1:]
			}
		}
		for step := range rapid.IntRange(0, 100).Draw(t, "steps") {
			key := rapid.IntRange(0, 7).Draw(t, "key")
			want, known := values[key]
			if rapid.Bool().Draw(t, "get") {
				if got, ok := table.get(key); ok != known || got != want {
					t.Fatalf("get(%d) = %d, %v; want %d, %v", key, got, ok, want, known)
				}
				if known {
					use(key)
				}
				continue
			}
			place := table.at(key)
			if *place != want {
				t.Fatalf("at(%d) holds %d, want %d", key, *place, want)
			}
			*place = step
			values[key] = step
			use(key)
		}
		if got := slices.Sorted(maps.Keys(table.entries)); !slices.Equal(got, slices.Sorted(maps.Keys(values))) {
			t.Fatalf("the table has %v, want %v", got, values)
		}
	})
}
