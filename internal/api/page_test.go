package api

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// page is a page of gardens, as a client sees it.
type page struct {
	Gardens       []struct{ Title string }
	NextPageToken string
	IndexedPage
}

func (w *town) page(action, body string) (page, []string) {
	w.Helper()
	var p page
	if err := json.Unmarshal([]byte(w.ask(action, body)), &p); err != nil {
		w.Fatal(err)
	}
	titles := []string{}
	for _, g := range p.Gardens {
		titles = append(titles, g.Title)
	}
	return p, titles
}

// TestPagesAreStable walks through pages while gardens come and go: none is
// shown twice, and none that was there all the time is left out.
func TestPagesAreStable(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newTown(t)
		defer w.db.Close()
		ids, made := map[string]gardenID{}, 0
		grow := func() {
			made++
			g := w.plant(&garden{Title: fmt.Sprint("garden ", made), Size: made % 2})
			ids[g.Title] = g.GardenId
		}
		clear := func() {
			if len(ids) > 0 {
				title := rapid.SampledFrom(slices.Sorted(maps.Keys(ids))).Draw(t, "cleared")
				w.ask("DeleteGarden", `{"GardenId":"`+string(ids[title])+`"}`)
				delete(ids, title)
			}
		}
		for range rapid.IntRange(0, 12).Draw(t, "gardens") {
			grow()
		}
		filters := rapid.SampledFrom([]string{`{}`, `{"Sizes":[1]}`, `{"Areas":[10]}`, `{"Titles":["garden*"],"Sizes":[1]}`}).Draw(t, "filters")
		odd := filters != `{}`
		throughout, shown := maps.Clone(ids), map[string]bool{}
		for token, first := "", true; first || token != ""; first = false {
			size := rapid.IntRange(1, 4).Draw(t, "size")
			p, titles := w.page("ReadGardens", fmt.Sprintf(`{"Filters":%s,"ResultsPerPage":%d,"NextPageToken":%q}`, filters, size, token))
			if len(titles) > size {
				t.Fatalf("a page of %d has %d gardens", size, len(titles))
			}
			for _, title := range titles {
				if shown[title] {
					t.Fatalf("%s is shown twice", title)
				}
				shown[title] = true
			}
			token = p.NextPageToken
			for range rapid.IntRange(0, 3).Draw(t, "changes") {
				rapid.SampledFrom([]func(){grow, clear}).Draw(t, "change")()
				maps.DeleteFunc(throughout, func(title string, _ gardenID) bool { return ids[title] == "" })
			}
		}
		for title := range throughout {
			var n int
			fmt.Sscanf(title, "garden %d", &n)
			if !shown[title] && (!odd || n%2 == 1) {
				t.Errorf("%s was there all the time and is not shown", title)
			}
		}
	})
}

func TestLastPageHasNoToken(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	for i := range 4 {
		w.plant(&garden{Title: fmt.Sprint(i)})
	}
	for size, pages := range map[int]int{1: 4, 2: 2, 3: 2, 4: 1, 5: 1} {
		token, n := "", 0
		for {
			p, _ := w.page("ReadGardens", fmt.Sprintf(`{"ResultsPerPage":%d,"NextPageToken":%q}`, size, token))
			n++
			if token = p.NextPageToken; token == "" {
				break
			}
		}
		if n != pages {
			t.Errorf("4 gardens make %d pages of %d, want %d", n, size, pages)
		}
	}
	if got := w.ask("ReadGardens", `{"ResultsPerPage":4}`); strings.Contains(got, "NextPageToken") {
		t.Errorf("the only page is %s", got)
	}
}

func TestPagesByNumber(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	for i := range 5 {
		w.plant(&garden{Title: fmt.Sprint(i), Size: i % 2})
	}
	for body, want := range map[string]struct {
		titles []string
		more   bool
		limit  PageSize
	}{
		`{}`:                                      {[]string{"0", "1", "2", "3", "4"}, false, 100},
		`{"ResultsPerPage":2}`:                    {[]string{"0", "1"}, true, 2},
		`{"ResultsPerPage":2,"FirstItem":2}`:      {[]string{"2", "3"}, true, 2},
		`{"ResultsPerPage":2,"FirstItem":3}`:      {[]string{"3", "4"}, false, 2},
		`{"ResultsPerPage":2,"FirstItem":4}`:      {[]string{"4"}, false, 2},
		`{"ResultsPerPage":2,"FirstItem":5}`:      {[]string{}, false, 2},
		`{"ResultsPerPage":2,"FirstItem":-1}`:     {[]string{"0", "1"}, true, 2},
		`{"Filters":{"Sizes":[1]},"FirstItem":1}`: {[]string{"3"}, false, 100},
	} {
		p, titles := w.page("ReadGardeners", body)
		if !slices.Equal(titles, want.titles) || p.IndexedPage != (IndexedPage{HasMoreItems: want.more, MaxResultsLimit: want.limit,
			MaxResultsTruncated: want.more}) {
			t.Errorf("%s answers %v %+v, want %+v", body, titles, p.IndexedPage, want)
		}
	}
}

// Large values end a page before their number does: by token or by number, the walk
// shows each once. A version without pages lists all, up to a bound.
func TestPagesEndByBytes(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	const large = PageBytes/2 - 1000 // of which two fit
	want := []string{}
	plant := func(size int) {
		title := fmt.Sprint(len(want))
		want = append(want, title)
		w.plant(&garden{Title: title, Box: strings.Repeat("x", size)})
	}
	for _, size := range []int{large, large, large, 10, 2 * PageBytes, 10, large, large, 10} {
		plant(size)
	}
	sizes := [][]string{{"0", "1"}, {"2", "3"}, {"4"}, {"5", "6", "7", "8"}}
	for action, next := range map[string]func(p page, seen int) string{
		"ReadGardens": func(p page, _ int) string {
			if p.NextPageToken == "" {
				return ""
			}
			return `{"NextPageToken":"` + p.NextPageToken + `"}`
		},
		"ReadGardeners": func(p page, seen int) string {
			if p.HasMoreItems != p.MaxResultsTruncated {
				t.Errorf("HasMoreItems is %t and MaxResultsTruncated is %t", p.HasMoreItems, p.MaxResultsTruncated)
			}
			if !p.HasMoreItems {
				return ""
			}
			return fmt.Sprintf(`{"FirstItem":%d}`, seen)
		},
	} {
		var got [][]string
		for body, seen := `{}`, 0; body != ""; {
			p, titles := w.page(action, body)
			got, seen = append(got, titles), seen+len(titles)
			body = next(p, seen)
		}
		if diff := cmp.Diff(sizes, got); diff != "" {
			t.Errorf("the pages of %s (-want +got):\n%s", action, diff)
		}
	}
	if got, err := w.call(alice, "1.1", "ReadSubnets", ""); err != nil || strings.Count(got, `"Title"`) != len(want) {
		t.Errorf("version 1.1 lists %d of %d, %v", strings.Count(got, `"Title"`), len(want), err)
	}
	for range 3 {
		plant(wholeBytes / 4)
	}
	_, err := w.call(alice, "1.1", "ReadSubnets", "")
	if !apierror.InsufficientCapacity.Is(err) || !strings.Contains(err.Error(), "or call version 1.29.3 or later") {
		t.Errorf("what is too large for version 1.1: %v", err)
	}
}

func TestVersionsWithoutPagesListAll(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	const n = 120
	for i := range n {
		w.plant(&garden{Title: fmt.Sprint(i)})
	}
	for version, want := range map[string]int{"1.1": n, "1.42.0": 100} {
		answer, err := w.call(alice, version, "ReadSubnets", "")
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(answer, `"GardenId"`); got != want || strings.Contains(answer, "NextPageToken") != (want < n) {
			t.Errorf("version %s lists %d of %d, want %d: …%s", version, got, n, want, answer[len(answer)-100:])
		}
	}
	if _, err := w.call(alice, "1.1", "ReadSubnets", `{"ResultsPerPage":1}`); !apierror.UnknownParameter.Is(err) {
		t.Errorf("version 1.1 takes ResultsPerPage: %v", err)
	}
}

func TestValuesInPages(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	first := w.ask("ReadSeasons", `{"ResultsPerPage":3}`)
	var p struct{ NextPageToken string }
	if err := json.Unmarshal([]byte(first), &p); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(first, `{"Seasons":[{"Name":"spring"},{"Name":"summer"},{"Name":"autumn"}],"NextPageToken":"`) {
		t.Errorf("the first page is %s", first)
	}
	if got := w.ask("ReadSeasons", `{"ResultsPerPage":3,"NextPageToken":"`+p.NextPageToken+`"}`); got != `{"Seasons":[{"Name":"winter"}]}` {
		t.Errorf("the second page is %s", got)
	}
	if got := w.ask("ReadSeasons", `{"Filters":{"Names":["autumn","x"]}}`); got != `{"Seasons":[{"Name":"autumn"}]}` {
		t.Errorf("autumn is %s", got)
	}
	// Those of a grouped answer are counted one by one.
	if got := w.ask("ReadYears", `{"ResultsPerPage":3}`); !strings.HasPrefix(got,
		`{"Years":[{"Names":["spring","summer","autumn"]}],"NextPageToken":"`) {
		t.Errorf("the first page of years is %s", got)
	}
}

func TestForgedTokens(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	at := Position{Seq: 7, Name: "key"}
	good := townPager.Token("123456789012", "ReadGardens", at)
	raw, err := base64.StdEncoding.DecodeString(good)
	if err != nil {
		t.Fatal(err)
	}
	forged := map[string]string{
		"not Base64":         "{}",
		"another alphabet":   strings.NewReplacer("+", "-", "/", "_", "=", "").Replace(base64.StdEncoding.EncodeToString(append(raw, 255, 255))),
		"empty inside":       base64.StdEncoding.EncodeToString(nil) + "====",
		"too short":          base64.StdEncoding.EncodeToString(raw[:8]),
		"no position":        base64.StdEncoding.EncodeToString(raw[len(raw)-tokenCode:]),
		"too long":           base64.StdEncoding.EncodeToString(append(slices.Clone(raw), 0)),
		"of another account": townPager.Token("210987654321", "ReadGardens", at),
		"of another action":  townPager.Token("123456789012", "ReadSeasons", at),
		"of a joined name":   townPager.Token("12345678901", "2ReadGardens", at),
		"of another region":  NewPager([]byte("x")).Token("123456789012", "ReadGardens", at),
		"with another code":  townPager.Token("123456789012", "ReadGardens", at)[:len(good)-4] + "AAA=",
		"none of ours":       base64.StdEncoding.EncodeToString(make([]byte, 8+tokenCode)),
	}
	for i := range raw {
		changed := slices.Clone(raw)
		changed[i] ^= 1
		forged[fmt.Sprint("with another byte ", i)] = base64.StdEncoding.EncodeToString(changed)
	}
	for name, token := range forged {
		_, err := w.call(alice, "1.42.0", "ReadGardens", fmt.Sprintf(`{"NextPageToken":%q}`, token))
		if !apierror.InvalidPageToken.Is(err) {
			t.Errorf("a token %s: the error is %v, want code 4117", name, err)
		}
	}
	if _, err := w.call(alice, "1.42.0", "ReadGardens", fmt.Sprintf(`{"NextPageToken":%q}`, good)); err != nil {
		t.Errorf("the true token is refused: %v", err)
	}
}

func TestTokensKeepPositions(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := Position{Seq: rapid.Uint64().Draw(t, "seq"), Name: rapid.String().Draw(t, "name")}
		account, action := rapid.String().Draw(t, "account"), rapid.String().Draw(t, "action")
		got, err := townPager.Position(account, action, townPager.Token(account, action, want))
		if err != nil || got != want {
			t.Fatalf("the position %+v becomes %+v, %v", want, got, err)
		}
	})
}

func TestPositionsAreOrdered(t *testing.T) {
	t.Parallel()
	order := []Position{{}, {0, "a"}, {1, ""}, {1, "a"}, {1, "ab"}, {1, "b"}, {2, ""}, {1 << 63, ""}}
	for i, p := range order {
		for j, q := range order {
			if p.After(q) != (i > j) {
				t.Errorf("%+v comes after %+v: %v, want %v", p, q, p.After(q), i > j)
			}
		}
	}
}

func FuzzPageToken(f *testing.F) {
	f.Add("", "123456789012")
	f.Add(townPager.Token("123456789012", "ReadGardens", Position{Seq: 1}), "123456789012")
	f.Add(townPager.Token("123456789012", "ReadGardens", Position{Seq: 1 << 40, Name: "key"}), "210987654321")
	f.Add("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "")
	f.Fuzz(func(t *testing.T, token, account string) {
		at, err := townPager.Position(account, "ReadGardens", token)
		switch {
		case token == "":
			if err != nil || at != (Position{}) {
				t.Fatalf("no token is the position %+v, %v", at, err)
			}
		case err != nil:
			if !apierror.InvalidPageToken.Is(err) {
				t.Fatalf("%q is refused with %v, want code 4117", token, err)
			}
		default:
			// Only what we would make ourselves is accepted, but for line
			// ends and unused bits that Base64 passes over.
			again, err := base64.StdEncoding.DecodeString(townPager.Token(account, "ReadGardens", at))
			given, _ := base64.StdEncoding.DecodeString(token)
			if err != nil || string(again) != string(given) {
				t.Fatalf("%q is accepted for %+v", token, at)
			}
		}
	})
}

// TestNobodyGetsPages reads the pages of an open action, where nobody is known.
func TestNobodyGetsPages(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	answer, err := w.call(resource.Caller{}, "1.42.0", "ReadSeasons", `{"ResultsPerPage":1}`)
	if err != nil {
		t.Fatal(err)
	}
	var p struct{ NextPageToken string }
	if err := json.Unmarshal([]byte(answer), &p); err != nil {
		t.Fatal(err)
	}
	body := `{"ResultsPerPage":1,"NextPageToken":"` + p.NextPageToken + `"}`
	if got, err := w.call(resource.Caller{}, "1.42.0", "ReadSeasons", body); err != nil || !strings.Contains(got, "summer") {
		t.Errorf("the second page is %s, %v", got, err)
	}
	if _, err := w.call(alice, "1.42.0", "ReadSeasons", body); !apierror.InvalidPageToken.Is(err) {
		t.Errorf("alice may use nobody's token: %v", err)
	}
}
