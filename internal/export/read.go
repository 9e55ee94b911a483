package export

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bastide-cloud/bastide/internal/store"
)

// Reader reads an export.
type Reader struct {
	Header Header
	Totals Totals // read so far

	lines *bufio.Scanner
	n     int // number of the last line read

	recode  *Recoder
	account store.Batch         // the account being read, with the rows not yielded yet
	last    line                // the last row of the account
	seqs    map[uint64]struct{} // of the account
	ended   bool                // the last line was read
}

// maxLine is the maximum length of a line, which bounds the memory that a wrong
// file can take.
const maxLine = 64 << 20

// NewReader reads the header of an export.
func NewReader(from io.Reader) (*Reader, error) {
	r := &Reader{lines: bufio.NewScanner(from)}
	r.lines.Buffer(make([]byte, 1<<20), maxLine)
	text, err := r.next()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("there is nothing to import: the input is empty")
	}
	if err != nil {
		return nil, err
	}
	// The header of another format may have other members.
	if err := json.Unmarshal(text, &r.Header); err != nil || r.Header.Format == 0 {
		return nil, errors.New("line 1: this is not the first line of an export")
	}
	if r.Header.Format != Format {
		return nil, fmt.Errorf("line 1: the export is of format %d, and this program reads %d", r.Header.Format, Format)
	}
	if s := r.Header.Secrets; s != Sealed && s != Open {
		return nil, fmt.Errorf("line 1: secrets are %q, and neither %s nor %s", s, Sealed, Open)
	}
	return r, nil
}

// next returns the next line, or io.EOF.
func (r *Reader) next() ([]byte, error) {
	more := r.lines.Scan()
	switch err := r.lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fmt.Errorf("line %d is longer than %d MiB", r.n+1, maxLine>>20)
	case err != nil: // even if there is a line: it may be half of one
		return nil, fmt.Errorf("reading what follows line %d: %w", r.n, err)
	case !more:
		return nil, io.EOF
	}
	r.n++
	return r.lines.Bytes(), nil
}

// Batches yields the content of the export, for [store.Dumper.Fill]. Every
// document passes through the Recoder, which also counts what is pending,
// because another program may have counted differently. An error names its
// line; an export that was cut off ends with one.
func (r *Reader) Batches(recode *Recoder) iter.Seq2[store.Batch, error] {
	r.recode = recode
	return func(yield func(store.Batch, error) bool) {
		for {
			b, err := r.batch()
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(b, err) || err != nil {
				return
			}
		}
	}
}

// pieceRows is the maximum number of rows of a batch.
const pieceRows = 500

// batch reads an account, or a part of one that has many rows. After the last
// one it returns io.EOF.
func (r *Reader) batch() (store.Batch, error) {
	r.account.Rows = nil
	for !r.ended {
		text, err := r.next()
		if errors.Is(err, io.EOF) {
			err = fmt.Errorf("the export was cut off after line %d", r.n)
		}
		if err != nil {
			return store.Batch{}, err
		}
		before := r.account
		if err := r.line(text); err != nil {
			return store.Batch{}, fmt.Errorf("line %d: %w", r.n, err)
		}
		switch {
		case before.Account != "" && (r.ended || before.Account != r.account.Account):
			return before, nil
		case len(r.account.Rows) == pieceRows:
			return r.account, nil
		}
	}
	text, err := r.next()
	if err == nil {
		err = fmt.Errorf("line %d: more follows the last line of the export: %.20q", r.n, text)
	}
	return store.Batch{}, err
}

// line is any line but the first. The sort of a line follows from the members
// that it has.
type line struct {
	Account *string        `json:"account"`
	Pending int            `json:"unsettled"`
	Kind    string         `json:"kind"`
	ID      string         `json:"id"`
	Version uint64         `json:"version"`
	Seq     uint64         `json:"seq"`
	Gone    int64          `json:"gone"`
	Doc     jsontext.Value `json:"doc"`
	End     *Totals        `json:"end"`
}

func (r *Reader) line(text []byte) error {
	var l line
	if err := json.Unmarshal(text, &l, json.RejectUnknownMembers(true)); err != nil {
		return err
	}
	switch {
	case l.Account != nil && l.Doc == nil && l.End == nil:
		return r.begin(*l.Account, l.Version)
	case l.Account == nil && l.Doc != nil && l.End == nil:
		return r.row(l)
	case l.Account == nil && l.Doc == nil && l.End != nil:
		return r.end(*l.End)
	}
	return errors.New(`a line has one of "account", "doc" and "end"`)
}

// begin starts an account.
func (r *Reader) begin(id string, version uint64) error {
	if id == "" || version == 0 {
		return errors.New("an account has an id and a version")
	}
	if id <= r.account.Account {
		return fmt.Errorf("the account %q comes after %q: accounts are in order, and each comes once", id, r.account.Account)
	}
	r.account = store.Batch{Account: id, Version: version}
	r.last, r.seqs = line{}, map[uint64]struct{}{}
	r.Totals.Accounts++
	return nil
}

func (r *Reader) row(l line) error {
	switch {
	case r.account.Account == "":
		return errors.New("a row comes before the first account")
	case l.Kind == "" || l.ID == "" || l.Seq == 0:
		return errors.New("a row has a kind, an id and a seq")
	case l.Doc.Kind() != '{':
		return errors.New("the document of a row is an object")
	case l.Kind < r.last.Kind || l.Kind == r.last.Kind && l.ID <= r.last.ID:
		return fmt.Errorf("%s %q comes after %s %q: the rows of an account are in order, and each comes once", l.Kind, l.ID, r.last.Kind,
			r.last.ID)
	// The store relies on these two for the seqs of later objects to be unique.
	case l.Version > r.account.Version:
		return fmt.Errorf("%s %s has the version %d, and its account only %d", l.Kind, l.ID, l.Version, r.account.Version)
	case store.MadeAt(l.Seq) > l.Version:
		return fmt.Errorf("%s %s has the version %d, and a seq of version %d", l.Kind, l.ID, l.Version, store.MadeAt(l.Seq))
	}
	if _, taken := r.seqs[l.Seq]; taken {
		return fmt.Errorf("%s %s has the seq of another row of its account", l.Kind, l.ID)
	}
	row := store.Row{Kind: l.Kind, ID: l.ID, Version: l.Version, Seq: l.Seq, DeletedAt: l.Gone, Doc: l.Doc}
	pending, err := r.recode.Row(r.account.Account, &row)
	if err != nil {
		return err
	}
	if pending {
		r.account.Pending++
	}
	r.account.Rows = append(r.account.Rows, row)
	r.last, r.seqs[l.Seq] = l, struct{}{}
	r.Totals.Rows++
	return nil
}

// end reads the last line.
func (r *Reader) end(want Totals) error {
	if r.Totals != want {
		return fmt.Errorf("the export should have %s, and has %s", want, r.Totals)
	}
	r.ended = true
	return nil
}
