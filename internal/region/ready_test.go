package region

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bastide-cloud/bastide/internal/store"
	"github.com/bastide-cloud/bastide/internal/store/sqljournal"
)

// lines is a log that hands on each line.
type lines chan string

func (l lines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

// A region with a page that cannot be read starts, finds it, and is not ready
// from then on.
func TestDamagedRegionIsNotReady(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	foundAndClose(t, options(data, 1))
	// An account that is not needed at the start, on pages of its own.
	journal, err := sqljournal.Open(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	rows := make([]store.Row, 1000)
	for i := range rows {
		rows[i] = store.Row{Kind: "box", ID: strings.Repeat("x", i), Doc: []byte(`"` + strings.Repeat("y", 1000) + `"`)}
	}
	if err := journal.Commit(t.Context(), []store.Batch{{Account: "999999999999", Version: 1, Rows: rows}}); err != nil {
		t.Fatal(err)
	}
	if err := journal.Close(); err != nil {
		t.Fatal(err)
	}
	answer := func(r *Region, path string) (int, string) {
		w := httptest.NewRecorder()
		r.Admin.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil))
		return w.Code, w.Body.String()
	}
	whole, err := Open(t.Context(), options(data, 2))
	if err != nil {
		t.Fatal(err)
	}
	if code, text := answer(whole, "/readyz"); code != http.StatusOK {
		t.Errorf("a whole region is not ready: %d %s", code, text)
	}
	if err := whole.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(data, "region.db")
	pages, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	copy(pages[len(pages)/2/4096*4096:], bytes.Repeat([]byte("garbage!"), 512))
	if err := os.WriteFile(file, pages, 0o600); err != nil {
		t.Fatal(err)
	}
	o, log := options(data, 2), make(lines, 10)
	o.Logger = slog.New(slog.NewTextHandler(log, nil))
	r := open(t, o)
	if line := <-log; !strings.Contains(line, "level=ERROR") || !strings.Contains(line, "damaged") {
		t.Errorf("the log says %s", line)
	}
	for range 2 {
		if code, text := answer(r, "/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(text, "damaged") {
			t.Errorf("a damaged region answers %d %s", code, text)
		}
	}
	if code, text := answer(r, "/healthz"); code != http.StatusOK {
		t.Errorf("it does not live: %d %s", code, text)
	}
}
