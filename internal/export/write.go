package export

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"iter"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bastide-cloud/bastide/internal/store"
)

// Write writes an export of batches in the order of [store.Dumper.Dump], and
// returns its totals. Without a Recoder it knows no kinds, and documents stay
// as they are; one that is not JSON is an error.
func Write(w io.Writer, h Header, batches iter.Seq2[store.Batch, error], recode *Recoder) (Totals, error) {
	h.Format = Format
	out := &writer{recode: recode, w: bufio.NewWriterSize(w, 1<<20)}
	if err := out.json(h); err != nil {
		return Totals{}, err
	}
	for b, err := range batches {
		if err == nil {
			err = out.batch(b)
		}
		if err != nil {
			return out.totals, err
		}
	}
	if err := out.json(end{&out.totals}); err != nil {
		return out.totals, err
	}
	return out.totals, out.w.Flush()
}

// end is the last line.
type end struct {
	End *Totals `json:"end"`
}

type writer struct {
	recode  *Recoder
	w       *bufio.Writer
	account string // the current account
	totals  Totals
	line    []byte
}

func (w *writer) json(v any) error {
	text, err := json.Marshal(v)
	if err == nil {
		_, err = w.w.Write(append(text, '\n'))
	}
	return err
}

func (w *writer) batch(b store.Batch) error {
	if w.totals.Accounts == 0 || b.Account != w.account {
		w.account = b.Account
		w.totals.Accounts++
		if err := w.json(accountLine{b.Account, b.Version, b.Pending}); err != nil {
			return fmt.Errorf("the account %q: %w", b.Account, err)
		}
	}
	for i := range b.Rows {
		if err := w.row(&b.Rows[i]); err != nil {
			return fmt.Errorf("account %s: %w", b.Account, err)
		}
	}
	w.totals.Rows += len(b.Rows)
	return nil
}

type accountLine struct {
	Account string `json:"account"`
	Version uint64 `json:"version"`
	Pending int    `json:"unsettled"`
}

// row encodes a line by hand, because there are millions of them.
func (w *writer) row(r *store.Row) (err error) {
	if w.recode != nil {
		if _, err := w.recode.Row(w.account, r); err != nil {
			return err
		}
	}
	doc := jsontext.Value(r.Doc)
	if !doc.IsValid() {
		return fmt.Errorf("the document of %s %s is not JSON", r.Kind, r.ID)
	}
	if bytes.IndexByte(doc, '\n') >= 0 { // it was written by hand
		if err := doc.Compact(); err != nil {
			return err
		}
	}
	line := append(w.line[:0], `{"kind":`...)
	if line, err = jsontext.AppendQuote(line, r.Kind); err != nil {
		return fmt.Errorf("the kind %q: %w", r.Kind, err)
	}
	line = append(line, `,"id":`...)
	if line, err = jsontext.AppendQuote(line, r.ID); err != nil {
		return fmt.Errorf("the id %q: %w", r.ID, err)
	}
	line = strconv.AppendUint(append(line, `,"version":`...), r.Version, 10)
	line = strconv.AppendUint(append(line, `,"seq":`...), r.Seq, 10)
	if r.DeletedAt != 0 {
		line = strconv.AppendInt(append(line, `,"gone":`...), r.DeletedAt, 10)
	}
	line = append(append(line, `,"doc":`...), doc...)
	w.line = append(line, "}\n"...)
	_, err = w.w.Write(w.line)
	return err
}
