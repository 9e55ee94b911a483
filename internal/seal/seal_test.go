package seal_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/bastide-cloud/bastide/internal/seal"
)

func chance(seed byte) io.Reader { return rand.NewChaCha8([32]byte{seed}) }

func newKey(master byte) *seal.Key {
	k, err := seal.New(slices.Repeat([]byte{master}, 32), chance(master))
	if err != nil {
		panic(err)
	}
	return k
}

func TestNewNeedsAWholeKey(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 16, 31, 33, 64} {
		if _, err := seal.New(make([]byte, size), chance(0)); err == nil || !strings.Contains(err.Error(), "32") {
			t.Errorf("a master key of %d bytes answers %v, not how many it has", size, err)
		}
	}
}

// The key is the caller's to wipe.
func TestNewCopiesTheKey(t *testing.T) {
	t.Parallel()
	master := slices.Repeat([]byte{7}, 32)
	k, err := seal.New(master, chance(0))
	if err != nil {
		t.Fatal(err)
	}
	before := k.Derive("tokens")
	clear(master)
	if !bytes.Equal(before, k.Derive("tokens")) {
		t.Error("the key changed with the caller's copy")
	}
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		k := newKey(1)
		text, place := rapid.String().Draw(t, "text"), rapid.String().Draw(t, "place")
		sealed, err := k.Seal(text, place)
		if err != nil {
			t.Fatal(err)
		}
		if len(text) > 3 && strings.Contains(sealed, text) {
			t.Errorf("%q shows through in %s", text, sealed)
		}
		if got, err := k.Open(sealed, place); err != nil || got != text {
			t.Errorf("Open answers %q and %v, want %q", got, err, text)
		}
		if again, _ := k.Seal(text, place); again == sealed {
			t.Errorf("sealed twice, %q looks the same", text)
		}
		// Another key made of the same master key is the same key.
		if got, err := newKey(1).Open(sealed, place); err != nil || got != text {
			t.Errorf("with an equal key Open answers %q and %v", got, err)
		}
	})
}

func TestOpensInItsPlaceOnly(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		k := newKey(1)
		sealed, err := k.Seal("secret", rapid.String().Draw(t, "place"))
		if err != nil {
			t.Fatal(err)
		}
		place := rapid.String().Draw(t, "other place")
		if _, err := k.Open(sealed, place); err == nil {
			if again, _ := k.Seal("", place); again == "" {
				t.Fatal("unreachable")
			}
		}
	})
}
