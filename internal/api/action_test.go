package api

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// A garden is on a plot and has beds. It has a field of every sort that a
// filter can select by.
type garden struct {
	GardenId gardenID
	PlotId   plotID
	Title    string
	Berry    string
	Box      string
	Open     bool
	Size     int
	Share    float64
	Planted  DateTime
	Beds     []bed
	Area     int `json:"-"` // computed: ten times the size
	Tags     []Tag
}

type bed struct {
	Flower  string
	Rows    int
	Flowers int `json:"-"` // computed: seven in a row
}

type (
	plotID   string
	gardenID string
)

func (plotID) Form() resource.Form {
	return resource.Form{Prefix: "plot-", Length: 8, Alphabet: resource.Hexadecimal}
}
func (gardenID) Form() resource.Form {
	return resource.Form{Prefix: "garden-", Length: 8, Alphabet: resource.Hexadecimal}
}

// The requests of the actions on gardens.
type (
	CreateGardenRequest struct {
		PlotId plotID `api:"required"`
		Title  string `api:"required"`
	}
	ReadGardensRequest struct {
		Filters *FiltersGarden
		Page
	}
	ReadGardenersRequest struct {
		Filters *FiltersGarden
		IndexPage
	}
	UpdateGardenRequest struct {
		GardenId gardenID `api:"required"`
		Size     int
	}
	DeleteGardenRequest struct {
		GardenId gardenID `api:"required"`
	}
	DeletePlotRequest struct {
		PlotId plotID `api:"required"`
	}
	CheckGardensRequest  struct{}
	CheckGuestsRequest   struct{ Name string }
	CheckGardensResponse struct{ Count int }
	WaterGardensRequest  struct{ Fail bool }
	WaterGardensResponse struct{ Watered []string }
	DigGardensRequest    struct{ Deep bool }
	DigGardensResponse   struct{ Stones []string }
	// ReadParksRequest lists own gardens and the open ones of bob.
	ReadParksRequest struct {
		Filters *FiltersGarden
		Page
	}
	// ReadSubnetsRequest bears the name of a schema that had no pages in 1.1.
	ReadSubnetsRequest struct{ Page }
	ReadSeasonsRequest struct {
		Filters *FiltersSeason
		Page
	}
	FiltersSeason    struct{ Names []string }
	season           struct{ Name string }
	ReadYearsRequest struct{ Page }
	year             struct{ Names []string }
)

// FiltersGarden selects gardens in every way there is.
type FiltersGarden struct {
	GardenIds  []gardenID
	PlotIds    []plotID
	Titles     []string `match:"glob"`
	Berries    []string
	Boxes      []string
	Open       *bool
	Sizes      []int
	Shares     []float64
	Planted    *DateTime
	From       *DateTime `path:"Planted" match:"from"`
	To         *DateTime `path:"Planted" match:"to"`
	BedFlowers []string  `path:"Beds.Flower"`
	BedRows    []int     `path:"Beds.Rows"`
	InBeds     []int     `path:"Beds.Flowers"`
	Areas      []int
	Labels     []resource.Tag
	TagFilters
}

// hidden is the title of a garden that nobody is shown.
const hidden = "secret"

func (g *garden) Hidden() bool { return g.Title == hidden }

// town is a region with plots and gardens.
type town struct {
	rapid.TB
	api     *API
	db      *resource.DB
	plots   *resource.Kind[plot, plotID]
	gardens *resource.Kind[garden, gardenID]

	dug, carried int // how often the parts of DigGardens ran
}

var alice, bob = resource.Caller{Account: "123456789012"}, resource.Caller{Account: "210987654321"}

// townPager has a key that nobody else knows.
var townPager = NewPager([]byte("the town's key"))

func newTown(t rapid.TB) *town {
	w := &town{
		TB:      t,
		plots:   &resource.Kind[plot, plotID]{Name: "Plot"},
		gardens: &resource.Kind[garden, gardenID]{Name: "Garden", Tag: "garden", Unique: []string{"Title"}, Conflict: apierror.AlreadyExists},
	}
	w.db = resource.Open(resource.Options{
		Kinds: []resource.Any{w.plots, w.gardens}, Now: func() time.Time { return time.UnixMilli(1_800_000_000_000) },
		Rand: rand.NewChaCha8([32]byte{}), Log: slog.New(slog.DiscardHandler),
	})
	gardens := NewResource(w.gardens, func(_ *resource.Tx, g *garden) *garden {
		g.Area = 10 * g.Size
		g.Beds = slices.Clone(g.Beds)
		for i := range g.Beds {
			g.Beds[i].Flowers = 7 * g.Beds[i].Rows
		}
		return g
	})
	seasons := []season{{"spring"}, {"summer"}, {"autumn"}, {"winter"}}
	w.api = New([]Action{
		Create(gardens, func(_ *resource.Tx, req *CreateGardenRequest) (*garden, error) {
			if req.Title == "Eden" {
				return nil, apierror.InvalidValue.Errorf("There is one already.")
			}
			return &garden{PlotId: req.PlotId, Title: req.Title}, nil
		}, func(tx *resource.Tx, g *garden) error {
			switch g.Title {
			case "walled":
				return apierror.InvalidState.Errorf("No stones are left to wall %s.", g.GardenId)
			case "double":
				return w.gardens.Insert(tx, &garden{PlotId: g.PlotId, Title: "the other of " + string(g.GardenId)})
			}
			return nil
		}),
		Read[ReadGardensRequest](gardens),
		Read[ReadGardenersRequest](gardens),
		Read[ReadSubnetsRequest](gardens),
		Read[ReadParksRequest](gardens.Also(func(tx *resource.Tx, ids []string) iter.Seq[Foreign[garden]] {
			return func(yield func(Foreign[garden]) bool) {
				owner := tx.In(bob.Account)
				for at, g := range w.gardens.Each(owner, 0) {
					copied := *g
					asked := ids == nil || slices.Contains(ids, string(g.GardenId))
					if g.Open && asked && !yield(Foreign[garden]{Position{Seq: 1<<32 + at}, owner, &copied}) {
						return
					}
				}
			}
		})),
		Update(gardens, func(_ *resource.Tx, g *garden, req *UpdateGardenRequest) error {
			if req.Size < 0 {
				return apierror.InvalidValue.Errorf("A garden does not shrink to %d.", req.Size)
			}
			g.Size = req.Size
			return nil
		}),
		Delete[DeleteGardenRequest](gardens, func(_ *resource.Tx, g *garden) error {
			if g.Size > 100 {
				return apierror.InvalidState.Errorf("It is too large to go.")
			}
			return nil
		}),
		Delete[DeletePlotRequest](NewResource(w.plots, Plain)),
		Do("Garden", func(tx *resource.Tx, _ *CheckGardensRequest) (*CheckGardensResponse, error) {
			return &CheckGardensResponse{w.gardens.Count(tx)}, nil
		}),
		Do("Garden", func(tx *resource.Tx, req *WaterGardensRequest) (*WaterGardensResponse, error) {
			resp := &WaterGardensResponse{}
			for g := range w.gardens.All(tx) {
				g.Size++
				if err := w.gardens.Put(tx, g); err != nil {
					return nil, err
				}
				resp.Watered = append(resp.Watered, g.Title)
			}
			if req.Fail {
				return nil, apierror.InvalidState.Errorf("It rains.")
			}
			return resp, nil
		}),
		DoPrepared("Garden", func(_ *resource.Tx, req *DigGardensRequest) ([]string, error) {
			w.dug++
			if req.Deep {
				return nil, apierror.InvalidState.Errorf("There is rock.")
			}
			return []string{fmt.Sprint("stone ", w.dug)}, nil
		}, func(tx *resource.Tx, _ *DigGardensRequest, stones []string) (*DigGardensResponse, error) {
			w.carried++
			// Looking at an account that is not in memory yet makes a rule run again.
			w.gardens.Count(tx.In(bob.Account))
			return &DigGardensResponse{stones}, nil
		}),
		DoWithoutTx("Garden", func(ctx context.Context, caller resource.Caller, req *CheckGuestsRequest) error {
			if req.Name == "" {
				return apierror.InvalidValue.Errorf("Guests have names.")
			}
			// What a rule in a transaction could only do by being in two at once.
			return w.db.Update(ctx, caller, func(tx *resource.Tx) error { return w.gardens.Insert(tx, &garden{Title: req.Name}) })
		}),
		Read[ReadSeasonsRequest](Fixed("Season", "Seasons", seasons)),
		ReadGrouped[ReadYearsRequest](Fixed("Season", "Years", seasons), func(shown []*season) []*year {
			y := &year{}
			for _, s := range shown {
				y.Names = append(y.Names, s.Name)
			}
			return []*year{y}
		}),
	}, townPager)
	return w
}

// do runs a rule for alice.
func (w *town) do(rule func(*resource.Tx) error) {
	w.Helper()
	if err := w.db.Update(context.Background(), alice, rule); err != nil {
		w.Fatal(err)
	}
}

// plant makes a garden, and a plot for it if it names none.
func (w *town) plant(g *garden) *garden {
	w.Helper()
	w.do(func(tx *resource.Tx) error {
		if g.PlotId == "" {
			p := &plot{}
			if err := w.plots.Insert(tx, p); err != nil {
				return err
			}
			g.PlotId = p.PlotId
		}
		return w.gardens.Insert(tx, g)
	})
	return g
}

// call calls an action and answers JSON.
func (w *town) call(caller resource.Caller, version, action, body string) (string, error) {
	w.Helper()
	v, err := ParseVersion(version)
	if err != nil {
		w.Fatal(err)
	}
	a, err := w.api.Find(action, v)
	if err != nil {
		return "", err
	}
	call, err := w.api.Bind(a, v, []byte(body))
	if err != nil {
		return "", err
	}
	response, err := call.Run(context.Background(), w.db, caller)
	if err != nil {
		return "", err
	}
	return string(Append(nil, response, v)), nil
}

// ask is call for alice, of what must succeed.
func (w *town) ask(action, body string) string {
	w.Helper()
	answer, err := w.call(alice, "1.42.0", action, body)
	if err != nil {
		w.Fatalf("%s %s: %v", action, body, err)
	}
	return answer
}

// What a view hides cannot be told from what is not there.
func TestHiddenIsAbsent(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	gone := string(w.plant(&garden{Title: hidden}).GardenId)
	if got := w.ask("ReadGardens", `{}`); !strings.Contains(got, `"Gardens":[]`) {
		t.Errorf("listed is %s", got)
	}
	for _, action := range []string{"UpdateGarden", "DeleteGarden"} {
		_, absent := w.call(alice, "1.42.0", action, `{"GardenId":"garden-00000000"}`)
		_, err := w.call(alice, "1.42.0", action, `{"GardenId":"`+gone+`"}`)
		if err == nil || strings.ReplaceAll(err.Error(), gone, "garden-00000000") != absent.Error() {
			t.Errorf("%s answers %v, and of one that is not there %v", action, err, absent)
		}
	}
	w.do(func(tx *resource.Tx) error {
		if !w.gardens.Has(tx, gardenID(gone)) {
			t.Error("it is gone")
		}
		return nil
	})
}

func TestWhatIsPreparedIsPreparedOnce(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	if got := w.ask("DigGardens", ""); got != `{"Stones":["stone 1"]}` {
		t.Errorf("DigGardens answers %s", got)
	}
	if w.dug != 1 || w.carried < 2 {
		t.Errorf("it was prepared %d times and carried out %d times, want once and again", w.dug, w.carried)
	}
	if _, err := w.call(alice, "1.42.0", "DigGardens", `{"Deep":true}`); !apierror.InvalidState.Is(err) {
		t.Errorf("what cannot be prepared answers %v", err)
	}
}

func TestCreateReadUpdateDelete(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	p := w.plant(&garden{Title: "old"}).PlotId
	created := w.ask("CreateGarden", `{"PlotId":"`+string(p)+`","Title":"new"}`)
	var answer struct{ Garden garden }
	if err := json.Unmarshal([]byte(created), &answer); err != nil {
		t.Fatal(err)
	}
	id := string(answer.Garden.GardenId)
	updated := w.ask("UpdateGarden", `{"GardenId":"`+id+`","Size":4}`)
	if !strings.Contains(updated, `"Area":40`) {
		t.Errorf("the view has not seen the update: %s", updated)
	}
	read := w.ask("ReadGardens", `{"Filters":{"GardenIds":["`+id+`"]}}`)
	one := strings.TrimSuffix(strings.TrimPrefix(updated, `{"Garden":`), `}`)
	if want := `{"Gardens":[` + one + `]}`; read != want {
		t.Errorf("UpdateGarden and ReadGardens disagree:\n%s\n%s", want, read)
	}
	if got := w.ask("DeleteGarden", `{"GardenId":"`+id+`"}`); got != `{}` {
		t.Errorf("DeleteGarden answers %s, want {}", got)
	}
	if got := w.ask("ReadGardens", `{"Filters":{"GardenIds":["`+id+`"]}}`); got != `{"Gardens":[]}` {
		t.Errorf("after DeleteGarden there is %s", got)
	}
}

func TestCreateMakesWhatGoesAlong(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	of := w.plant(&garden{Title: "first"})
	w.ask("CreateGarden", `{"PlotId": "`+string(of.PlotId)+`", "Title": "double"}`)
	if got := w.ask("CheckGardens", "{}"); !strings.Contains(got, `"Count":3`) {
		t.Errorf("after one garden and a double one there are %s", got)
	}
	_, err := w.call(alice, "1.42.0", "CreateGarden", `{"PlotId": "`+string(of.PlotId)+`", "Title": "walled"}`)
	if !apierror.InvalidState.Is(err) {
		t.Errorf("a garden whose wall cannot be made: %v", err)
	}
	if got := w.ask("CheckGardens", "{}"); !strings.Contains(got, `"Count":3`) {
		t.Errorf("a garden without its wall stays: %s", got)
	}
}

func TestHiddenIsNotShown(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	w.plant(&garden{Title: "one"})
	w.plant(&garden{Title: hidden})
	w.plant(&garden{Title: "two"})
	for name, body := range map[string]string{
		"ReadGardens": `{}`, "ReadGardeners": `{"FirstItem": 1}`,
	} {
		if got := w.ask(name, body); strings.Contains(got, hidden) || !strings.Contains(got, `"two"`) {
			t.Errorf("%s %s answers %s", name, body, got)
		}
	}
	// A page is as full as without it.
	got := w.ask("ReadGardens", `{"ResultsPerPage": 2}`)
	if !strings.Contains(got, `"one"`) || !strings.Contains(got, `"two"`) || strings.Contains(got, "NextPageToken") {
		t.Errorf("a page of both that are shown is %s", got)
	}
}

// What others show comes after one's own, in pages and selected alike.
func TestAlsoListsWhatOthersShow(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	w.plant(&garden{Title: "own", Size: 1})
	ids := map[string]gardenID{}
	err := w.db.Update(t.Context(), bob, func(tx *resource.Tx) error {
		p := &plot{}
		if err := w.plots.Insert(tx, p); err != nil {
			return err
		}
		for title, open := range map[string]bool{"park": true, "yard": false, hidden: true} {
			g := &garden{PlotId: p.PlotId, Title: title, Open: open, Size: 2}
			if err := w.gardens.Insert(tx, g); err != nil {
				return err
			}
			ids[title] = g.GardenId
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string][]string{
		`{}`:                                    {"own", "park"},
		`{"Filters": {"Sizes": [2]}}`:           {"park"},
		`{"Filters": {"Areas": [10]}}`:          {"own"},
		`{"Filters": {"Titles": ["p*", "y*"]}}`: {"park"},
		`{"Filters": {"GardenIds": ["` + string(ids["park"]) + `", "` + string(ids["yard"]) + `"]}}`: {"park"},
		`{"Filters": {"GardenIds": ["garden-00000000"]}}`:                                            nil,
	} {
		_, got := w.page("ReadParks", body)
		if !slices.Equal(got, want) {
			t.Errorf("%s lists %q, want %q", body, got, want)
		}
	}
	first, titles := w.page("ReadParks", `{"ResultsPerPage": 1}`)
	if !slices.Equal(titles, []string{"own"}) {
		t.Errorf("the first page has %q", titles)
	}
	if _, titles = w.page("ReadParks", `{"ResultsPerPage": 1, "NextPageToken": "`+first.NextPageToken+`"}`); !slices.Equal(titles,
		[]string{"park"}) {
		t.Errorf("the second page has %q", titles)
	}
}

func TestActionsRefuse(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	g := w.plant(&garden{Title: "old", Size: 200})
	id, p := string(g.GardenId), string(g.PlotId)
	for name, tt := range map[string]struct {
		caller       resource.Caller
		action, body string
		want         apierror.Code
	}{
		"what the rule refuses":       {alice, "CreateGarden", `{"PlotId":"` + p + `","Title":"Eden"}`, apierror.InvalidValue},
		"a name that is taken":        {alice, "CreateGarden", `{"PlotId":"` + p + `","Title":"old"}`, apierror.AlreadyExists},
		"a reference to nothing":      {alice, "CreateGarden", `{"PlotId":"plot-00000000","Title":"x"}`, apierror.ObjectNotFound},
		"an update that rules refuse": {alice, "UpdateGarden", `{"GardenId":"` + id + `","Size":-1}`, apierror.InvalidValue},
		"an update of nothing":        {alice, "UpdateGarden", `{"GardenId":"garden-00000000"}`, apierror.ObjectNotFound},
		"an update of another's":      {bob, "UpdateGarden", `{"GardenId":"` + id + `"}`, apierror.ObjectNotFound},
		"a delete that rules refuse":  {alice, "DeleteGarden", `{"GardenId":"` + id + `"}`, apierror.InvalidState},
		"a delete of nothing":         {alice, "DeleteGarden", `{"GardenId":"garden-00000000"}`, apierror.ObjectNotFound},
		"a delete of what is used":    {alice, "DeletePlot", `{"PlotId":"` + p + `"}`, apierror.InUse},
		"a verb that fails":           {alice, "WaterGardens", `{"Fail":true}`, apierror.InvalidState},
		"no such action":              {alice, "PaintGardens", `{}`, apierror.UnknownAction},
		"an unknown parameter":        {alice, "CheckGardens", `{"Filters":{}}`, apierror.UnknownParameter},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if answer, err := w.call(tt.caller, "1.42.0", tt.action, tt.body); !tt.want.Is(err) {
				t.Errorf("%s %s: answered %s, %v, want code %s", tt.action, tt.body, answer, err, tt.want)
			}
			// Nothing is left of what was refused.
			if got := w.ask("ReadGardens", ""); strings.Count(got, "GardenId") != 1 || !strings.Contains(got, `"Size":200`) {
				t.Errorf("afterwards there is %s", got)
			}
		})
	}
}

func TestDo(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	w.plant(&garden{Title: "a"})
	w.plant(&garden{Title: "b"})
	if got := w.ask("WaterGardens", ""); got != `{"Watered":["a","b"]}` {
		t.Errorf("WaterGardens answers %s", got)
	}
	if got := w.ask("CheckGardens", ""); got != `{"Count":2}` {
		t.Errorf("CheckGardens answers %s", got)
	}
	if got := w.ask("CheckGuests", `{"Name": "Bea"}`); got != "{}" {
		t.Errorf("CheckGuests answers %s", got)
	}
	if got := w.ask("CheckGardens", ""); got != `{"Count":3}` {
		t.Errorf("after CheckGuests, CheckGardens answers %s", got)
	}
	if got, err := w.call(alice, "1.42.0", "CheckGuests", "{}"); !apierror.InvalidValue.Is(err) {
		t.Errorf("CheckGuests without a name answers %s, %v", got, err)
	}
	for _, a := range w.api.Actions() {
		if reads := strings.HasPrefix(a.Name, "Read") || strings.HasPrefix(a.Name, "Check"); a.Reads != reads {
			t.Errorf("%s is said to change nothing: %v", a.Name, a.Reads)
		}
	}
}

func TestBindMarksDryRuns(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	a, err := w.api.Find("CheckGardens", Latest)
	if err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string]bool{`{"DryRun":true}`: true, `{"DryRun":false}`: false, ``: false} {
		call, err := w.api.Bind(a, Latest, []byte(body))
		if err != nil || call.DryRun != want {
			t.Errorf("%q is a dry run: %v, %v, want %v", body, call.DryRun, err, want)
		}
	}
}

func TestFindByVersion(t *testing.T) {
	t.Parallel()
	actions := []Action{{Name: "CreateCa"}, {Name: "SendResetPasswordEmail"}, {Name: "ReadVms"}}
	set := New(actions, townPager)
	for _, tt := range []struct {
		action, version string
		ok              bool
	}{
		{"ReadVms", "1.1", true}, {"ReadVms", "1.42.0", true}, {"ReadVms", "1.0", true},
		{"CreateCa", "1.1", false}, {"CreateCa", "1.27", false}, {"CreateCa", "1.28.5", true}, {"CreateCa", "1.99", true},
		{"SendResetPasswordEmail", "1.1", true}, {"SendResetPasswordEmail", "1.42.0", true}, // kept
	} {
		v, err := ParseVersion(tt.version)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := set.Find(tt.action, v); (err == nil) != tt.ok {
			t.Errorf("%s in %s: %v, want it there: %v", tt.action, tt.version, err, tt.ok)
		}
	}
}

func TestMistakesStopTheProgram(t *testing.T) {
	t.Parallel()
	type nameless struct{}
	w := newTown(t)
	gardens := NewResource(w.gardens, Plain)
	for name, mistake := range map[string]func(){
		"two actions of a name":       func() { New([]Action{{Name: "A"}, {Name: "A"}}, townPager) },
		"a request of another name":   func() { Do("x", func(*resource.Tx, *nameless) (*nameless, error) { return nil, nil }) },
		"an update without an id":     func() { Update(gardens, func(*resource.Tx, *garden, *DeletePlotRequest) error { return nil }) },
		"a request that holds a map":  func() { decoderOf(reflect.TypeFor[map[string]int]()) },
		"an answer that holds a map":  func() { encoderOf(reflect.TypeFor[map[string]int](), Latest) },
		"an answer that holds uint8s": func() { encoderOf(reflect.TypeFor[[]byte](), Latest) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer func() {
				if recover() == nil {
					t.Error("the program goes on")
				}
			}()
			mistake()
		})
	}
}

func TestFixedPositionsRise(t *testing.T) {
	t.Parallel()
	source := Fixed("Season", "Seasons", []season{{"spring"}, {"summer"}, {"autumn"}}).(values[season])
	last, n := Position{}, 0
	for p := range source.list(nil) {
		if !p.After(last) {
			t.Errorf("the position %v does not come after %v", p, last)
		}
		last, n = p, n+1
	}
	if n != 3 {
		t.Errorf("there are %d positions, want 3", n)
	}
}
