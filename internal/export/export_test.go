package export_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bastide-cloud/bastide/internal/export"
	"github.com/bastide-cloud/bastide/internal/resource"
	"github.com/bastide-cloud/bastide/internal/store"
)

var header = export.Header{Region: "eu-west-2", Time: time.Unix(1_700_000_000, 0).UTC(), Secrets: export.Sealed}

// checked is a Recoder that lets documents pass as they are.
func checked() *export.Recoder { return export.NewRecoder(resource.Codecs(kinds, resource.AsIs), nil) }

func write(t testing.TB, h export.Header, recode *export.Recoder, batches ...store.Batch) string {
	t.Helper()
	var b bytes.Buffer
	if _, err := export.Write(&b, h, yielding(nil, batches...), recode); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func yielding(end error, batches ...store.Batch) iter.Seq2[store.Batch, error] {
	return func(yield func(store.Batch, error) bool) {
		for _, b := range batches {
			if !yield(b, nil) {
				return
			}
		}
		if end != nil {
			yield(store.Batch{}, end)
		}
	}
}

// read reads a dump, and puts the pieces of an account together.
func read(text string, recode *export.Recoder) (all []store.Batch, totals export.Totals, err error) {
	r, err := export.NewReader(strings.NewReader(text))
	if err != nil {
		return nil, export.Totals{}, err
	}
	for b, err := range r.Batches(recode) {
		if err != nil {
			return nil, r.Totals, err
		}
		if n := len(all); n > 0 && all[n-1].Account == b.Account {
			b.Rows = append(all[n-1].Rows, b.Rows...)
			all = all[:n-1]
		}
		all = append(all, b)
	}
	return all, r.Totals, nil
}

const version = 1 << 20 // what a seq counts in one version

func at(v, n uint64) uint64 { return v*version + n }

// example is a small region.
func example() []store.Batch {
	return []store.Batch{
		{Account: "100000000001", Version: 7, Pending: 1, Rows: []store.Row{
			{Kind: "House", ID: "house-1", Version: 7, Seq: at(6, 1), Doc: []byte(`{"HouseId":"house-1","Burning":true}`)},
			{Kind: "House", ID: "house-2", Version: 3, Seq: at(3, 2), Doc: []byte(`{"HouseId":"house-2", "Name": "k\u00fcche <ü> \/ 1.0" }`)},
			{Kind: "Key", ID: "key-1", Version: 2, Seq: at(2, 1), Doc: []byte(`{"KeyId":"key-1","Teeth":""}`)},
		}},
		{Account: "100000000002", Version: 1},
		{Account: "region", Version: 2, Pending: 1, Rows: []store.Row{
			{Kind: "House", ID: "house-1", Version: 2, Seq: at(1, 1), DeletedAt: 1_700_000_000_123, Doc: []byte(`{"HouseId":"house-1"}`)},
		}},
	}
}

const exampleText = `{"format":1,"region":"eu-west-2","time":"2023-11-14T22:13:20Z","secrets":"sealed"}
{"account":"100000000001","version":7,"unsettled":1}
{"kind":"House","id":"house-1","version":7,"seq":6291457,"doc":{"HouseId":"house-1","Burning":true}}
{"kind":"House","id":"house-2","version":3,"seq":3145730,"doc":{"HouseId":"house-2", "Name": "k\u00fcche <ü> \/ 1.0" }}
{"kind":"Key","id":"key-1","version":2,"seq":2097153,"doc":{"KeyId":"key-1","Teeth":""}}
{"account":"100000000002","version":1,"unsettled":0}
{"account":"region","version":2,"unsettled":1}
{"kind":"House","id":"house-1","version":2,"seq":1048577,"gone":1700000000123,"doc":{"HouseId":"house-1"}}
{"end":{"accounts":3,"rows":4}}
`

func TestFormat(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff(exampleText, write(t, header, nil, example()...)); diff != "" {
		t.Errorf("the lines are not those of the format (-want +got):\n%s", diff)
	}
	got, totals, err := read(exampleText, checked())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(example(), got); diff != "" {
		t.Errorf("the lines are read otherwise (-want +got):\n%s", diff)
	}
	if want := (export.Totals{Accounts: 3, Rows: 4}); totals != want {
		t.Errorf("%s were read, want %s", totals, want)
	}
	r, err := export.NewReader(strings.NewReader(exampleText))
	if err != nil {
		t.Fatal(err)
	}
	want := header
	want.Format = export.Format
	if r.Header != want {
		t.Errorf("the header is read as %+v, want %+v", r.Header, want)
	}
}

// Whatever a store holds, it is written and read to the byte.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	codecs := map[string]store.Codec{}
	for _, c := range resource.Codecs(kinds, resource.AsIs) {
		codecs[c.Name()] = c
	}
	text := rapid.StringN(1, 8, -1)
	values := map[string]*rapid.Generator[any]{
		"House": rapid.Custom(func(t *rapid.T) any {
			return &house{HouseId: House(text.Draw(t, "own id")), Name: rapid.String().Draw(t, "name"), Burning: rapid.Bool().Draw(t, "burning"),
				Floors: []floor{{rapid.Int().Draw(t, "floor"), ""}}}
		}),
		"Key": rapid.Custom(func(t *rapid.T) any { return &key{Teeth: resource.Secret(rapid.String().Draw(t, "teeth"))} }),
	}
	rapid.Check(t, func(t *rapid.T) {
		var want []store.Batch
		for _, account := range slices.Sorted(slices.Values(rapid.SliceOfNDistinct(text, 1, 4, rapid.ID).Draw(t, "accounts"))) {
			b := store.Batch{Account: account, Version: rapid.Uint64Range(1, 1<<40).Draw(t, "version")}
			seq := uint64(0)
			for _, name := range []string{"House", "Key"} {
				ids := rapid.SliceOfNDistinct(text, 0, 5, rapid.ID).Draw(t, "ids")
				slices.Sort(ids)
				for _, id := range ids {
					seq++
					v := values[name].Draw(t, "value")
					doc, err := codecs[name].Encode(store.Place{}, v)
					if err != nil {
						t.Fatal(err)
					}
					r := store.Row{Kind: name, ID: id, Version: rapid.Uint64Range(1, b.Version).Draw(t, "row version"), Seq: seq,
						DeletedAt: rapid.SampledFrom([]int64{0, 0, 1, 1_700_000_000_123}).Draw(t, "gone"), Doc: doc}
					if b.Rows = append(b.Rows, r); r.DeletedAt != 0 || codecs[name].Pending(v) {
						b.Pending++
					}
				}
			}
			want = append(want, b)
		}
		var out bytes.Buffer
		if _, err := export.Write(&out, header, yielding(nil, want...), nil); err != nil {
			t.Fatal(err)
		}
		got, _, err := read(out.String(), checked())
		if err != nil {
			t.Fatalf("what was written is not read: %v\n%s", err, out.String())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("what was written is read otherwise (-want +got):\n%s", diff)
		}
	})
}

// An account of many rows passes in pieces both ways, and nothing of it is lost.
func TestLargeAccount(t *testing.T) {
	t.Parallel()
	for _, rows := range []int{499, 500, 501, 1000, 1001} {
		var pieces []store.Batch
		for n := range rows {
			if n%300 == 0 {
				pieces = append(pieces, store.Batch{Account: "a", Version: 1, Pending: rows})
			}
			last := &pieces[len(pieces)-1]
			last.Rows = append(last.Rows, store.Row{Kind: "House", ID: fmt.Sprintf("%06d", n), Version: 1, Seq: at(1, uint64(n)),
				Doc: []byte(`{"Burning":true}`)})
		}
		text := write(t, header, nil, append(pieces, store.Batch{Account: "b", Version: 1})...)
		r, err := export.NewReader(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		got, largest, pending := 0, 0, 0
		for b, err := range r.Batches(checked()) {
			if err != nil {
				t.Fatal(err)
			}
			if got, largest = got+len(b.Rows), max(largest, len(b.Rows)); b.Account == "a" {
				pending = b.Pending
			}
		}
		if got != rows || pending != rows || largest > 500 {
			t.Errorf("of %d rows, all unsettled, %d were read, the last batch says %d, and the largest has %d", rows, got, pending, largest)
		}
	}
}

// What is pending is counted by this program, whatever the line says.
func TestUnsettledIsCounted(t *testing.T) {
	t.Parallel()
	got, _, err := read(strings.Replace(exampleText, `"unsettled":1`, `"unsettled":5`, 1), checked())
	if err != nil || got[0].Pending != 1 {
		t.Errorf("%v (%v), want 1 unsettled", got, err)
	}
}

func TestBrokenLines(t *testing.T) {
	t.Parallel()
	lines := strings.SplitAfter(strings.TrimSuffix(exampleText, "\n"), "\n")
	edit := func(n int, from, to string) string {
		text := slices.Clone(lines)
		if !strings.Contains(text[n-1], from) {
			t.Fatalf("line %d has no %q", n, from)
		}
		text[n-1] = strings.Replace(text[n-1], from, to, 1)
		return strings.Join(text, "")
	}
	order := func(ns ...int) (text string) {
		for _, n := range ns {
			text += strings.TrimSuffix(lines[n-1], "\n") + "\n"
		}
		return text
	}
	for _, c := range []struct {
		name, text, want string
	}{
		{"nothing", "", "there is nothing to import: the input is empty"},
		{"no header", order(2, 3), "line 1: this is not the first line"},
		{"another sort of file", "<html>\n", "line 1: this is not the first line"},
		{"a newer format", edit(1, `"format":1`, `"format":2,"news":true`), "line 1: the export is of format 2, and this program reads 1"},
		{"no word of secrets", edit(1, `"sealed"`, `""`), `line 1: secrets are ""`},
		{"no JSON", edit(3, `"version":7`, `"version":`), "line 3: "},
		{"two values", edit(3, "}}", "}} {}"), "line 3: "},
		{"an empty line", edit(4, lines[3], "\n"), "line 4: "},
		{"an unknown member", edit(3, `"version"`, `"colour":"red","version"`), `line 3: `},
		{"a member twice", edit(3, `"version"`, `"kind":"House","version"`), `line 3: `},
		{"another type", edit(3, `"seq":6291457`, `"seq":"6291457"`), "line 3: "},
		{"a negative version", edit(3, `"version":7`, `"version":-7`), "line 3: "},
		{"neither account nor row", edit(3, lines[2], "{}\n"), "line 3: a line has one of"},
		{"an account and a row", edit(3, `{"kind"`, `{"account":"a","kind"`), "line 3: a line has one of"},
		{"a row before its account", order(1, 3), "line 2: a row comes before the first account"},
		{"an account without an id", edit(2, "100000000001", ""), "line 2: an account has an id"},
		{"an account without a version", edit(2, `"version":7,`, ``), "line 2: an account has an id and a version"},
		{"a row without a kind", edit(3, `"kind":"House",`, ``), "line 3: a row has a kind"},
		{"a row without an id", edit(3, `"id":"house-1",`, ``), "line 3: a row has a kind, an id"},
		{"a row without a seq", edit(3, `,"seq":6291457`, ``), "line 3: a row has a kind, an id and a seq"},
		{"a row without a document", edit(3, `,"doc":{"HouseId":"house-1","Burning":true}`, ``), "line 3: a line has one of"},
		{"a document that is null", edit(3, `{"HouseId":"house-1","Burning":true}`, `null`), "line 3: the document of a row is an object"},
		{"a document that is a list", edit(3, `{"HouseId":"house-1","Burning":true}`, `[]`), "line 3: the document of a row is an object"},
		{"a document with an unknown member", edit(3, `"Burning"`, `"Colour"`), "line 3: the document of House house-1: "},
		{"an unknown kind", edit(3, `"kind":"House"`, `"kind":"Garden"`), "line 3: house-1 is of the kind Garden"},
		{"accounts out of order", order(1, 6, 2), `line 3: the account "100000000001" comes after "100000000002"`},
		{"an account twice", order(1, 2, 6, 6), `line 4: the account "100000000002" comes after "100000000002"`},
		{"ids out of order", order(1, 2, 4, 3), `line 4: House "house-1" comes after House "house-2"`},
		{"kinds out of order", order(1, 2, 5, 3), `line 4: House "house-1" comes after Key "key-1"`},
		{"a row twice", order(1, 2, 3, 3), `line 4: House "house-1" comes after House "house-1"`},
		{"a seq twice", edit(4, "3145730", "2097153"), "line 5: Key key-1 has the seq of another row"},
		{"a row that is newer than its account", edit(3, `"version":7`, `"version":8`),
			"line 3: House house-1 has the version 8, and its account only 7"},
		{"a seq that is yet to come", edit(3, "6291457", "8388609"), "line 3: House house-1 has the version 7, and a seq of version 8"},
		{"cut off after a line", strings.Join(lines[:4], ""), "the export was cut off after line 4"},
		{"cut off in a line", exampleText[:len(exampleText)-10], "line 9: "},
		{"only a header", lines[0], "the export was cut off after line 1"},
		{"a row lost", order(1, 2, 3, 5, 6, 7, 8, 9), "line 8: the export should have 4 rows of 3 accounts, and has 3 rows of 3 accounts"},
		{"an account lost", order(1, 2, 3, 4, 5, 7, 8, 9), "line 8: the export should have 4 rows of 3 accounts, and has 4 rows of 2 accounts"},
		{"two exports", exampleText + exampleText, "line 10: more follows the last line"},
		{"a line without end", edit(3, "{", strings.Repeat(" ", 65<<20)+"{"), "line 3 is longer than 64 MiB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			all, _, err := read(c.text, checked())
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("it was read as %v and %v, want the error %q", all, err, c.want)
			}
		})
	}
}

func TestInputThatBreaks(t *testing.T) {
	t.Parallel()
	broken := errors.New("the disk is gone")
	r, err := export.NewReader(io.MultiReader(strings.NewReader(exampleText[:200]), iotest.ErrReader(broken)))
	if err != nil {
		t.Fatal(err)
	}
	var last error
	for _, last = range r.Batches(checked()) {
	}
	if !errors.Is(last, broken) {
		t.Errorf("reading ended with %v, want %v", last, broken)
	}
	if _, err := export.NewReader(iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("reading began with %v, want %v", err, broken)
	}
}

func TestWriteRefuses(t *testing.T) {
	t.Parallel()
	one := func(r store.Row) iter.Seq2[store.Batch, error] {
		return yielding(nil, store.Batch{Account: "one", Version: 1, Rows: []store.Row{r}})
	}
	broken := errors.New("the store is broken")
	for _, c := range []struct {
		name    string
		batches iter.Seq2[store.Batch, error]
		recode  *export.Recoder
		want    string
	}{
		{"a document that is not JSON", one(store.Row{Kind: "House", ID: "house-1", Doc: []byte(`{"a":`)}), nil,
			"account one: the document of House house-1 is not JSON"},
		{"an id that is no text", one(store.Row{Kind: "House", ID: "\xff", Doc: []byte(`{}`)}), nil, `account one: the id "\xff"`},
		{"a kind that is no text", one(store.Row{Kind: "\xff", ID: "a", Doc: []byte(`{}`)}), nil, `account one: the kind "\xff"`},
		{"an account that is no text", yielding(nil, store.Batch{Account: "\xff"}), nil, `the account "\xff"`},
		{"a kind that is not known", one(store.Row{Kind: "Garden", ID: "a", Doc: []byte(`{}`)}), checked(),
			"account one: a is of the kind Garden, which this program does not know"},
		{"a store that breaks", yielding(broken, example()...), nil, broken.Error()},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			if _, err := export.Write(&out, header, c.batches, c.recode); err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("it was answered %v, want %q", err, c.want)
			}
			if strings.Contains(out.String(), `"end"`) {
				t.Errorf("the dump looks whole:\n%s", out.String())
			}
		})
	}
	if _, err := export.Write(brokenWriter{}, header, yielding(nil, example()...), nil); !errors.Is(err, errBrokenWriter) {
		t.Errorf("a disk that is full was answered %v", err)
	}
}

var errBrokenWriter = errors.New("no room is left")

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errBrokenWriter }

// Somebody who edited a document by hand left it on several lines.
func TestDocumentOfSeveralLines(t *testing.T) {
	t.Parallel()
	text := write(t, header, nil, store.Batch{Account: "one", Version: 1, Rows: []store.Row{
		{Kind: "House", ID: "house-1", Version: 1, Seq: at(1, 1), Doc: []byte("{\n\t\"HouseId\": \"house-1\",\n\t\"Name\": \"a\\nb\"\n}\n")},
	}})
	got, _, err := read(text, checked())
	if err != nil || string(got[0].Rows[0].Doc) != `{"HouseId":"house-1","Name":"a\nb"}` {
		t.Errorf("it was read as %v (%v)", got, err)
	}
}

// teeth makes keys whose secret is sealed with the master key of the seed.
func teeth(t testing.TB, seed byte, secret resource.Secret) store.Batch {
	t.Helper()
	codec := resource.Codecs([]resource.Any{keys}, masterKey(seed))[0]
	doc, err := codec.Encode(store.Place{Account: "one", Kind: "Key", ID: "key-1"}, &key{KeyId: "key-1", Teeth: secret})
	if err != nil {
		t.Fatal(err)
	}
	return store.Batch{Account: "one", Version: 1, Rows: []store.Row{
		{Kind: "House", ID: "house-1", Version: 1, Seq: at(1, 1), Doc: []byte(`{"Name": "as it was",  "HouseId":"house-1"}`)},
		{Kind: "Key", ID: "key-1", Version: 1, Seq: at(1, 2), Doc: doc},
	}}
}

// bites reads the secret of what teeth made, with a master key.
func bites(t testing.TB, seed byte, batches []store.Batch) resource.Secret {
	t.Helper()
	row := batches[0].Rows[1]
	v, err := resource.Codecs([]resource.Any{keys}, masterKey(seed))[0].Decode(store.Place{Account: "one", Kind: "Key", ID: row.ID}, row.Doc)
	if err != nil {
		t.Fatal(err)
	}
	return v.(*key).Teeth
}

const secret = "sharp and long"

// Sealed secrets pass as they are, and open with the key they were sealed with.
func TestSealedSecrets(t *testing.T) {
	t.Parallel()
	from := teeth(t, 1, secret)
	text := write(t, header, nil, from)
	if strings.Contains(text, secret) {
		t.Error("the secret is in the dump")
	}
	for _, recode := range []*export.Recoder{checked(), export.NewRecoder(resource.Codecs(kinds, masterKey(1)), nil)} {
		got, _, err := read(text, recode)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]store.Batch{from}, got); diff != "" {
			t.Errorf("the rows are not as they were (-want +got):\n%s", diff)
		}
	}
	if _, _, err := read(text, export.NewRecoder(resource.Codecs(kinds, masterKey(2)), nil)); err == nil ||
		!strings.HasPrefix(err.Error(), "line 4: the document of Key key-1: ") || !strings.Contains(err.Error(), "another master key") {
		t.Errorf("with another key it was answered %v", err)
	}
}

// Secrets in the open are sealed with the key of the other side. What has none
// stays as it was to the byte.
func TestOpenSecrets(t *testing.T) {
	t.Parallel()
	secretive := resource.WithSecrets(kinds)
	if len(secretive) != 1 || secretive[0].Facts().Name != "Key" {
		t.Fatalf("%v have secrets, want the keys", secretive)
	}
	from := teeth(t, 1, secret)
	h := header
	h.Secrets = export.Open
	text := write(t, h, export.NewRecoder(resource.Codecs(kinds, masterKey(1)), resource.Codecs(secretive, resource.AsIs)),
		teeth(t, 1, secret))
	if !strings.Contains(text, `"Teeth":"`+secret+`"`) {
		t.Errorf("the secret is not in the open:\n%s", text)
	}
	got, _, err := read(text, export.NewRecoder(resource.Codecs(kinds, resource.AsIs), resource.Codecs(secretive, masterKey(2))))
	if err != nil {
		t.Fatal(err)
	}
	if s := bites(t, 2, got); s != secret {
		t.Errorf("the secret has become %q", string(s))
	}
	if strings.Contains(string(got[0].Rows[1].Doc), secret) {
		t.Error("the secret is not sealed")
	}
	if !reflect.DeepEqual(got[0].Rows[0], from.Rows[0]) {
		t.Errorf("a row without secrets has become %s", got[0].Rows[0].Doc)
	}
}

func TestAhead(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	var got []string
	for b, err := range export.Ahead(yielding(broken, example()...)) {
		got = append(got, b.Account)
		if err != nil && !errors.Is(err, broken) || (err != nil) != (len(got) == 4) {
			t.Errorf("batch %d comes with %v", len(got), err)
		}
	}
	if want := []string{"100000000001", "100000000002", "region", ""}; !slices.Equal(got, want) {
		t.Errorf("the batches are of %q, want %q", got, want)
	}

	// Once the consumer has stopped, nobody reads on.
	made, over := 0, false
	for b := range export.Ahead(func(yield func(store.Batch, error) bool) {
		for made = 1; yield(store.Batch{Version: uint64(made)}, nil); made++ {
			if made > 1000 {
				t.Error("batches are made far ahead of their consumer")
				return
			}
		}
		over = true
	}) {
		if b.Version == 3 {
			break
		}
	}
	if !over || made < 3 {
		t.Errorf("the consumer stopped after 3 batches and %d were made; the source has ended: %t", made, over)
	}
}

// Whatever is accepted can be written and is read as the same.
func FuzzRead(f *testing.F) {
	f.Add(exampleText)
	f.Add(exampleText[:150])
	f.Add(write(f, header, nil, store.Batch{Account: "\u2028\x00", Version: 1,
		Rows: []store.Row{{Kind: "Key", ID: "\"\\", Version: 1, Seq: 1, Doc: []byte(`{}`)}}}))
	f.Fuzz(func(t *testing.T, text string) {
		first, _, err := read(text, checked())
		if err != nil {
			return
		}
		var out bytes.Buffer
		if _, err := export.Write(&out, header, yielding(nil, first...), nil); err != nil {
			t.Fatalf("what was read is not written: %v", err)
		}
		second, _, err := read(out.String(), checked())
		if err != nil {
			t.Fatalf("what was written is not read: %v\n%s", err, out.String())
		}
		if diff := cmp.Diff(first, second); diff != "" {
			t.Errorf("what was written is read otherwise (-first +second):\n%s", diff)
		}
	})
}
