package api

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"reflect"

	"github.com/bastide-cloud/bastide/internal/apierror"
)

// Page is the part of a request that asks for a page of a list.
type Page struct {
	NextPageToken  string   `format:"byte"` // The token to request the next page of results.
	ResultsPerPage PageSize `default:"100"` // The maximum number of items in the response.
}

// PageSize is a number of results.
type PageSize int

// Bounds implements [Bounded].
func (PageSize) Bounds() (low, high int64) { return 1, 1000 }

// PageBytes is the maximum size of the list of a page in bytes of JSON: a
// larger page ends earlier, but has at least one value. A thousand resources of
// ordinary size take a third of it.
const PageBytes = 4 << 20

// wholeBytes is the maximum size of a list in a version without pages: a larger
// one is refused.
const wholeBytes = 8 * PageBytes

// NextPage is the part of a response that leads to the next page, if there is
// one.
type NextPage struct {
	// The token to request the next page of results.
	NextPageToken string `format:"byte" wire:"omitempty"`

	rest *rest // nil: the page is not cut
}

// rest makes the token of the page after so many values of this one.
type rest struct{ token func(shown int) string }

// IndexPage is the part of a request that asks for a page by number, as the
// EIM actions do.
type IndexPage struct {
	FirstItem      int      `default:"0"`   // The number of the first item of the response, from 0.
	ResultsPerPage PageSize `default:"100"` // The maximum number of items in the response.
}

// IndexedPage is the part of a response that shows what a page leaves out.
type IndexedPage struct {
	HasMoreItems        bool     // Whether there are items after those in the response.
	MaxResultsLimit     PageSize // The maximum number of items that the response could have.
	MaxResultsTruncated bool     // Whether that number left out items.

	cuts bool // the page may be cut
}

// endOf is the field of an answer that says where its page goes on; 0: it has
// none, or no list before it.
func endOf(answer reflect.Type) int {
	for i := 1; i < answer.NumField(); i++ {
		t := answer.Field(i).Type
		if (t == reflect.TypeFor[NextPage]() || t == reflect.TypeFor[IndexedPage]()) && answer.Field(0).Type.Kind() == reflect.Slice {
			return i
		}
	}
	return 0
}

// cutOf makes of such a field the one of a page that shows only so many of its
// values. How many fit is known when they are encoded, and not before. It is nil
// for a page that shows all whatever their size.
func cutOf(end reflect.Value) func(shown int) any {
	switch end := end.Interface().(type) {
	case NextPage:
		if end.rest != nil {
			return func(shown int) any { return NextPage{NextPageToken: end.rest.token(shown)} }
		}
	case IndexedPage:
		if end.cuts {
			return func(int) any { return IndexedPage{true, end.MaxResultsLimit, true, true} }
		}
	}
	return nil
}

// Position is the place of a value in a list. A value keeps it while others
// come and go: resources stand in order of creation, and what belongs to one
// resource stands in order of its name.
type Position struct {
	Seq  uint64
	Name string
}

// After reports whether p comes after q.
func (p Position) After(q Position) bool {
	return p.Seq > q.Seq || p.Seq == q.Seq && p.Name > q.Name
}

// Pager issues and reads page tokens. A token has the position after which the
// next page begins, and a code that only this region can compute for its
// account and action. The position is the last one shown and not a count, so
// that a page neither repeats nor skips anything when resources are created and
// deleted between two calls.
type Pager struct{ key []byte }

// NewPager returns a Pager with a secret key, which is the same on all nodes.
func NewPager(key []byte) *Pager { return &Pager{key} }

// tokenCode is the length of a token's code in bytes.
const tokenCode = 16

// Token returns the token of the page after a position.
func (p *Pager) Token(account, action string, after Position) string {
	b := binary.BigEndian.AppendUint64(nil, after.Seq)
	b = append(b, after.Name...)
	return base64.StdEncoding.EncodeToString(append(b, p.code(account, action, b)...))
}

// Position reads a token; the empty token is the beginning.
func (p *Pager) Position(account, action, token string) (Position, error) {
	if token == "" {
		return Position{}, nil
	}
	b, err := base64.StdEncoding.DecodeString(token)
	end := len(b) - tokenCode
	if err != nil || end < 8 || !hmac.Equal(b[end:], p.code(account, action, b[:end])) {
		return Position{}, apierror.InvalidPageToken.Errorf("NextPageToken was not returned by %s to this account.", action)
	}
	return Position{Seq: binary.BigEndian.Uint64(b), Name: string(b[8:end])}, nil
}

func (p *Pager) code(account, action string, position []byte) []byte {
	h := hmac.New(sha256.New, p.key)
	h.Write([]byte(account + "\x00" + action + "\x00"))
	h.Write(position)
	return h.Sum(nil)[:tokenCode]
}
