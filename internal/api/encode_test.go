package api

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// parcel has a field of every sort that encoding/json writes as we do.
type parcel struct {
	Text    string
	Named   species
	Number  int
	Wide    int64
	Real    float64
	Yes     bool
	Texts   []string
	Numbers []int
	Layers  []Layer
	Layer   Layer
	Maybe   *string
	Inner   *parcelPart
	Inners  []*parcelPart
	Embedded
}

type parcelPart struct {
	Text string
	Tags []Tag
}

// Embedded is shown as part of what embeds it.
type Embedded struct{ Deep string }

// anyText draws texts of all sorts, those included that are no UTF-8.
var anyText = rapid.OneOf(
	rapid.String(), rapid.StringMatching(`[ -~]{0,30}`),
	rapid.StringOf(rapid.RuneFrom([]rune{'a', '"', '\\', '\n', 0, 0x7f, 0x80, '<', 'é', '\u2028', '🌳'})),
	rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
)

func TestEncodeAgreesWithEncodingJSON(t *testing.T) {
	t.Parallel()
	inner := rapid.Custom(func(t *rapid.T) *parcelPart {
		return &parcelPart{anyText.Draw(t, "inner text"), []Tag{{Key: anyText.Draw(t, "key"), Value: anyText.Draw(t, "value")}}}
	})
	rapid.Check(t, func(t *rapid.T) {
		v := parcel{
			Text: anyText.Draw(t, "text"), Named: species(anyText.Draw(t, "named")), Number: rapid.Int().Draw(t, "number"),
			Wide: rapid.Int64().Draw(t, "wide"), Real: rapid.Float64().Draw(t, "real"), Yes: rapid.Bool().Draw(t, "yes"),
			Texts: rapid.SliceOf(anyText).Draw(t, "texts"), Numbers: rapid.SliceOf(rapid.Int()).Draw(t, "numbers"),
			Layers: []Layer{{rapid.Int().Draw(t, "depth")}}, Layer: Layer{rapid.Int().Draw(t, "depth")},
			Inners: rapid.SliceOfN(inner, 0, 3).Draw(t, "inners"), Embedded: Embedded{anyText.Draw(t, "deep")},
		}
		if rapid.Bool().Draw(t, "maybe") {
			v.Maybe, v.Inner = &v.Text, inner.Draw(t, "inner")
		}
		theirs, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		const before = "[before]"
		ours, ok := bytes.CutPrefix(Append([]byte(before), reflect.ValueOf(v), Latest), []byte(before))
		if !ok || !json.Valid(ours) {
			t.Fatalf("this is no JSON: %s", ours)
		}
		var want, got parcel
		if err := json.Unmarshal(theirs, &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(ours, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("%s says otherwise than encoding/json (-theirs +ours):\n%s", ours, diff)
		}
	})
}

// crate shows what fields that say nothing do.
type crate struct {
	Text     string
	Number   int
	Yes      bool
	List     []string
	PlotId   plotID
	Made     DateTime
	Bought   OffsetDateTime
	Maybe    *string
	Quiet    string   `wire:"omitempty"`
	Silent   []string `wire:"omitempty"`
	Never    string   `wire:"-"`
	Computed int      `json:"-"`
}

func TestEncodeLeavesOutWhatSaysNothing(t *testing.T) {
	t.Parallel()
	text := ""
	for name, tt := range map[string]struct {
		v    any
		want string
	}{
		"nothing": {crate{Never: "secret", Silent: []string{}}, `{"Text":"","Number":0,"Yes":false,"List":[],"Computed":0}`},
		"everything": {
			&crate{
				Text: "a", Number: -1, Yes: true, List: []string{"b", ""}, PlotId: "plot-12345678", Made: 1_795_169_045_007,
				Bought: 1_795_169_045_670, Maybe: &text, Quiet: "c", Silent: []string{""}, Computed: 4,
			},
			`{"Text":"a","Number":-1,"Yes":true,"List":["b",""],"PlotId":"plot-12345678","Made":"2026-11-20T10:04:05.007Z",` +
				`"Bought":"2026-11-20T10:04:05.670+0000","Maybe":"","Quiet":"c","Silent":[""],"Computed":4}`,
		},
		"no list of structs":   {struct{ Plots []*plot }{}, `{"Plots":[]}`},
		"an empty object":      {struct{ PlotId plotID }{}, `{}`},
		"no fields":            {struct{}{}, `{}`},
		"a list of lists":      {[][]int{nil, {1, 2}}, `[[],[1,2]]`},
		"a list of ids":        {[]plotID{"", "plot-12345678"}, `["","plot-12345678"]`},
		"a number with digits": {[]float64{0.5, 15, 1e21, -1e-7}, `[0.5,15,1000000000000000000000,-0.0000001]`},
		"a time before 1970":   {[]DateTime{-1}, `["1969-12-31T23:59:59.999Z"]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := string(Append(nil, reflect.ValueOf(tt.v), Latest)); got != tt.want {
				t.Errorf("encoded as %s, want %s", got, tt.want)
			}
		})
	}
}

func TestTextSize(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := anyText.Draw(t, "text")
		if got, is := TextSize(s), len(appendString(nil, s)); got < is || got > 6*is {
			t.Errorf("%q takes %d bytes, and at most %d by its size", s, is, got)
		}
	})
	for s, want := range map[string]int{"": 2, "plain": 7, `a "b"`: 9, "é": 4, "\x00": 8, "\xff": 5} {
		if got := TextSize(s); got != want {
			t.Errorf("the size of %q is %d, want %d", s, got, want)
		}
	}
}

func TestAppendStringEverywhere(t *testing.T) {
	t.Parallel()
	// Each byte at each place of a word, and after it.
	for c := range 256 {
		for at := range 17 {
			s := strings.Repeat("a", at) + string([]byte{byte(c)}) + strings.Repeat("b", 16-at)
			var got string
			if err := json.Unmarshal(appendString(nil, s), &got); err != nil || got != strings.ToValidUTF8(s, "\uFFFD") {
				t.Fatalf("the byte %#x at %d becomes %q, %v", c, at, got, err)
			}
		}
	}
}

// AccessKey bears the name of a schema whose ExpirationDate came with 1.28.5,
// and its Tag with 1.40.1.
type AccessKey struct {
	ExpirationDate string
	State          keyState
	Tag            string
}

type keyState string

func (s keyState) At(v Version) string {
	if v.Before(Version{1, 28, 5}) {
		return strings.ToLower(string(s))
	}
	return string(s)
}

func TestEncodeByVersion(t *testing.T) {
	t.Parallel()
	key := struct{ AccessKeys []*AccessKey }{[]*AccessKey{{"tomorrow", "ACTIVE", "t"}}}
	for version, want := range map[string]string{
		"1.0":    `{"AccessKeys":[{"State":"active"}]}`,
		"1.1":    `{"AccessKeys":[{"State":"active"}]}`,
		"1.27.9": `{"AccessKeys":[{"State":"active"}]}`,
		"1.28.5": `{"AccessKeys":[{"ExpirationDate":"tomorrow","State":"ACTIVE"}]}`,
		"1.35":   `{"AccessKeys":[{"ExpirationDate":"tomorrow","State":"ACTIVE"}]}`,
		"1.42.0": `{"AccessKeys":[{"ExpirationDate":"tomorrow","State":"ACTIVE","Tag":"t"}]}`,
		"1.99.1": `{"AccessKeys":[{"ExpirationDate":"tomorrow","State":"ACTIVE","Tag":"t"}]}`,
	} {
		v, err := ParseVersion(version)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(Append(nil, reflect.ValueOf(key), v)); got != want {
			t.Errorf("%s shows %s, want %s", version, got, want)
		}
	}
}

func TestEncodeAnAnswerByItsSchema(t *testing.T) {
	t.Parallel()
	answer := reflect.ValueOf(struct {
		Tags []*Tag
		NextPage
	}{NextPage: NextPage{NextPageToken: "token"}})
	for _, tt := range []struct{ version, want string }{
		{"1.28.8", `{"Tags":[]}`}, {"1.29.3", `{"Tags":[],"NextPageToken":"token"}`},
	} {
		v, err := ParseVersion(tt.version)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(AppendAs(nil, answer, "ReadTagsResponse", v)); got != tt.want {
			t.Errorf("%s shows %s, want %s", tt.version, got, tt.want)
		}
	}
}

// TestVersionsMakeNoNewShapes makes sure that callers who ask for one version
// after the other fill no memory.
func TestVersionsMakeNoNewShapes(t *testing.T) {
	t.Parallel()
	type rare struct{ Text string }
	for minor := range 200 {
		for patch := range 20 {
			Append(nil, reflect.ValueOf(rare{}), Version{1, minor, patch})
		}
	}
	n := 0
	encoders.Range(func(key, _ any) bool {
		if key.(shape).t == reflect.TypeFor[rare]() {
			n++
		}
		return true
	})
	if n > len(Versions) {
		t.Errorf("%d shapes of one type are kept, want at most %d", n, len(Versions))
	}
}

// A type has the name of the contract that its first field says, in requests and
// answers alike.
func TestSchemaNames(t *testing.T) {
	t.Parallel()
	type plan struct {
		_    struct{} `schema:"ReadTagsRequest"`
		Name string
	}
	type bare struct{ _ struct{} }
	for of, want := range map[reflect.Type]string{
		reflect.TypeFor[plan](): "ReadTagsRequest", reflect.TypeFor[bare](): "bare",
		reflect.TypeFor[string](): "string", reflect.TypeFor[struct{}](): "",
	} {
		if got := SchemaName(of); got != want {
			t.Errorf("%s is called %q, want %q", of, got, want)
		}
	}
	if got := string(Append(nil, reflect.ValueOf(&plan{Name: "a"}), Latest)); got != `{"Name":"a"}` {
		t.Errorf("it is shown as %s", got)
	}
	var p plan
	if _, err := decode([]byte(`{"Name": "b"}`), Latest, reflect.ValueOf(&p).Elem()); err != nil || p.Name != "b" {
		t.Errorf("it is read as %+v, %v", p, err)
	}
}
