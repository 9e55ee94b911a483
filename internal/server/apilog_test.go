package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apilog"
)

// A page of the API log ends before it becomes large, and the pages have all
// calls, once.
func TestPagesOfTheApiLogEndByBytes(t *testing.T) {
	t.Parallel()
	r := openRegion(t)
	account := r.Founded.AccountID
	// Texts that become longer in an answer, each in its own way.
	texts := []string{"plain ", `"quotes" and \`, "lines\n", "\xff\xfe no text ", "é "}
	const calls = 150
	for i := range calls {
		r.Calls.Append(&apilog.Record{
			AccountID: account, Action: "CreateNet", RequestID: fmt.Sprint(i), Date: start.Add(time.Duration(i-calls) * time.Millisecond),
			HeaderRaw:  strings.Repeat(`Name: "value"\n`, 1<<10),
			PayloadRaw: strings.Repeat(texts[i%len(texts)], 60<<10/len(texts[i%len(texts)])),
		})
	}
	read := func(with, token string) (ids []string, next string, size int) {
		t.Helper()
		body := fmt.Sprintf(`{"ResultsPerPage": 1000, "Filters": {"QueryCallNames": ["CreateNet"]}, "With": %s, "NextPageToken": %q}`, with,
			token)
		answer := serve(r.Handler, signed(t, call("ReadApiLogs", body), r.Founded))
		if answer.Code != http.StatusOK {
			t.Fatalf("ReadApiLogs: %d, %.200s", answer.Code, answer.Body)
		}
		size = answer.Body.Len()
		var page struct {
			Logs          []struct{ RequestId string }
			NextPageToken string
		}
		if err := json.Unmarshal(answer.Body.Bytes(), &page); err != nil {
			t.Fatal(err)
		}
		for _, log := range page.Logs {
			ids = append(ids, log.RequestId)
		}
		return ids, page.NextPageToken, size
	}

	var all []string
	for pages, token := 1, ""; ; pages++ {
		ids, next, size := read("{}", token)
		if size > api.PageBytes {
			t.Errorf("page %d has %d bytes, want at most %d", pages, size, api.PageBytes)
		}
		if next != "" && size < api.PageBytes/2 {
			t.Errorf("page %d has %d bytes and is not the last: it could have more", pages, size)
		}
		all = append(all, ids...)
		if token = next; token == "" {
			break
		}
	}
	if len(all) != calls {
		t.Errorf("the pages have %d calls, want %d", len(all), calls)
	}
	for i, id := range all {
		if id != fmt.Sprint(i) {
			t.Fatalf("call %d of the pages is %s", i, id)
		}
	}

	// What is not shown does not count.
	if ids, next, _ := read(`{"QueryPayloadRaw": false, "QueryHeaderRaw": false}`, ""); len(ids) != calls || next != "" {
		t.Errorf("without headers and bodies a page has %d of %d calls", len(ids), calls)
	}
}
