package apilog

import (
	"time"

	"zombiezen.com/go/sqlite"
)

// A Record is one call, as ReadApiLogs shows it. Sizes are in bytes.
type Record struct {
	AccountID string // AccountId: whose call it was, by its credentials.
	AccessKey string // QueryAccessKey: the key that signed, as sent; empty when none did.
	Action    string // QueryCallName: the action, such as ReadVms.
	API       string // QueryApiName: oapi for the main API.
	Version   string // QueryApiVersion: the version that was asked for, such as 1.42.
	IP        string // QueryIpAddress: the caller's address, without the port.
	UserAgent string // QueryUserAgent: the header of that name, as sent.
	RequestID string // RequestId: the id that the answer gave in its ResponseContext.

	Date     time.Time     // QueryDate: when the request came; kept in UTC, to the millisecond.
	Duration time.Duration // CallDuration: until the answer was sent; kept and published in microseconds.

	HeaderRaw  string // QueryHeaderRaw: what MaskHeader made of the request's header.
	PayloadRaw string // QueryPayloadRaw: what MaskPayload made of the request's body.

	HeaderSize   int // QueryHeaderSize: the header as it was sent, before masking.
	PayloadSize  int // QueryPayloadSize: the body as it was sent, before masking and cutting.
	ResponseSize int // ResponseSize: the body of the answer.
	Status       int // ResponseStatusCode: the HTTP status of the answer.
}

// schema makes a day's table. seq counts the rows of the day as they were
// written. The index has an account's rows in the order of a query, and with
// what filters look at, so that rows that do not match are passed over without
// being read: ten times faster when few match, for a quarter more disk. The
// user agent is too long for that.
const schema = `
CREATE TABLE IF NOT EXISTS call (
	seq           INTEGER PRIMARY KEY,
	date          INTEGER NOT NULL, -- milliseconds since 1970, UTC
	duration      INTEGER NOT NULL, -- microseconds
	header_size   INTEGER NOT NULL,
	payload_size  INTEGER NOT NULL,
	response_size INTEGER NOT NULL,
	status        INTEGER NOT NULL,
	account       TEXT NOT NULL,
	access_key    TEXT NOT NULL,
	action        TEXT NOT NULL,
	api           TEXT NOT NULL,
	version       TEXT NOT NULL,
	ip            TEXT NOT NULL,
	user_agent    TEXT NOT NULL,
	request_id    TEXT NOT NULL,
	header        TEXT NOT NULL,
	payload       TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS call_account_date
	ON call (account, date, seq, status, action, access_key, api, ip, request_id);
`

// insertRow lets SQLite count seq on.
const insertRow = `INSERT INTO call VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

// numberCount and textCount are how many columns of each sort follow seq.
const (
	numberCount = 6
	textCount   = 10
)

// numbers are the columns that are numbers, in their order.
func (r *Record) numbers() [numberCount]int64 {
	return [...]int64{
		r.Date.UnixMilli(), r.Duration.Microseconds(),
		int64(r.HeaderSize), int64(r.PayloadSize), int64(r.ResponseSize), int64(r.Status),
	}
}

// texts are the columns that are texts, in their order.
func (r *Record) texts() [textCount]*string {
	return [...]*string{
		&r.AccountID, &r.AccessKey, &r.Action, &r.API, &r.Version,
		&r.IP, &r.UserAgent, &r.RequestID, &r.HeaderRaw, &r.PayloadRaw,
	}
}

// scan reads the row that stmt stands on, with all columns.
func (r *Record) scan(stmt *sqlite.Stmt) Position {
	at := Position{Seq: stmt.ColumnInt64(0), Date: stmt.ColumnInt64(1)}
	r.Date = time.UnixMilli(at.Date).UTC()
	r.Duration = time.Duration(stmt.ColumnInt64(2)) * time.Microsecond
	r.HeaderSize = stmt.ColumnInt(3)
	r.PayloadSize = stmt.ColumnInt(4)
	r.ResponseSize = stmt.ColumnInt(5)
	r.Status = stmt.ColumnInt(6)
	for i, text := range r.texts() {
		*text = stmt.ColumnText(1 + numberCount + i)
	}
	return at
}

// A slab holds rows without a pointer in it, so that the garbage collector
// passes over it and taking a row in costs two copies.
type slab struct {
	numbers []int64 // of each row: its numbers, then the length of each of its texts
	text    []byte  // the texts, one after the other
}

// rowWidth is how many numbers a row has in a slab.
const rowWidth = numberCount + textCount

func (s *slab) rows() int { return len(s.numbers) / rowWidth }

func (s *slab) size() int { return 8*len(s.numbers) + len(s.text) }

func (s *slab) reset() {
	s.numbers, s.text = s.numbers[:0], s.text[:0]
}

func (s *slab) add(r *Record) {
	numbers := r.numbers()
	s.numbers = append(s.numbers, numbers[:]...)
	for _, text := range r.texts() {
		s.numbers = append(s.numbers, int64(len(*text)))
		s.text = append(s.text, *text...)
	}
}

// A rowReader walks the rows of a slab.
type rowReader struct {
	numbers []int64
	text    string
}

func (r *rowReader) rows() int { return len(r.numbers) / rowWidth }

func (r *rowReader) more() bool { return len(r.numbers) > 0 }

// splitDay splits off the rows up to the first of another day.
func (r *rowReader) splitDay() (day, rowReader) {
	on, end, length := dayOf(r.numbers[0]), 0, 0
	for end < len(r.numbers) && dayOf(r.numbers[end]) == on {
		for _, n := range r.numbers[end+numberCount : end+rowWidth] {
			length += int(n)
		}
		end += rowWidth
	}
	part := rowReader{r.numbers[:end], r.text[:length]}
	r.numbers, r.text = r.numbers[end:], r.text[length:]
	return on, part
}

// bind gives the row to stmt, which is insertRow, and goes to the next one.
func (r *rowReader) bind(stmt *sqlite.Stmt) {
	for i, number := range r.numbers[:numberCount] {
		stmt.BindInt64(1+i, number)
	}
	for i, length := range r.numbers[numberCount:rowWidth] {
		stmt.BindText(1+numberCount+i, r.text[:length])
		r.text = r.text[length:]
	}
	r.numbers = r.numbers[rowWidth:]
}
