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

func random(seed byte) io.Reader { return rand.NewChaCha8([32]byte{seed}) }

func newKey(master byte) *seal.Key {
	k, err := seal.New(slices.Repeat([]byte{master}, 32), random(master))
	if err != nil {
		panic(err)
	}
	return k
}

func TestNewNeedsAWholeKey(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 16, 31, 33, 64} {
		if _, err := seal.New(make([]byte, size), random(0)); err == nil || !strings.Contains(err.Error(), "32") {
			t.Errorf("a master key of %d bytes answers %v, not how many it has", size, err)
		}
	}
}

// The key is the caller's to wipe.
func TestNewCopiesTheKey(t *testing.T) {
	t.Parallel()
	master := slices.Repeat([]byte{7}, 32)
	k, err := seal.New(master, random(0))
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
		sealed := sealed(k, text, place)
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
		place := rapid.String().Draw(t, "place")
		other := rapid.String().Filter(func(s string) bool { return s != place }).Draw(t, "other place")
		refuses(t, newKey(1), sealed(newKey(1), "secret", place), other)
	})
}

func TestOpensWithItsKeyOnly(t *testing.T) {
	t.Parallel()
	refuses(t, newKey(2), sealed(newKey(1), "secret", "here"), "here")
}

func sealed(k *seal.Key, text, place string) string {
	s, err := k.Seal(text, place)
	if err != nil {
		panic(err)
	}
	return s
}

// refuses checks that a text does not open, and that the error shows nothing.
func refuses(t interface{ Errorf(string, ...any) }, k *seal.Key, sealed, place string) {
	text, err := k.Open(sealed, place)
	if err == nil || text != "" {
		t.Errorf("%q opened as %q", sealed, text)
	} else if strings.Contains(err.Error(), "secret of") || !strings.Contains(err.Error(), "sealed text") {
		t.Errorf("the error is %q", err)
	}
}

func TestTampering(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		k := newKey(1)
		box, err := base64.StdEncoding.DecodeString(sealed(k, "secret of "+rapid.String().Draw(t, "text"), "here"))
		if err != nil {
			t.Fatal(err)
		}
		at := rapid.IntRange(0, len(box)-1).Draw(t, "at")
		switch rapid.SampledFrom([]string{"flip", "cut the end", "cut the beginning", "add", "swap"}).Draw(t, "how") {
		case "flip":
			box[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		case "cut the end":
			box = box[:at]
		case "cut the beginning":
			box = box[at+1:]
		case "add":
			box = slices.Insert(box, at, rapid.Byte().Draw(t, "byte"))
		case "swap":
			other, _ := base64.StdEncoding.DecodeString(sealed(k, "secret of another", "here"))
			copy(box, other[:12]) // the nonce
		}
		refuses(t, k, base64.StdEncoding.EncodeToString(box), "here")
	})
}

func FuzzOpen(f *testing.F) {
	k := newKey(1)
	genuine := sealed(k, "secret of the seed", "here")
	box, err := base64.StdEncoding.DecodeString(genuine)
	if err != nil {
		f.Fatal(err)
	}
	for _, text := range []string{"", "=", "AAAA", "not base64!", genuine, genuine[:len(genuine)-4], genuine + genuine,
		strings.Repeat("A", 100)} {
		f.Add(text, "here")
	}
	f.Add(genuine, "there")
	f.Fuzz(func(t *testing.T, text, place string) {
		// Only the bytes that were sealed open, however they are written down.
		if given, err := base64.StdEncoding.DecodeString(text); err == nil && bytes.Equal(given, box) && place == "here" {
			return
		}
		refuses(t, k, text, place)
	})
}

func TestSealNeedsItsSource(t *testing.T) {
	t.Parallel()
	dry := errors.New("dry")
	k, err := seal.New(make([]byte, 32), iotest.ErrReader(dry))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Seal("secret", "here"); !errors.Is(err, dry) {
		t.Errorf("without chance Seal answers %v, want %v", err, dry)
	}
}

func TestDerive(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, k := range []*seal.Key{newKey(1), newKey(2)} {
		for _, purpose := range []string{"", "tokens", "token", "sealing secrets at rest", "signatures"} {
			key := k.Derive(purpose)
			if len(key) != 32 {
				t.Errorf("the key for %q has %d bytes, want 32", purpose, len(key))
			}
			if !bytes.Equal(key, k.Derive(purpose)) {
				t.Errorf("the key for %q is another the second time", purpose)
			}
			if before, ok := seen[string(key)]; ok {
				t.Errorf("the keys for %q and %q are the same", before, purpose)
			}
			seen[string(key)] = purpose
		}
	}
}

func TestLoadMakesAKey(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "new", "master.key")
	made, err := seal.Load(file, true, random(1))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{file: 0o600, filepath.Dir(file): os.ModeDir | 0o700} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != want {
			t.Errorf("the mode of %s is %s, want %s", filepath.Base(path), info.Mode(), want)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if master, err := hex.DecodeString(strings.TrimSuffix(string(text), "\n")); err != nil || len(master) != 32 {
		t.Errorf("the file has %d bytes and decodes with %v", len(text), err)
	}
	if all, _ := os.ReadDir(filepath.Dir(file)); len(all) != 1 {
		t.Errorf("beside the key there is something else: %v", all)
	}

	// Whoever loads it next has the same key, and makes no other.
	for _, create := range []bool{true, false} {
		again, err := seal.Load(file, create, random(2))
		if err != nil {
			t.Fatal(err)
		}
		if text, err := again.Open(sealed(made, "secret", "here"), "here"); err != nil || text != "secret" {
			t.Errorf("the key that was made and the one that was read do not agree: %q and %v", text, err)
		}
	}
}

// A file that was left behind half written, or that others may read, does not
// become the key.
func TestLoadTrustsNoLeftovers(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "master.key")
	if err := os.WriteFile(file+".new", []byte("half"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := seal.Load(file, true, random(1)); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Errorf("the key has the mode %s and %v, want 0600", info.Mode(), err)
	}
}

// together is a random source that waits until all who share the group read.
type together struct {
	io.Reader
	all  *sync.WaitGroup
	once sync.Once
}

func (r *together) Read(p []byte) (int, error) {
	r.once.Do(func() {
		r.all.Done()
		r.all.Wait()
	})
	return r.Reader.Read(p)
}

// Those who find no key at the same time agree on one.
func TestLoadAtTheSameTime(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "master.key")
	keys := make([]*seal.Key, 4)
	var choosing, all sync.WaitGroup
	choosing.Add(len(keys))
	for i := range keys {
		all.Go(func() {
			k, err := seal.Load(file, true, &together{Reader: random(byte(i)), all: &choosing})
			if err != nil {
				t.Error(err)
			}
			keys[i] = k
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	different := map[string]bool{}
	for _, k := range append(keys, must(seal.Load(file, false, random(0)))) {
		different[string(k.Derive("comparison"))] = true
	}
	if len(different) != 1 {
		t.Errorf("there are %d different keys", len(different))
	}
}

func must(k *seal.Key, err error) *seal.Key {
	if err != nil {
		panic(err)
	}
	return k
}

func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	digits := strings.Repeat("0123456789abcdef", 4)
	for _, test := range []struct {
		name, text string
		ok         bool
	}{
		{"digits", digits, true},
		{"digits and a line's end", digits + "\r\n", true},
		{"upper case", strings.ToUpper(digits), true},
		{"nothing", "", false},
		{"spaces", " \n", false},
		{"too few digits", digits[:62], false},
		{"half a byte", digits[:63], false},
		{"too many digits", digits + "00", false},
		{"two lines", digits[:32] + "\n" + digits[32:], false},
		{"another symbol", digits[:63] + "g", false},
		{"the bytes themselves", strings.Repeat("k", 32), false},
		{"base64", base64.StdEncoding.EncodeToString([]byte(digits[:32])), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "master.key")
			if err := os.WriteFile(file, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := seal.Load(file, true, random(1))
			if test.ok {
				if err != nil {
					t.Errorf("Load answers %v", err)
				}
				return
			}
			if want := fmt.Sprintf("the master key in %s is not 64 hexadecimal digits", file); err == nil || err.Error() != want {
				t.Errorf("Load answers %v, want %s", err, want)
			}
			// Perhaps somebody can repair it.
			if text, err := os.ReadFile(file); err != nil || string(text) != test.text {
				t.Errorf("the file is now %q and %v", text, err)
			}
		})
	}
}

func TestLoadWithoutAFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	taken := filepath.Join(dir, "file")
	if err := os.WriteFile(taken, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dry := errors.New("dry")
	for _, test := range []struct {
		name, file string
		create     bool
		random     io.Reader
		is         error // nil: any
		says       string
	}{
		{"that may not be made", filepath.Join(dir, "absent.key"), false, random(1), os.ErrNotExist, "reading the master key: "},
		{"that is a directory", dir, true, random(1), nil, "reading the master key: "},
		{"in what is no directory", filepath.Join(taken, "master.key"), true, random(1), nil, "master key: "},
		{"and without chance", filepath.Join(dir, "dry.key"), true, iotest.ErrReader(dry), dry, "choosing a master key: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := seal.Load(test.file, test.create, test.random)
			if err == nil || test.is != nil && !errors.Is(err, test.is) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("Load answers %v, want %q and %v", err, test.says, test.is)
			}
			if _, err := os.Stat(test.file); test.file != dir && err == nil {
				t.Errorf("Load has left %s", test.file)
			}
		})
	}
}
