// Package export writes the content of a store as lines of JSON, and reads such
// lines to fill another store: the way between two engines.
//
// The first line is a [Header]. Then comes a line for each account, in the
// order of their ids, and after it a line for each of its rows, in the order of
// their kinds and ids; both compare byte by byte. The last line counts the
// accounts and the rows: an export without it was cut off.
//
//	{"format":1,"region":"eu-west-2","time":"2026-11-20T12:00:00Z","secrets":"sealed"}
//	{"account":"123456789012","version":7,"pending":1}
//	{"kind":"Net","id":"vpc-12345678","version":7,"seq":6291457,"doc":{"NetId":"vpc-12345678",…}}
//	{"end":{"accounts":1,"rows":1}}
//
// A [store.Codec] gives documents their meaning. A [Recoder] combines two sets
// of codecs, to check documents and to seal or open the secrets in them.
package export

import (
	"fmt"
	"time"

	"github.com/bastide-cloud/bastide/internal/store"
)

// Format is the version of the format that this program writes and reads.
const Format = 1

// Header is the first line of an export.
type Header struct {
	Format  int       `json:"format"`
	Region  string    `json:"region"` // the name of the region
	Time    time.Time `json:"time"`   // when the export was made
	Secrets Secrets   `json:"secrets"`
}

// Secrets is the form of the secrets in an export.
type Secrets string

// The forms of secrets.
const (
	Sealed Secrets = "sealed" // encrypted with the master key of the region
	Open   Secrets = "open"   // in plain text
)

// Totals counts the content of an export.
type Totals struct {
	Accounts int `json:"accounts"`
	Rows     int `json:"rows"`
}

func (t Totals) String() string {
	return fmt.Sprintf("%d rows of %d accounts", t.Rows, t.Accounts)
}

// Recoder reads documents with one set of codecs and writes them with another.
type Recoder struct{ read, write map[string]store.Codec }

// NewRecoder returns a Recoder for the kinds of read. A document whose kind is
// not in write is checked and stays the same, to the byte.
func NewRecoder(read, write []store.Codec) *Recoder {
	return &Recoder{byName(read), byName(write)}
}

func byName(codecs []store.Codec) map[string]store.Codec {
	m := map[string]store.Codec{}
	for _, c := range codecs {
		m[c.Name()] = c
	}
	return m
}

// Row replaces the document of the row by the one to write, and reports whether
// a loop must look at its object.
func (c *Recoder) Row(account string, row *store.Row) (pending bool, err error) {
	read, ok := c.read[row.Kind]
	if !ok {
		return false, fmt.Errorf("%s is of the kind %s, which this program does not know: was it written by a newer one?", row.ID, row.Kind)
	}
	at := store.Place{Account: account, Kind: row.Kind, ID: row.ID}
	value, err := read.Decode(at, row.Doc)
	if err != nil {
		return false, fmt.Errorf("the document of %s %s: %w", row.Kind, row.ID, err)
	}
	if write, ok := c.write[row.Kind]; ok {
		if row.Doc, err = write.Encode(at, value); err != nil {
			return false, fmt.Errorf("the document of %s %s: %w", row.Kind, row.ID, err)
		}
	}
	return row.DeletedAt != 0 || read.Pending(value), nil
}
